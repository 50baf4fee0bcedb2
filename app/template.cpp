// SPDX-License-Identifier: Apache-2.0
// `evener template slurm`: a file of slurm/ with the lines at its top filled in.
#include "io/files.hpp"

#include "app/commands.hpp"
#include "app/slurm_templates.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <tuple>

namespace evener::app {

namespace {

/// Not more than a path needs, so that no shell sees more in it.
void require_plain_job(std::string const& job) {
    constexpr char const* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "/._-+=,@%";
    if (job.find_first_not_of(plain) != std::string::npos)
        throw core::ConfigError{
            fmt::format("'--job' is '{}' (only letters, digits and '/._-+=,@%' go into a script as "
                        "they are); give another, or edit the script",
                        job)};
}

/// "4" or "2-8".
void require_nodes(std::string const& value) {
    static std::regex const form{"([0-9]{1,6})(-([0-9]{1,6}))?"};
    std::smatch parts;
    bool valid = std::regex_match(value, parts, form);
    if (valid) {
        int const least = std::stoi(parts[1]);
        valid = least > 0 && (!parts[3].matched || least <= std::stoi(parts[3]));
    }
    if (!valid)
        throw core::ConfigError{fmt::format("'--nodes' is '{}' (it is N or MIN-MAX, from 1 on, MIN "
                                            "not above MAX); give it such as 4 or 2-8",
                                            value)};
}

/// A limit as Slurm reads it; its 0 would be no limit.
void require_time(std::string const& value) {
    static std::regex const form{"[0-9]{1,7}(:[0-5]?[0-9]){0,2}|"
                                 "[0-9]{1,5}-([01]?[0-9]|2[0-3])(:[0-5]?[0-9]){0,2}"};
    bool const zero = value.find_first_of("123456789") == std::string::npos;
    if (zero || !std::regex_match(value, form))
        throw core::ConfigError{fmt::format(
            "'--time' is '{}' ({}); give minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS, "
            "such as 90 or 1-12:00:00",
            value, zero ? "no time at all" : "Slurm knows no such time")};
}

/// A script may have been edited, and what is no file may be a device.
void require_new_file(std::string const& path) {
    namespace fs = std::filesystem;
    std::error_code
        ignored; // what cannot be looked at cannot be written either, which then says why
    if (!fs::exists(fs::symlink_status(path, ignored)))
        return;
    if (fs::is_regular_file(path, ignored))
        throw core::ConfigError{
            fmt::format("'{}' exists already; remove it or name another '--output'", path)};
    throw core::ConfigError{fmt::format(
        "'{}' is no regular file (the script would take its place); give the name of a file",
        path)};
}

class Script {
  public:
    Script(std::string text, std::size_t parts) : text_{std::move(text)}, parts_{parts} {}

    /// `#SBATCH --option=...` of each part of the job: one value for all, or one each; none: it
    /// stays.
    void set(std::string const& option, std::vector<std::int64_t> const& values) {
        std::vector<std::string> words;
        for (std::int64_t const value : values)
            words.push_back(fmt::to_string(value));
        set(option, words);
    }
    void set(std::string const& option, std::vector<std::string> const& values) {
        if (values.size() > 1 && values.size() != parts_)
            throw core::ConfigError{fmt::format(
                "'--{}' has {} values (the job has {} part{}); give one, or one for each part",
                option, values.size(), parts_, parts_ == 1 ? "" : "s")};
        if (values.empty())
            return;
        std::string const word = fmt::format("\n#SBATCH --{}=", option);
        std::size_t place = 0;
        for (std::size_t part = 0; part < parts_; ++part) {
            std::string const& value = values[values.size() == 1 ? 0 : part];
            place = text_.find(word, place);
            EVENER_ENSURE(place != std::string::npos);
            place += word.size();
            text_.replace(place, text_.find('\n', place) - place, value);
        }
    }

    /// The default of a shell variable.
    std::string default_of(std::string const& variable) const {
        auto const [begin, size] = place_of_default(variable);
        return text_.substr(begin, size);
    }
    void set_default(std::string const& variable, std::string const& value) {
        auto const [begin, size] = place_of_default(variable);
        text_.replace(begin, size, value);
    }

    std::string const& text() const { return text_; }

  private:
    std::pair<std::size_t, std::size_t> place_of_default(std::string const& variable) const {
        std::string const word = fmt::format("\n{0}=${{{0}:-", variable);
        std::size_t const place = text_.find(word);
        EVENER_ENSURE(place != std::string::npos);
        std::size_t const begin = place + word.size();
        return {begin, text_.find('}', begin) - begin};
    }

    std::string text_;
    std::size_t parts_;
};

/// Ranks of a node and cores of a rank. In a heterogeneous job they are Slurm's; else variables,
/// and Slurm is asked for their product.
void set_ranks(Script& script, TemplateOptions const& options) {
    if (options.kind == "hetjob") {
        script.set("ntasks-per-node", options.tasks);
        script.set("cpus-per-task", options.cpus);
        return;
    }
    std::int64_t product = 1;
    for (auto const& [option, variable, values] :
         {std::tuple{"ntasks-per-node", "RANKS_PER_NODE", &options.tasks},
          {"cpus-per-task", "CORES_PER_RANK", &options.cpus}}) {
        if (values->size() > 1)
            throw core::ConfigError{fmt::format(
                "'--{}' has {} values (the job has 1 part); give one", option, values->size())};
        if (!values->empty())
            script.set_default(variable, fmt::to_string(values->front()));
        product *= std::stoll(script.default_of(variable));
    }
    script.set("mincpus", std::vector{product});
}

Script template_of(std::string const& kind) {
    if (kind == "hetjob")
        return {slurm_hetjob_template, 2};
    return {kind == "mpirun" ? slurm_mpirun_template : slurm_nodes_template, 1};
}

} // namespace

core::ExitCode slurm_template(TemplateOptions const& options) {
    Script script = template_of(options.kind);
    std::ranges::for_each(options.nodes, require_nodes);
    std::ranges::for_each(options.time, require_time);
    script.set("nodes", options.nodes);
    set_ranks(script, options);
    script.set("time", options.time);
    if (!options.job.empty()) {
        require_plain_job(options.job);
        script.set_default("JOB", options.job);
    }
    if (!options.output.empty())
        require_new_file(options.output);
    std::error_code ignored;
    if (!options.job.empty() && !std::filesystem::is_regular_file(options.job, ignored))
        fmt::print(
            stderr,
            "warning: there is no job file '{}' (seen from this folder); write it, or submit "
            "the script in another folder\n",
            options.job);
    if (options.output.empty())
        fmt::print("{}", script.text());
    else
        io::write_file_atomically(options.output, script.text());
    return core::ExitCode::done;
}

} // namespace evener::app
