// SPDX-License-Identifier: Apache-2.0
#include "app/pictures.hpp"

#include "io/files.hpp"
#include "schedule/contention.hpp"
#include "schedule/usage.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace evener::app {

void check_picture_files(PictureFiles const& files) {
    auto const check = [](std::string_view one, std::string const& a, std::string_view other,
                          std::string const& b) {
        if (!a.empty() && a == b)
            throw core::ConfigError{
                fmt::format("'--{}' and '--{}' are both '{}' (each writes a file of its own); give "
                            "them different names",
                            one, other, a)};
    };
    for (std::string const& path : {files.svg, files.trace, files.csv}) {
        std::error_code ignored;
        auto const status = std::filesystem::status(path, ignored);
        if (!path.empty() && std::filesystem::exists(status) &&
            !std::filesystem::is_regular_file(status))
            throw core::ConfigError{fmt::format(
                "'{}' is no regular file (a picture would take its place); give the name of a file",
                path)};
    }
    check("svg", files.svg, "trace", files.trace);
    check("svg", files.svg, "csv", files.csv);
    check("trace", files.trace, "csv", files.csv);
}

std::vector<std::string> write_pictures(schedule::Drawing const& drawing,
                                        PictureFiles const& files) {
    std::vector<std::string> written;
    auto const write = [&](std::string const& path, auto const& draw) {
        if (path.empty())
            return;
        bool const link = std::filesystem::is_symlink(path);
        io::write_file_atomically(link ? std::filesystem::canonical(path).string() : path,
                                  draw(drawing));
        written.push_back(path);
    };
    write(files.svg, schedule::draw_svg);
    write(files.trace, schedule::draw_trace);
    write(files.csv, schedule::draw_csv);
    return written;
}

schedule::Simulation predict(program::ProgramSet const& set, model::Model const& model,
                             planner::Profile const& profile) {
    program::Costs const costs = planner::costs_of(profile, set.plan, model);
    return schedule::simulate_contended(set, costs);
}

std::string picture_title(job::Job const& job, program::Plan const& plan) {
    return fmt::format("{}: {}, {} microbatches of {} sequences on {} ranks", job.run.name,
                       plan.schedule, plan.microbatch_count(), plan.microbatch_size,
                       plan.rank_count());
}

std::string prediction_line(program::ProgramSet const& set, program::Timeline const& predicted,
                            std::string const& source, bool measured) {
    return fmt::format("predicted step: {}\n  by {}{}",
                       to_string(schedule::usage_of(set, predicted)), source,
                       measured ? "" : "; a rough guess, 'evener profile' measures");
}

} // namespace evener::app
