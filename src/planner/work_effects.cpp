// SPDX-License-Identifier: Apache-2.0
#include "planner/work_effects.hpp"

#include "core/median.hpp"
#include "schedule/contention.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace evener::planner {

using program::Work;
using program::WorkFactors;
using program::WorkKind;

namespace {

constexpr double unknown = -1;
constexpr std::size_t fewest_samples = 3;
/// By what part of all neighbours work must differ in busy ones to tell what they cost.
constexpr double least_spread = 0.3;

constexpr std::pair<WorkKind, double WorkFactors::*> kinds[] = {
    {WorkKind::forward, &WorkFactors::forward},
    {WorkKind::backward, &WorkFactors::backward},
    {WorkKind::backward_input, &WorkFactors::backward_input},
    {WorkKind::backward_weight, &WorkFactors::backward_weight}};

/// Samples of one kind of work.
struct Half {
    std::vector<double> neighbours;
    std::vector<double> seconds;

    void add(double busy, double taken) {
        neighbours.push_back(busy);
        seconds.push_back(taken);
    }
};

/// Those that are known, for those that are not.
void complete(std::vector<double>& values, double otherwise) {
    std::vector<double> known;
    std::copy_if(values.begin(), values.end(), std::back_inserter(known),
                 [](double value) { return value != unknown; });
    std::replace(values.begin(), values.end(), unknown,
                 known.empty() ? otherwise : core::median(known));
}

} // namespace

WorkEffects::WorkEffects(std::vector<CalibrationRun> const& runs, std::vector<int> const& nodes)
    : samples_(nodes.size()), repeat_(nodes.size()) {
    for (CalibrationRun const& run : runs)
        collect(run, nodes);
    for (std::size_t r = 0; r < nodes.size(); ++r)
        contention_.push_back(find_contention(
            r, static_cast<double>(std::count(nodes.begin(), nodes.end(), nodes[r]) - 1)));
    complete(contention_, 0);
    for (auto const& [kind, factor] : kinds) {
        std::vector<double> factors;
        for (std::size_t r = 0; r < nodes.size(); ++r)
            factors.push_back(find_repeat(r, kind));
        complete(factors, 1);
        for (std::size_t r = 0; r < nodes.size(); ++r)
            repeat_[r].*factor = factors[r];
    }
}

void WorkEffects::collect(CalibrationRun const& run, std::vector<int> const& nodes) {
    for (program::Measurement const& step : run.steps) {
        auto const neighbours = schedule::busy_neighbours(run.set, step.timeline, nodes);
        for (std::size_t r = 0; r < samples_.size(); ++r) {
            auto const& list = run.set.programs[r].instructions;
            std::vector<bool> const repeated = program::repeats(run.set.programs[r]);
            std::optional<Work> before;
            for (std::size_t i = 0; i < list.size(); ++i) {
                std::optional<Work> work = program::work_of(list[i].operation);
                if (!work)
                    continue;
                work->microbatch = {};
                samples_[r].push_back({*work, before.value_or(Work{}), !before, repeated[i],
                                       neighbours[r][i], step.timeline.ranks[r][i].seconds()});
                before = work;
            }
        }
    }
}

/// From work of which some had fewer and some had more busy neighbours, behind the same work.
double WorkEffects::find_contention(std::size_t rank, double all_neighbours) const {
    auto const key = [](Sample const& sample) {
        return std::tuple{sample.work.kind, sample.work.chunk.value, sample.before.kind,
                          sample.before.chunk.value};
    };
    std::map<decltype(key(Sample{})), std::vector<Sample>> classes;
    for (Sample const& sample : samples_[rank])
        if (!sample.first)
            classes[key(sample)].push_back(sample);
    double slowdowns = 0;
    double spans = 0;
    for (auto const& [ignored, samples] : classes) {
        auto const [fewest, most] =
            std::minmax_element(samples.begin(), samples.end(), [](auto const& a, auto const& b) {
                return a.neighbours < b.neighbours;
            });
        if (most->neighbours - fewest->neighbours < least_spread * all_neighbours)
            continue;
        Half idle;
        Half busy;
        for (Sample const& sample : samples)
            (sample.neighbours < (fewest->neighbours + most->neighbours) / 2 ? idle : busy)
                .add(sample.neighbours, sample.seconds);
        if (std::min(idle.seconds.size(), busy.seconds.size()) < fewest_samples ||
            core::median(idle.seconds) == 0)
            continue;
        // busy / idle = (1 + c * neighbours of the busy) / (1 + c * neighbours of the idle)
        double const ratio = core::median(busy.seconds) / core::median(idle.seconds);
        slowdowns += ratio - 1;
        spans += core::median(busy.neighbours) - ratio * core::median(idle.neighbours);
    }
    return spans > 0 ? std::max(0.0, slowdowns / spans) : unknown;
}

double WorkEffects::find_repeat(std::size_t rank, WorkKind kind) const {
    struct Chunk {
        std::vector<double> repeated;
        std::vector<double> others;
    };
    std::map<core::ChunkId, Chunk> chunks;
    for (Sample const& sample : samples_[rank])
        if (sample.work.kind == kind && !sample.first) {
            Chunk& chunk = chunks[sample.work.chunk];
            (sample.repeated ? chunk.repeated : chunk.others)
                .push_back(sample.seconds / (1 + contention_[rank] * sample.neighbours));
        }
    std::vector<double> factors;
    for (auto const& [ignored, chunk] : chunks)
        if (double const usual = core::median(chunk.others); !chunk.repeated.empty() && usual > 0)
            factors.push_back(core::median(chunk.repeated) / usual);
    return factors.empty() ? unknown : core::median(factors);
}

WorkFactors WorkEffects::repeat(std::size_t rank) const {
    WorkFactors factors;
    for (auto const& [ignored, factor] : kinds)
        factors.*factor = std::sqrt(repeat_[rank].*factor);
    return factors;
}

double WorkEffects::mean(std::size_t rank, WorkKind kind) const {
    double sum = 0;
    double count = 0;
    for (Sample const& sample : samples_[rank])
        if (sample.work.kind == kind) {
            sum += (1 + contention_[rank] * sample.neighbours) *
                   (sample.repeated ? repeat_[rank].of(kind) : 1);
            ++count;
        }
    return count > 0 ? sum / count : 1;
}

} // namespace evener::planner
