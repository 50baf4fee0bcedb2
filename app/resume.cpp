// SPDX-License-Identifier: Apache-2.0
#include "app/resume.hpp"

#include "checkpoints/reader.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/verify.hpp"
#include "core/log.hpp"
#include "job/parse.hpp"

#include "app/checkpoint_path.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace evener::app {

namespace {

/// The checkpoint that the job asks to resume from, or "". On rank 0.
std::string find_folder(job::Job const& job) {
    std::string const& resume = job.checkpoint.resume;
    auto const notice = [](std::string const& line) {
        core::log::root(core::log::Level::warn, "{}", line);
    };
    if (resume != "auto" && resume != "never")
        return checkpoint_of(resume);
    auto const newest =
        checkpoints::find_newest_valid(job.run.out, checkpoints::Depth::sizes, notice);
    if (!newest)
        return {};
    if (resume == "never")
        throw core::ConfigError{fmt::format(
            "'checkpoint.resume' is \"never\", but '{}' holds checkpoints up to step {} (a new "
            "run would mix with them); choose another 'run.out', move them away, or resume",
            job.run.out, newest->manifest.state.step)};
    return newest->folder;
}

void require_whole(std::string const& folder, checkpoints::Manifest const& manifest) {
    std::vector<std::string> const damaged = checkpoints::damaged_data(manifest, folder);
    if (!damaged.empty())
        throw core::CheckpointError{
            folder, fmt::format("damaged ({}); name an older one with '--resume PATH' or move "
                                "this one away",
                                fmt::join(damaged, "; "))};
}

void require_same_model(checkpoints::Manifest const& manifest, model::Model const& model,
                        std::string const& folder) {
    auto const found = checkpoints::differences(manifest.model, model.description());
    if (!found.empty())
        throw core::ConfigError{
            fmt::format("checkpoint '{}' is of another model: {}", folder, fmt::join(found, "; "))};
}

std::string optimizer_name(job::Job const& job) {
    return job.optimizer.kind == job::OptimizerKind::adamw ? "adamw" : "sgd";
}

void require_same_training(checkpoints::TrainingState const& state, job::Job const& job,
                           std::string const& data_fingerprint, std::string const& folder) {
    std::string const hint = "; to take only its weights, set 'model.init_from' and another "
                             "'run.out'";
    if (state.optimizer != optimizer_name(job))
        throw core::ConfigError{
            fmt::format("checkpoint '{}' was made with the optimizer {}, the job says {}{}", folder,
                        state.optimizer, optimizer_name(job), hint)};
    if (state.seed != job.run.seed)
        throw core::ConfigError{
            fmt::format("checkpoint '{}' was made with 'run.seed' {}, the job says {} (the order "
                        "of the samples would change){}",
                        folder, state.seed, job.run.seed, hint)};
    if (state.data_fingerprint != data_fingerprint)
        throw core::ConfigError{
            fmt::format("checkpoint '{}' was trained on other data (fingerprint {}, now {}; the "
                        "sample order would not go on){}",
                        folder, state.data_fingerprint, data_fingerprint, hint)};
}

std::optional<job::Plan> plan_of_checkpoint(checkpoints::CheckpointReader const& reader,
                                            job::Job const& job, int ranks) {
    if (!job.plan.groups.empty() || job.plan.replan)
        return std::nullopt;
    job::Plan plan = job::parse_plan_text(reader.text("plan.toml"), "plan.toml");
    std::size_t planned = 0;
    for (job::Group const& group : plan.groups)
        planned += group.ranks.size();
    if (planned == static_cast<std::size_t>(ranks))
        return plan;
    core::log::root(core::log::Level::info,
                    "the checkpoint's plan is for {} ranks, this job has {}: planning anew",
                    planned, ranks);
    return std::nullopt;
}

} // namespace

Resume find_resume(comm::MpiSession const& mpi, job::Job const& job, model::Model const& model,
                   std::string const& data_fingerprint) {
    Resume resume;
    together(mpi, mpi.rank() == 0, [&] {
        resume.folder = find_folder(job);
        if (resume.folder.empty() && !job.model.init_from.empty())
            resume.init_from = checkpoint_of(job.model.init_from);
    });
    resume.folder = mpi.world().broadcast(resume.folder);
    resume.init_from = mpi.world().broadcast(resume.init_from);
    resume.state.seed = job.run.seed;
    resume.state.optimizer = optimizer_name(job);
    resume.state.data_fingerprint = data_fingerprint;
    std::string const source = resume.folder.empty() ? resume.init_from : resume.folder;
    if (source.empty())
        return resume;
    together(mpi, true, [&] {
        checkpoints::CheckpointReader const reader{source};
        require_same_model(reader.manifest(), model, source);
        if (mpi.rank() == 0 && job.checkpoint.verify_on_load)
            require_whole(source, reader.manifest());
        if (resume.folder.empty())
            return;
        resume.state = reader.manifest().state;
        require_same_training(resume.state, job, data_fingerprint, source);
        resume.plan = plan_of_checkpoint(reader, job, mpi.size());
    });
    core::log::root(core::log::Level::info, "{} '{}' (step {})",
                    resume.folder.empty() ? "weights from" : "resuming from", source,
                    resume.state.step);
    return resume;
}

} // namespace evener::app
