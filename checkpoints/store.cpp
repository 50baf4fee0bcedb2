// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/store.hpp"

#include "checkpoints/files.hpp"
#include "checkpoints/manifest.hpp"
#include "checkpoints/model_view.hpp"
#include "checkpoints/replaced.hpp"
#include "checkpoints/verify.hpp"
#include "core/error.hpp"
#include "core/size_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace evener::checkpoints {

namespace {

constexpr std::string_view prefix = "step-";
constexpr std::string_view being_written = ".tmp"; ///< also: being deleted
constexpr std::string_view replaced = ".old";

/// The step of `step-00000120`; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name) {
    if (!name.starts_with(prefix))
        return std::nullopt;
    std::int64_t step = 0;
    char const* const end = name.data() + name.size();
    auto const [rest, error] = std::from_chars(name.data() + prefix.size(), end, step);
    if (error != std::errc{} || rest != end || step < 0 || step_folder_name(step) != name)
        return std::nullopt;
    return step;
}

/// The step of `step-00000120.tmp` for suffix `.tmp`.
std::optional<std::int64_t> step_of(std::string_view name, std::string_view suffix) {
    if (!name.ends_with(suffix))
        return std::nullopt;
    return step_of(name.substr(0, name.size() - suffix.size()));
}

std::string path_of(std::string const& out, std::int64_t step, std::string_view suffix = "") {
    return fmt::format("{}/{}{}", out, step_folder_name(step), suffix);
}

/// Brings `out` back to order after a killed save or delete: what was being written is removed;
/// what was being replaced comes back if its successor did not arrive.
void recover(std::string const& out) {
    for (std::string const& name : files::names_in(out)) {
        std::string const path = fmt::format("{}/{}", out, name);
        if (step_of(name, being_written)) {
            files::remove_tree(path);
        } else if (auto const step = step_of(name, replaced)) {
            if (files::is_folder(path_of(out, *step)))
                files::remove_tree(path);
            else if (!files::is_there(path_of(out, *step)))
                files::rename(path, path_of(out, *step));
        }
    }
}

/// Puts `step-N.tmp` in the place of `step-N`. Between the two renames a checkpoint that is replaced is
/// `step-N.old`, which list() and recover() know; what is none stays beside the new one.
void move_into_place(std::string const& out, Manifest const& manifest, AtPoint const& at,
                     Notice const& notice) {
    std::int64_t const step = manifest.state.step;
    std::string const folder = path_of(out, step);
    std::string const old = path_of(out, step, replaced);
    bool const replaces = files::is_there(folder);
    bool const superseded = replaces && is_superseded(folder, manifest);
    if (superseded) {
        files::rename(folder, old);
    } else if (replaces) {
        std::string const aside = move_aside(folder);
        if (notice)
            notice(fmt::format("'{}' was no checkpoint of this run at step {}, and stood in the "
                               "way of one; it is '{}' now",
                               folder, step, aside));
    }
    if (replaces)
        pass(at, SavePoint::commit_renames);
    files::rename(path_of(out, step, being_written), folder);
    files::sync_folder(out);
    if (superseded)
        files::remove_tree(old);
}

FileRecord add_side_file(std::string const& folder, std::string const& name,
                         std::string const& text) {
    files::write_text(fmt::format("{}/{}", folder, name), text);
    return FileRecord{name, static_cast<std::int64_t>(text.size()), digest_of(text)};
}

Manifest manifest_of(Description const& description, std::vector<WriterResult> const& writers) {
    Manifest manifest;
    manifest.creator = description.creator;
    manifest.state = description.state;
    manifest.model = description.model;
    manifest.kinds = description.kinds;
    manifest.tensors = description.tensors;
    for (WriterResult const& writer : writers) {
        manifest.data_files.push_back(writer.file);
        manifest.slices.insert(manifest.slices.end(), writer.slices.begin(), writer.slices.end());
    }
    return manifest;
}

/// The folder that the last commit named; empty if there is none.
std::string latest_name(std::string const& out) {
    std::string const path = fmt::format("{}/latest", out);
    std::string name = files::size_of(path) ? files::read_text(path) : "";
    if (name.ends_with('\n'))
        name.pop_back();
    return name;
}

std::string renamed(std::int64_t step) {
    return fmt::format("it is of step {} (the folder was renamed)", step);
}

/// The checkpoint in a folder, or nothing and a notice.
std::optional<CheckpointInfo> examine(Candidate const& candidate, Depth depth,
                                      Notice const& notice) {
    std::string reason;
    try {
        CheckpointInfo info{candidate.folder, read_manifest(candidate.folder)};
        auto const faults = depth == Depth::hashes ? damaged_data(info.manifest, info.folder)
                                                   : misfit_files(info.manifest, info.folder);
        if (info.manifest.state.step != candidate.step)
            reason = fmt::format("checkpoint '{}': {}", candidate.folder,
                                 renamed(info.manifest.state.step));
        else if (!faults.empty())
            reason = fmt::format(
                "checkpoint '{}': {}{}", candidate.folder, faults.front(),
                faults.size() > 1 ? fmt::format(" (and {} more faults)", faults.size() - 1) : "");
        else
            return info;
    } catch (core::Error const& error) {
        reason = error.what();
    }
    if (notice)
        notice(reason);
    return std::nullopt;
}

} // namespace

std::string step_folder_name(std::int64_t step) {
    return fmt::format("{}{:08d}", prefix, step);
}

void require_places(std::string const& out) {
    for (std::string_view const name : {"/latest", "/latest.tmp"}) {
        std::string const path = fmt::format("{}{}", out, name);
        bool const folder = files::is_folder(path);
        if (folder || (files::is_there(path) && !files::size_of(path)))
            throw core::IoError{path, fmt::format("{} (every save writes a file of this name) move "
                                                  "it away or choose another 'out'",
                                                  folder ? "is a folder" : "is no regular file")};
    }
}

std::string begin(std::string const& out, std::int64_t step, std::int64_t bytes,
                  AtPoint const& at) {
    EVENER_EXPECT(step >= 0 && bytes >= 0);
    pass(at, SavePoint::begin_start);
    files::make_folders(out);
    require_places(out);
    recover(out);
    if (std::int64_t const free = files::free_bytes(out); free < bytes)
        throw core::IoError{
            out, fmt::format("a checkpoint of {} does not fit (free: {}) free some space "
                             "or choose another 'out'",
                             core::size_text(bytes), core::size_text(free))};
    std::string folder = path_of(out, step, being_written);
    files::make_folder(folder);
    pass(at, SavePoint::begin_folder);
    return folder;
}

CheckpointInfo commit(std::string const& out, Description const& description,
                      std::vector<WriterResult> const& writers, AtPoint const& at,
                      Notice const& notice) {
    pass(at, SavePoint::commit_start);
    std::int64_t const step = description.state.step;
    std::string const folder = path_of(out, step, being_written);
    Manifest manifest = manifest_of(description, writers);
    validate(manifest, folder);
    if (auto const misfits = misfit_files(manifest, folder); !misfits.empty())
        throw core::CheckpointError{folder, fmt::format("{}", fmt::join(misfits, "; "))};

    manifest.side_files.push_back(add_side_file(folder, "job.toml", description.job_toml));
    if (!description.plan_toml.empty())
        manifest.side_files.push_back(add_side_file(folder, "plan.toml", description.plan_toml));
    if (!description.schedule_csv.empty())
        manifest.side_files.push_back(
            add_side_file(folder, "schedule.csv", description.schedule_csv));
    manifest.side_files.push_back(
        add_side_file(folder, model_view_name, model_view_image(manifest)));
    validate(manifest, folder);
    files::sync_folder(folder);
    std::string const path = fmt::format("{}/{}", folder, manifest_name);
    files::write_text(path, manifest_text(manifest, path),
                      [&] { pass(at, SavePoint::commit_manifest); });
    files::sync_folder(folder);
    pass(at, SavePoint::commit_sealed);

    move_into_place(out, manifest, at, notice);
    pass(at, SavePoint::commit_moved);
    files::write_text(fmt::format("{}/latest", out), step_folder_name(step) + "\n");
    files::sync_folder(out);
    pass(at, SavePoint::commit_named);
    return CheckpointInfo{path_of(out, step), std::move(manifest)};
}

void confirm(CheckpointInfo const& committed) {
    if (read_manifest(committed.folder) != committed.manifest)
        throw core::CheckpointError{committed.folder,
                                    "its manifest.json does not read back as it was written (the "
                                    "file system or its disk is faulty) choose another 'out'"};
    std::vector<std::string> lines = misfit_files(committed.manifest, committed.folder);
    for (FileRecord const& file : committed.manifest.side_files)
        if (std::string line = misfit(file, committed.folder); !line.empty())
            lines.push_back(std::move(line));
    if (!lines.empty())
        throw core::CheckpointError{committed.folder, fmt::format("{}", fmt::join(lines, "; "))};
}

void abandon(std::string const& out, std::int64_t step) noexcept {
    try {
        files::remove_tree(path_of(out, step, being_written));
    } catch (core::Error const&) { // the next begin() tries again and tells
    }
}

std::vector<Candidate> candidates(std::string const& out) {
    std::vector<Candidate> found;
    for (std::string const& name : files::names_in(out)) {
        if (auto const step = step_of(name))
            found.push_back({*step, fmt::format("{}/{}", out, name)});
        else if (auto const old = step_of(name, replaced);
                 old && !files::is_folder(path_of(out, *old)))
            found.push_back({*old, fmt::format("{}/{}", out, name)});
    }
    std::sort(found.begin(), found.end(),
              [](auto const& a, auto const& b) { return a.step > b.step; });
    return found;
}

std::vector<std::string> faults_of(Candidate const& candidate) {
    std::vector<std::string> faults = verify(candidate.folder);
    if (!faults.empty())
        return faults;
    std::int64_t const step = read_manifest(candidate.folder).state.step;
    if (step != candidate.step)
        faults.push_back(renamed(step));
    return faults;
}

std::vector<CheckpointInfo> list(std::string const& out, Depth depth, Notice const& notice) {
    std::vector<CheckpointInfo> found;
    for (Candidate const& candidate : candidates(out))
        if (auto info = examine(candidate, depth, notice))
            found.push_back(std::move(*info));
    return found;
}

std::optional<CheckpointInfo> find_newest_valid(std::string const& out, Depth depth,
                                                Notice const& notice) {
    for (Candidate const& candidate : candidates(out))
        if (auto info = examine(candidate, depth, notice))
            return info;
    return std::nullopt;
}

std::vector<std::string> prune(std::string const& out, Retention retention, AtPoint const& at) {
    EVENER_EXPECT(retention.newest >= 0 && retention.every >= 0);
    std::vector<std::string> deleted;
    if (retention.newest == 0)
        return deleted;
    std::vector<CheckpointInfo> const valid = list(out, Depth::sizes);
    std::string const latest = latest_name(out);
    for (std::size_t i = 0; i < valid.size(); ++i) {
        std::int64_t const step = valid[i].manifest.state.step;
        if (static_cast<std::int64_t>(i) < retention.newest || step_folder_name(step) == latest ||
            (retention.every > 0 && step % retention.every == 0))
            continue;
        // Renamed first: a delete that is interrupted leaves no half a checkpoint under its name.
        std::string const doomed = path_of(out, step, being_written);
        files::rename(valid[i].folder, doomed);
        pass(at, SavePoint::prune_delete);
        files::remove_tree(doomed);
        deleted.push_back(valid[i].folder);
    }
    return deleted;
}

} // namespace evener::checkpoints
