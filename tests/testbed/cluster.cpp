// SPDX-License-Identifier: Apache-2.0
#include "testbed/cluster.hpp"

#include "core/error.hpp"
#include "support/paths.hpp"

#include <unistd.h>

#include <cstdio>

namespace evener::testbed {

namespace {

std::string script_path(std::string const& name) {
    return (support::source_root() / "tests/testbed/bin" / name).string();
}

std::string last_line(std::string text) {
    while (text.ends_with('\n'))
        text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

} // namespace

std::string missing(std::vector<std::string> const& parts) {
    std::vector<std::string> command{script_path("check")};
    command.insert(command.end(), parts.begin(), parts.end());
    auto const result = support::run_process(command);
    return result.exit_code == 0 ? "" : last_line(result.errors);
}

Cluster::Cluster(std::string_view name, std::vector<std::string> const& sites, int slots)
    : name_{std::string{name} + "-" + std::to_string(getpid())}, state_{"/run/evener-" + name_},
      slots_{slots} {
    std::vector<std::string> words{"hosts-up", "--owner", std::to_string(getpid())};
    words.insert(words.end(), sites.begin(), sites.end());
    expect(words);
}

Cluster::~Cluster() {
    auto const result = script({"hosts-down"});
    if (result.exit_code != 0)
        std::fprintf(stderr, "hosts-down: %s\n", result.errors.c_str());
}

support::ProcessResult Cluster::script(std::vector<std::string> const& words,
                                       std::chrono::seconds timeout) const {
    std::vector<std::string> command = words;
    command[0] = script_path(words[0]);
    support::ProcessOptions options;
    options.timeout = timeout;
    options.environment = {"TESTBED_NAME=" + name_, "TESTBED_SLOTS=" + std::to_string(slots_),
                           "TESTBED_LINK=" + support::program("testbed_link").string(),
                           "TESTBED_MPIRUN=" + support::mpiexec()};
    return support::run_process(command, options);
}

std::string Cluster::expect(std::vector<std::string> const& words,
                            std::chrono::seconds timeout) const {
    auto const result = script(words, timeout);
    if (result.exit_code != 0)
        throw core::Error{core::ExitCode::internal, words[0] + " ended with " +
                                                        std::to_string(result.exit_code) + ":\n" +
                                                        result.output + result.errors};
    return result.output;
}

} // namespace evener::testbed
