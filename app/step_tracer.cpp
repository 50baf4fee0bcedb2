// SPDX-License-Identifier: Apache-2.0
#include "app/step_tracer.hpp"

#include "comm/clock_offset.hpp"
#include "core/log.hpp"
#include "runtime/step_measurement.hpp"

#include "app/pictures.hpp"
#include <fmt/format.h>

#include <algorithm>

namespace evener::app {

StepTracer::StepTracer(comm::MpiSession const& mpi, job::Job const& job,
                       runtime::Session const& session, planner::Profile profile)
    : mpi_{mpi}, job_{job}, session_{session}, nodes_{comm::lowest_of_nodes(mpi.world(),
                                                                            mpi.node())},
      initial_{std::move(profile)}, profile_{initial_} {}

bool StepTracer::traced(std::int64_t step) const {
    auto const& steps = job_.log.trace_steps;
    return std::find(steps.begin(), steps.end(), step) != steps.end();
}

void StepTracer::after_pass(std::int64_t step) {
    if (!traced(step) && !traced(step + 1))
        return;
    comm::ClockOffset const offset = comm::measure_clock_offset(mpi_.world(), mpi_.node());
    program::Measurement const measured =
        runtime::gather_measurement(mpi_.world(), session_, offset.seconds);
    double const error = mpi_.world().all_max(std::vector<double>{offset.error_seconds}).front();
    if (traced(step) && mpi_.rank() == 0) {
        try {
            write(step, measured.timeline, error);
        } catch (core::IoError const& failure) { // no picture is worth a training run
            core::log::root(core::log::Level::warn, "step {} is not traced: {}", step,
                            failure.what());
        }
    }
    profile_ = initial_;
    if (traced(step + 1)) {
        profile_ = planner::measured_profile({{session_.sets(), {measured}}}, session_.model(),
                                             nodes_, initial_.network);
        for (std::size_t r = 0; r < profile_.ranks.size(); ++r)
            profile_.ranks[r].copies = initial_.ranks[r].copies; // which a step does not show apart
        profile_.source = fmt::format("layer times of step {}", step);
    }
}

void StepTracer::write(std::int64_t step, program::Timeline const& measured,
                       double clock_error) const {
    schedule::Simulation const predicted = predict(session_.sets(), session_.model(), profile_);
    std::string const name = fmt::format("{}/trace-step-{:08}", job_.run.out, step);
    schedule::Drawing drawing{
        session_.sets(),
        fmt::format("{}, step {}", picture_title(job_, session_.plan()), step),
        {{"measured", measured}, {"predicted", predicted.timeline, predicted.critical_path}},
        "predicted from " + profile_.source};
    drawing.metadata["clock error bound in seconds"] = fmt::to_string(clock_error);
    write_pictures(drawing, {name + ".svg", name + ".json", name + ".csv"});
    core::log::root(core::log::Level::info,
                    "traced step {}: {:.3g} ms, predicted {:.3g} ms; {}.svg", step,
                    1e3 * measured.seconds(), 1e3 * predicted.seconds, name);
}

} // namespace evener::app
