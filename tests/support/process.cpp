// SPDX-License-Identifier: Apache-2.0

// Output goes to files, not pipes: a program that says a lot never waits for us, and none is lost.

#include "support/process.hpp"

#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace evener::support {

namespace {

std::string text_of(std::filesystem::path const& path) {
    std::ifstream file{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{file}, {}};
}

void redirect(int descriptor, char const* path, int flags) {
    int const file = open(path, flags, 0600);
    if (file < 0 || dup2(file, descriptor) < 0)
        _exit(126);
    close(file);
}

} // namespace

ProcessResult run_process(std::vector<std::string> const& command, ProcessOptions const& options) {
    TemporaryFolder const said{"process"};
    std::string const out = said / "out";
    std::string const err = said / "err";
    std::vector<char*> arguments;
    for (std::string const& word : command)
        arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);

    pid_t const child = fork();
    if (child == 0) {
        setpgid(0, 0);
        redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
        redirect(STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT);
        redirect(STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT);
        if (!options.folder.empty() && chdir(options.folder.c_str()) != 0)
            _exit(126);
        for (std::string const& variable : options.environment)
            putenv(const_cast<char*>(variable.c_str()));
        execvp(arguments[0], arguments.data());
        _exit(127);
    }

    ProcessResult result;
    // mpirun passes a first SIGTERM on to its ranks; what is still there later is killed.
    auto const deadline = std::chrono::steady_clock::now() + options.timeout;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        auto const now = std::chrono::steady_clock::now();
        if (now > deadline + std::chrono::seconds{5})
            kill(-child, SIGKILL);
        else if (now > deadline && !std::exchange(result.timed_out, true))
            kill(-child, SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds{2});
    }
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.output = text_of(out);
    result.errors = text_of(err);
    return result;
}

std::vector<std::string> under_mpirun(int ranks, std::vector<std::string> const& command) {
    std::vector<std::string> all{mpiexec(), "--oversubscribe",    "--bind-to", "none",
                                 "-n",      std::to_string(ranks)};
    all.insert(all.end(), command.begin(), command.end());
    return all;
}

} // namespace evener::support
