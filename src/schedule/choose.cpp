// SPDX-License-Identifier: Apache-2.0
#include "schedule/choose.hpp"

#include "schedule/exact.hpp"
#include "schedule/fuse.hpp"
#include "schedule/generators.hpp"
#include "schedule/memory_room.hpp"
#include "schedule/work_bounds.hpp"

namespace evener::schedule {

using program::Schedule;

namespace {

class Chooser {
  public:
    Chooser(program::Plan const& plan, WorkGraph const& graph) : plan_{plan}, graph_{graph} {}

    /// Takes the schedule if it fits and is faster than all before.
    void offer(std::string const& name, Schedule schedule) {
        Evaluation run = evaluate(graph_, schedule);
        bool const fits = fits_memory(graph_, run);
        if (fits && (!found_ || run.seconds < choice_.seconds)) {
            choice_.schedule = std::move(schedule);
            choice_.seconds = run.seconds;
            choice_.chosen = choice_.candidates.size();
            found_ = true;
        }
        choice_.candidates.push_back({name, {}, fits, run.seconds, std::move(run.peak_bytes)});
    }

    void offer_generated(std::string const& name) {
        if (std::string problem = generator_problem(plan_, name); !problem.empty()) {
            choice_.candidates.push_back({name, std::move(problem), false, 0, {}});
            return;
        }
        program::Plan plan = plan_;
        plan.schedule = name;
        plan.split_backward = false;
        Schedule const whole = generate(plan, program::ProgramKind::train);
        plan.split_backward = true;
        Schedule split = generate(plan, program::ProgramKind::train);
        bool const differ = split.ranks != whole.ranks;
        offer(name, whole);
        if (differ)
            offer(name + ", split", std::move(split));
    }

    Schedule const& schedule() const { return choice_.schedule; }

    Choice take() {
        // Fewer and longer instructions are better where they cost no time.
        Schedule fused = fuse_adjacent(choice_.schedule, graph_);
        Evaluation const run = evaluate(graph_, fused);
        if (run.seconds <= choice_.seconds && fits_memory(graph_, run)) {
            choice_.schedule = std::move(fused);
            choice_.seconds = run.seconds;
        }
        choice_.schedule.name = "auto";
        choice_.lower_bound = lower_bound(graph_);
        return std::move(choice_);
    }

  private:
    program::Plan const& plan_;
    WorkGraph const& graph_;
    Choice choice_;
    bool found_ = false;
};

} // namespace

Choice choose(program::Plan const& plan, WorkGraph const& graph, ChooseOptions const& options) {
    Chooser chooser{plan, graph};
    for (std::string_view const name : generator_names())
        chooser.offer_generated(std::string{name});
    chooser.offer("greedy", greedy(graph, options.greedy));
    chooser.offer("improved", improve(graph, chooser.schedule(), options.improve));
    chooser.offer("beam", beam_search(graph, chooser.schedule(), options.beam_work_budget));
    return chooser.take();
}

} // namespace evener::schedule
