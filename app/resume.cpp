// SPDX-License-Identifier: Apache-2.0
#include "app/resume.hpp"

#include "checkpoints/manifest.hpp"
#include "checkpoints/reader.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/verify.hpp"
#include "core/log.hpp"
#include "io/files.hpp"
#include "job/parse.hpp"
#include "job/print.hpp"

#include "app/checkpoint_path.hpp"
#include "app/visibility.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace evener::app {

namespace {

/// The checkpoint that the job asks to resume from, or "". On rank 0.
std::string find_folder(job::Job const& job) {
    std::string const& resume = job.checkpoint.resume;
    bool damaged = false;
    auto const notice = [&](std::string const& line) {
        core::log::root(core::log::Level::warn, "{}", line);
        damaged = true;
    };
    auto const depth =
        job.checkpoint.verify_on_load ? checkpoints::Depth::hashes : checkpoints::Depth::sizes;
    auto const newest = checkpoints::find_newest_valid(job.run.out, depth, notice);
    if (resume != "auto" && resume != "never") {
        std::string const folder = checkpoint_of(resume);
        std::int64_t const step = checkpoints::read_manifest(folder).state.step;
        if (newest && newest->manifest.state.step > step)
            throw core::ConfigError{fmt::format(
                "'{}' holds checkpoints up to step {} (newer than step {} of '{}', and the next "
                "resume would take them); choose another 'run.out' or move them away",
                job.run.out, newest->manifest.state.step, step, folder)};
        return folder;
    }
    if (!newest && damaged)
        throw core::CheckpointError{job.run.out,
                                    "the run has checkpoints, but none is whole (see above); "
                                    "repair one, or move the 'step-' folders away to start anew"};
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

/// The files for people, and plan.toml and schedule.csv, which training can do without.
void warn_of_side_files(std::string const& folder, checkpoints::Manifest const& manifest) {
    for (std::string const& line : checkpoints::damaged_side_files(manifest, folder))
        core::log::root(core::log::Level::warn, "checkpoint '{}': {}; its weights are whole",
                        folder, line);
}

void require_same_model(checkpoints::Manifest const& manifest, model::Model const& model,
                        std::string const& folder) {
    auto const found = checkpoints::differences(manifest.model, model.description());
    if (!found.empty())
        throw core::ConfigError{
            fmt::format("checkpoint '{}' is of another model: {}", folder, fmt::join(found, "; "))};
}

std::string optimizer_name(job::Job const& job) {
    return has_adamw(job) ? "adamw" : "sgd";
}

/// What decides, beside seed and data, which sample comes when.
checkpoints::KeyValues sample_keys(job::Job const& job) {
    return {{"model.sequence_length", fmt::to_string(job.model.sequence_length)},
            {"data.shuffle", job.data.shuffle ? "true" : "false"}};
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
    for (auto const& [key, value] : sample_keys(job))
        if (auto const found = state.extra.find(key);
            found != state.extra.end() && found->second != value)
            throw core::ConfigError{
                fmt::format("checkpoint '{}' was made with '{}' {}, the job says {} (samples would "
                            "be skipped or repeated){}",
                            folder, key, found->second, value, hint)};
    if (state.data_fingerprint != data_fingerprint)
        throw core::ConfigError{
            fmt::format("checkpoint '{}' was trained on other data (fingerprint {}, now {}; the "
                        "sample order would not go on){}",
                        folder, state.data_fingerprint, data_fingerprint, hint)};
}

/// What is offloaded or computed again changes no number, so the job decides on it anew.
void take_memory_levers(job::Plan const& plan, job::Plan& stored) {
    for (std::size_t g = 0; g < stored.groups.size(); ++g)
        stored.groups[g].offload = plan.groups.empty() ? plan.offload : plan.groups[g].offload;
    for (std::size_t c = 0; c < stored.chunks.size(); ++c)
        stored.chunks[c].recompute = plan.chunks[c].recompute;
}

/// The same chunks, as far as the words of the job decide.
bool same_chunks(job::Plan const& stored, job::Plan const& plan) {
    return stored.chunks == plan.chunks && stored.chunks_per_group == plan.chunks_per_group &&
           (stored.chunks_per_group == 1 || stored.placement == plan.placement);
}

/// The same groups, of which there are as many, but for what the job leaves to measurement: compute
/// types, and deals.
bool same_groups(job::Plan const& stored, job::Job const& job) {
    std::vector<job::Group> groups = stored.groups;
    std::int64_t const microbatches = core::div_up(job.train.batch_size, job.train.microbatch_size);
    for (std::size_t g = 0; g < groups.size(); ++g) {
        if (job::compute_of(job.precision, job.plan.groups[g]) == job::Compute::automatic)
            groups[g].compute = job.plan.groups[g].compute;
        // Likewise for deals that the job leaves to simulation.
        if (job.plan.schedule == job::Schedule::automatic && job.plan.groups[g].deal.empty() &&
            std::ssize(groups[g].deal) == microbatches)
            groups[g].deal.clear();
    }
    return groups == job.plan.groups;
}

/// The plan in force when the checkpoint was written, with the types that were measured then: a
/// resumed job must not measure another.
std::optional<job::Plan> plan_of_checkpoint(std::string const& plan_toml, job::Job const& job,
                                            int ranks) {
    if (job.plan.replan || plan_toml.empty())
        return std::nullopt;
    job::Plan plan = job::parse_plan_text(plan_toml, "plan.toml");
    if (plan.chunks.size() != job.plan.chunks.size() ||
        (!job.plan.groups.empty() && plan.groups.size() != job.plan.groups.size()))
        return std::nullopt;
    take_memory_levers(job.plan, plan);
    if (!same_chunks(plan, job.plan))
        return std::nullopt;
    if (!job.plan.groups.empty())
        return same_groups(plan, job) ? std::optional{plan} : std::nullopt;
    if (job.precision.compute != job::Compute::automatic)
        for (job::Group& group : plan.groups)
            group.compute = job::GroupCompute::as_job;
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

/// What a file or a search made for this plan stays in force while the job asks for the same.
bool keeps_schedule(job::Plan const& stored, job::Plan const& plan) {
    return stored.schedule == plan.schedule && stored.schedule_file == plan.schedule_file &&
           stored.split_backward == plan.split_backward;
}

/// What rank 0 reads of a checkpoint for all ranks, of which some may not see it.
struct Texts {
    std::string manifest;
    std::string plan_toml;    ///< empty where it has none that can be read
    std::string schedule_csv; ///< likewise
};

/// Empty where the checkpoint has no such text; or where it is damaged: then what is done without it
/// is said.
std::string text_or_nothing(checkpoints::CheckpointReader const& reader, std::string const& file,
                            std::string_view without) {
    if (!reader.has_text(file))
        return {};
    try {
        return reader.text(file);
    } catch (core::Error const& error) {
        core::log::root(core::log::Level::warn, "{}: {}", error.what(), without);
        return {};
    }
}

/// What the job says otherwise than the one that made the checkpoint.
void say_changes(checkpoints::CheckpointReader const& reader, job::Job const& job) {
    constexpr std::string_view without = "what the job changes is not said";
    std::string const text = text_or_nothing(reader, "job.toml", without);
    if (text.empty())
        return;
    try {
        auto const changes = job::changed_values(job::parse_job_text(text, "job.toml"), job);
        if (!changes.empty())
            core::log::root(core::log::Level::info, "changed since the checkpoint: {}",
                            fmt::join(changes, ", "));
    } catch (core::Error const& error) { // of a version with other keys
        core::log::root(core::log::Level::info, "{} ({})", without, error.what());
    }
}

Texts read_texts(comm::MpiSession const& mpi, std::string const& folder, job::Job const& job,
                 bool resumes) {
    Texts texts;
    together(mpi, mpi.rank() == 0, [&] {
        checkpoints::CheckpointReader const reader{folder};
        texts.manifest = io::read_file(fmt::format("{}/{}", folder, checkpoints::manifest_name));
        if (!resumes)
            return;
        say_changes(reader, job);
        if (!job.model.init_from.empty())
            core::log::root(core::log::Level::info,
                            "'model.init_from' gives nothing: the run goes on from its checkpoint");
        texts.plan_toml = text_or_nothing(reader, "plan.toml", "planning anew");
        texts.schedule_csv = text_or_nothing(reader, "schedule.csv", "made anew");
    });
    for (std::string* const text : {&texts.manifest, &texts.plan_toml, &texts.schedule_csv})
        *text = mpi.world().broadcast(*text);
    return texts;
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
    resume.state.extra = sample_keys(job);
    std::string const source = resume.source();
    if (source.empty())
        return resume;
    Texts const texts = read_texts(mpi, source, job, !resume.folder.empty());
    std::string const manifest_path = fmt::format("{}/{}", source, checkpoints::manifest_name);
    resume.seen = ranks_with_file(mpi, manifest_path, texts.manifest);
    std::int64_t source_step = 0;
    together(mpi, true, [&] {
        auto const manifest = checkpoints::parse_manifest(texts.manifest, manifest_path);
        require_same_model(manifest, model, source);
        source_step = manifest.state.step;
        if (mpi.rank() == 0 && job.checkpoint.verify_on_load) {
            require_whole(source, manifest);
            warn_of_side_files(source, manifest);
        }
        if (resume.folder.empty())
            return;
        resume.state = manifest.state;
        require_same_training(resume.state, job, data_fingerprint, source);
        resume.plan = plan_of_checkpoint(texts.plan_toml, job, mpi.size());
        if (resume.plan && keeps_schedule(*resume.plan, job.plan))
            resume.schedule_csv = texts.schedule_csv;
    });
    core::log::root(core::log::Level::info, "{} '{}' (step {})",
                    resume.folder.empty() ? "weights from" : "resuming from", source, source_step);
    return resume;
}

} // namespace evener::app
