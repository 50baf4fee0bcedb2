// SPDX-License-Identifier: Apache-2.0

// What the executor adds to a step: 8 stages of one rank, 64 microbatches, whose computations sleep
// for 5 ms each instead of computing. Messages, waits and scalars are real. Three orders of work: the
// greedy search's, which is told that a message takes 2 ms and so keeps more microbatches under way,
// GPipe, and strict 1F1B, where nearly every message is waited for. Two baselines, steps taken in
// turns. `bare`: a loop over the same instructions in one thread with nothing but MPI, receives
// posted ahead and sends not waited for; the better of waiting in MPI_Waitall and of MPI_Testall with
// sleeps of 20 us. `simulated`: the programs with the durations that the sleeps really had and with
// messages that take no time, which no machine reaches. One JSON line per order from rank 0:
// `overhead` is the step's time over the bare loop's, less one, median of the pairs, `over_simulated`
// the same over the simulation and `bare_over_simulated` that of the bare loop.
//   mpirun -n 8 --oversubscribe --bind-to none bin/executor_bench
#include "runtime/step_measurement.hpp"
#include "schedule/generators.hpp"
#include "schedule/greedy.hpp"
#include "schedule/simulator.hpp"

#include "bench/training.hpp"
#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace {

using namespace evener;

constexpr std::int64_t stages = 8;
constexpr std::int64_t microbatches = 64;
constexpr double work_seconds = 5e-3;
constexpr double message_seconds = 2e-3;
constexpr int steps = 5;

model::ModelConfig small_model() {
    model::ModelConfig config;
    config.vocabulary = 64;
    config.hidden_size = 64;
    config.decoder_layers = 8;
    config.heads = config.kv_heads = 1;
    config.head_size = 64;
    config.ffn_size = 64;
    config.sequence_length = 16;
    return config;
}

double baseline(program::ProgramSet const& set, program::InstructionSeconds const& seconds) {
    return schedule::simulate(set, seconds, program::free_network(stages)).seconds;
}

program::InstructionSeconds own_seconds(program::Timeline const& timeline) {
    program::InstructionSeconds seconds;
    for (auto const& rank : timeline.ranks) {
        auto& own = seconds.emplace_back();
        for (program::Span const& span : rank)
            own.push_back(span.seconds());
    }
    return seconds;
}

/// Backward whole, as the sleeps of 5 ms have it.
program::Costs sleeping_costs(program::Plan const& plan) {
    program::Costs costs = program::uniform_costs(
        plan, {work_seconds, work_seconds / 2, work_seconds / 2, work_seconds});
    costs.network = program::uniform_network(stages, {message_seconds, 0});
    return costs;
}

/// The same sleeps and messages by hand.
class BareLoop {
  public:
    BareLoop(comm::MpiSession const& mpi, program::ProgramSet const& set,
             std::vector<double> seconds)
        : comm_{comm::Communicator::duplicate(mpi.world().get())}, set_{set},
          program_{set.programs[static_cast<std::size_t>(mpi.rank())]}, seconds_{
                                                                            std::move(seconds)} {}

    /// Of one step, from the first rank's start to the last one's end.
    double step(bool polls) {
        requests_.assign(program_.instructions.size(), MPI_REQUEST_NULL);
        std::vector<std::vector<std::byte>> data(program_.instructions.size());
        for (std::size_t i = 0; i < program_.instructions.size(); ++i)
            if (auto const* op =
                    std::get_if<program::Receive>(&program_.instructions[i].operation)) {
                data[i].resize(static_cast<std::size_t>(op->bytes));
                MPI_Irecv(data[i].data(), static_cast<int>(op->bytes), MPI_BYTE, op->peer.value,
                          tag(*op), comm_.get(), &requests_[i]);
            }
        comm_.barrier();
        double const start = MPI_Wtime();
        for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
            program::Instruction const& instruction = program_.instructions[i];
            if (auto const* op = std::get_if<program::Send>(&instruction.operation)) {
                data[i].resize(static_cast<std::size_t>(op->bytes));
                MPI_Isend(data[i].data(), static_cast<int>(op->bytes), MPI_BYTE, op->peer.value,
                          tag(*op), comm_.get(), &requests_[i]);
            } else if (seconds_[i] > 0) {
                for (core::InstructionId const before : instruction.after)
                    if (std::holds_alternative<program::Receive>(
                            program_.instructions[before.index()].operation))
                        wait({&requests_[before.index()], 1}, polls);
                std::this_thread::sleep_for(std::chrono::duration<double>(seconds_[i]));
            }
        }
        wait(requests_, polls);
        double const seconds = MPI_Wtime() - start;
        return comm_.all_max(std::vector<double>{seconds}).front();
    }

  private:
    int tag(program::Message const& message) const {
        return static_cast<int>(2 * program::message_tag(message, set_.plan.microbatch_count()) +
                                (message.direction == program::Direction::forward ? 0 : 1));
    }

    void wait(std::span<MPI_Request> requests, bool polls) {
        auto const count = static_cast<int>(requests.size());
        if (!polls) {
            MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE);
            return;
        }
        for (int done = 0;;) {
            MPI_Testall(count, requests.data(), &done, MPI_STATUSES_IGNORE);
            if (done != 0)
                return;
            std::this_thread::sleep_for(std::chrono::microseconds{20});
        }
    }

    comm::Communicator comm_;
    program::ProgramSet const& set_;
    program::Program const& program_;
    std::vector<double> seconds_; ///< by instruction
    std::vector<MPI_Request> requests_;
};

void measure(comm::MpiSession const& mpi, comm::Transport& transport, model::Model const& model,
             program::Plan const& plan, program::Schedule const& schedule) {
    program::Costs const costs = sleeping_costs(plan);
    bench::Training training{
        mpi,
        transport,
        model,
        plan,
        {.schedule = &schedule, .costs = &costs, .work_seconds = work_seconds}};
    program::ProgramSet const& set = training.session().sets();
    double const nominal = baseline(set, program::instruction_seconds(costs, set));
    std::vector<double> seconds;
    for (program::Instruction const& instruction :
         set.programs[static_cast<std::size_t>(mpi.rank())].instructions)
        seconds.push_back(std::visit(
            [](auto const& op) {
                return std::is_base_of_v<program::Compute, std::decay_t<decltype(op)>>
                           ? work_seconds
                           : 0.0;
            },
            instruction.operation));
    BareLoop bare{mpi, set, seconds};
    prctl(PR_SET_TIMERSLACK, 1000UL); // ns; for the bare loop's sleeps as for the session's
    training.step();
    bool const polls = bare.step(true) + bare.step(true) < bare.step(false) + bare.step(false);
    std::vector<double> overheads;
    std::vector<double> over_simulated;
    std::vector<double> bare_over_simulated;
    for (int step = 0; step < steps; ++step) {
        training.step();
        program::Timeline const timeline =
            runtime::gather_measurement(mpi.world(), training.session()).timeline;
        double const by_hand = bare.step(polls);
        overheads.push_back(timeline.seconds() / by_hand - 1);
        over_simulated.push_back(timeline.seconds() / baseline(set, own_seconds(timeline)) - 1);
        bare_over_simulated.push_back(by_hand / nominal - 1);
    }
    if (mpi.rank() == 0)
        fmt::print("{{\"bench\": \"executor\", \"schedule\": \"{}\", \"overhead\": {:.4f}, "
                   "\"overhead_worst\": {:.4f}, \"overhead_best\": {:.4f}, "
                   "\"over_simulated\": {:.4f}, \"bare_over_simulated\": {:.4f}, "
                   "\"simulated_seconds\": {:.3f}, \"n\": {}, "
                   "\"baseline\": \"a bare MPI loop over the same instructions ({})\"}}\n",
                   schedule.name, bench::median(overheads),
                   *std::max_element(overheads.begin(), overheads.end()),
                   *std::min_element(overheads.begin(), overheads.end()),
                   bench::median(over_simulated), bench::median(bare_over_simulated), nominal,
                   steps, polls ? "MPI_Testall and sleeps of 20 us" : "MPI_Waitall");
}

/// With whole backwards only: halves would be other sleeps.
program::Schedule fused(program::Schedule schedule) {
    for (auto& order : schedule.ranks) {
        std::erase_if(order, [](program::Work const& work) {
            return work.kind == program::WorkKind::backward_weight;
        });
        for (program::Work& work : order)
            if (work.kind == program::WorkKind::backward_input)
                work.kind = program::WorkKind::backward;
    }
    return schedule;
}

} // namespace

int main() {
    comm::MpiSession const mpi{nullptr, nullptr};
    if (mpi.size() != stages) {
        fmt::print(stderr, "run it with {} ranks\n", stages);
        return 2;
    }
    comm::Transport transport{mpi.world().get()};
    model::Model const model{small_model()};
    std::vector<std::int64_t> cuts;
    for (std::int64_t g = 0; g < stages; ++g)
        cuts.push_back(2 * g);
    program::Plan const plan =
        bench::chain_plan(model, cuts, microbatches, 1, core::DType::float32);
    schedule::WorkGraph const graph = schedule::make_work_graph(plan, model, sleeping_costs(plan));
    measure(mpi, transport, model, plan, fused(schedule::greedy(graph)));
    program::Plan named = plan;
    for (char const* const name : {"gpipe", "1f1b"}) {
        named.schedule = name;
        measure(mpi, transport, model, named,
                schedule::generate(named, program::ProgramKind::train));
    }
}
