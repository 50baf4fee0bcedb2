// SPDX-License-Identifier: Apache-2.0
#include "job/parse.hpp"

#include "job/resolve.hpp"
#include "job/toml_reader.hpp"
#include "job/validate.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace evener::job {

namespace {

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Reads at most one byte more than a job may have; parse_toml refuses that.
std::string read_file(std::string const& path) {
    auto const fail = [&path] {
        throw core::ConfigError{
            {{{path, 0, 0},
              fmt::format("the job file cannot be read ({}); give the path of a "
                          "TOML job",
                          std::strerror(errno))}}};
    };
    std::unique_ptr<std::FILE, CloseFile> const file{std::fopen(path.c_str(), "rb")};
    if (file == nullptr)
        fail();
    std::string text(most_job_bytes + 1, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (std::ferror(file.get()) != 0)
        fail();
    return text;
}

void read_all(toml::table const& root, std::string const& file,
              std::vector<Setting> const& settings, Job& job, Findings& findings) {
    read_tables(root, file, tables(), job, findings);
    for (Setting const& setting : settings)
        read_setting(setting, job, findings);
}

} // namespace

Job parse_job_text(std::string_view text, std::string_view name,
                   std::vector<std::string> const& settings, ParseOptions const& options) {
    std::string const file{name};
    Findings findings{file};
    std::optional<toml::table> const root = parse_toml(text, file, findings);
    std::vector<Setting> const parsed = parse_settings(settings, findings);
    if (!root)
        findings.throw_if_any();

    // Twice: the keys beside a preset override it wherever it stands, so it is needed first.
    Job first;
    Findings ignored{file};
    read_all(*root, file, parsed, first, ignored);
    Job job;
    job.model = preset_model(first.model.preset);
    read_all(*root, file, parsed, job, findings);

    resolve(job, name);
    std::string const dropped = drop_mismatch(job.plan, options.ranks);
    if (!dropped.empty() && options.notice)
        options.notice(dropped);
    validate(job, options, findings);
    findings.throw_if_any();
    return job;
}

Job parse_job(std::string_view path, std::vector<std::string> const& settings,
              ParseOptions const& options) {
    return parse_job_text(read_file(std::string{path}), path, settings, options);
}

Plan parse_plan_text(std::string_view text, std::string_view name, ParseOptions const& options) {
    std::string const file{name};
    Findings findings{file};
    std::optional<toml::table> const root = parse_toml(text, file, findings);
    Job job;
    if (root) {
        read_tables(*root, file, {find_table("plan"), 1}, job, findings);
        resolve(job.plan);
        validate_plan_alone(job.plan, options, findings);
    }
    findings.throw_if_any();
    return job.plan;
}

void check_job(Job const& job, ParseOptions const& options) {
    Findings findings;
    validate(job, options, findings);
    findings.throw_if_any();
}

} // namespace evener::job
