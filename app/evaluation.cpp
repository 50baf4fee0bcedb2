// SPDX-License-Identifier: Apache-2.0
#include "app/evaluation.hpp"

#include "checkpoints/reader.hpp"
#include "job/parse.hpp"
#include "runtime/parameters.hpp"
#include "runtime/plan_conversion.hpp"

#include "app/checkpoint_path.hpp"

#include <algorithm>

namespace evener::app {

Evaluation::Evaluation(comm::MpiSession const& mpi, EvaluationInput const& input) {
    together(mpi, mpi.rank() == 0, [&] { folder = checkpoint_of(input.run); });
    folder = mpi.world().broadcast(folder);
    std::unique_ptr<checkpoints::CheckpointReader> reader;
    together(mpi, true, [&] {
        reader = std::make_unique<checkpoints::CheckpointReader>(folder);
        job = job::parse_job_text(reader->text("job.toml"), folder + "/job.toml");
        step = reader->manifest().state.step;
    });
    job.run.devices = job::Devices::automatic;
    job.run.threads = 0;
    if (input.sequence_length > 0)
        job.model.sequence_length = input.sequence_length;
    model = std::make_unique<model::Model>(runtime::model_config(job.model));
    std::int64_t const batch = input.batch_size > 0
                                   ? input.batch_size
                                   : std::max<std::int64_t>(1, 4096 / job.model.sequence_length);
    engine = start_engine(mpi, job.run, model->config(), batch);

    // Losses are compared between plans: float32 whatever the training computed in.
    planner::DefaultPlanInput plan_input{batch, batch, {}, {}};
    for (RankFacts const& facts : engine.ranks) {
        plan_input.rank_speeds.push_back(facts.rate(core::DType::float32));
        plan_input.compute_types.push_back(core::DType::float32);
    }
    program::Plan const plan = planner::default_plan(*model, plan_input);
    ProgramOptions options;
    options.device_workspace_bytes = prepare_devices(mpi, engine, plan, *model, false);
    options.moments = 0;
    options.proof = mpi.rank() == 0 ? Proof::verify : Proof::trust;
    Programs programs = make_programs(plan, *model, nullptr, options);
    transport = std::make_unique<comm::Transport>(mpi.world().get(),
                                                  comm::TransportOptions::from_environment());
    together(mpi, true, [&] {
        auto const rank = static_cast<std::size_t>(mpi.rank());
        session.reset(
            new runtime::Session{{.rank = core::RankId{mpi.rank()},
                                  .model = *model,
                                  .cache = *engine.cache,
                                  .transport = *transport,
                                  .train = std::nullopt,
                                  .evaluate = std::move(programs.evaluate),
                                  .device_workspace_bytes = programs.device_workspace_bytes[rank],
                                  .arena = {engine.device->threads()},
                                  .adamw = false,
                                  .head = input.head}});
        runtime::load_parameters(*session, *reader, runtime::Load::parameters);
    });
}

} // namespace evener::app
