// SPDX-License-Identifier: Apache-2.0
#include "app/mpi_job.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>

namespace evener::app {

namespace {

void print(std::string const& text) {
    fmt::print(stderr, "{}\n", text);
}

/// Findings carry their own "error:" and place.
std::string with_prefix(std::string const& text) {
    return text.substr(0, text.find('\n')).find("error: ") != std::string::npos ? text
                                                                                : "error: " + text;
}

} // namespace

int run_guarded(std::function<core::ExitCode()> const& command) {
    try {
        core::ExitCode const code = command();
        if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
            print("error: the output could not be written (is the device full?)");
            return static_cast<int>(core::ExitCode::file);
        }
        return static_cast<int>(code);
    } catch (std::filesystem::filesystem_error const& error) {
        print(fmt::format("error: {}", error.what()));
        return static_cast<int>(core::ExitCode::file);
    } catch (std::system_error const& error) { // of printing
        print(fmt::format("error: {}", error.what()));
        return static_cast<int>(core::ExitCode::file);
    } catch (core::ConfigError const& error) {
        print(error.what()); // carries "error:" and places itself
        return static_cast<int>(error.code());
    } catch (core::Error const& error) {
        print(with_prefix(error.what()));
        return static_cast<int>(error.code());
    } catch (std::exception const& error) {
        print(fmt::format("internal error: {}", error.what()));
        return static_cast<int>(core::ExitCode::internal);
    }
}

namespace {

/// Runs `body` between the start and the end of MPI.
core::ExitCode run_session(std::function<core::ExitCode(comm::MpiSession const&)> const& body) {
    comm::MpiSession const mpi{nullptr, nullptr};
    auto const common = [&](std::string const& text, core::ExitCode code) {
        if (mpi.rank() != 0)
            return core::ExitCode::done;
        print(text);
        return code;
    };
    auto const abort = [&](std::string const& text, core::ExitCode code) {
        print(fmt::format("rank {}: {}", mpi.rank(), text));
        comm::MpiSession::abort_job(code);
    };
    try {
        core::ExitCode const code = body(mpi);
        return mpi.rank() == 0 ? code : core::ExitCode::done;
    } catch (core::ConfigError const& error) {
        return common(error.what(), error.code());
    } catch (core::AgreedError const& error) {
        return common(with_prefix(error.what()), error.code());
    } catch (core::Error const& error) {
        abort(error.what(), error.code());
    } catch (std::exception const& error) {
        abort(fmt::format("internal error: {}", error.what()), core::ExitCode::internal);
    }
    return core::ExitCode::internal;
}

} // namespace

core::ExitCode run_mpi_job(std::function<core::ExitCode(comm::MpiSession const&)> const& body) {
    core::ExitCode const code = run_session(body);
    // srun ends ranks that still run when one has ended with a code, and then returns their signal
    // in the place of it: of a job to be requeued the other ranks must be gone before.
    if (code == core::ExitCode::resumable && std::getenv("SLURM_STEP_ID") != nullptr)
        std::this_thread::sleep_for(std::chrono::seconds{1});
    return code;
}

void together(comm::MpiSession const& mpi, bool active, std::function<void()> const& work) {
    std::string message;
    std::int64_t code = 0;
    try {
        if (active)
            work();
    } catch (core::Error const& error) {
        message = error.what();
        code = static_cast<std::int64_t>(error.code());
    }
    comm::Agreement const agreement = comm::agree(mpi.world(), code == 0, message);
    if (agreement.ok)
        return;
    std::int64_t const worst = mpi.world().all_max(std::vector<std::int64_t>{code}).front();
    std::string text = agreement.message;
    if (agreement.rank > 0)
        text = fmt::format("rank {}: {}", agreement.rank, text);
    throw core::AgreedError{static_cast<core::ExitCode>(worst), text};
}

} // namespace evener::app
