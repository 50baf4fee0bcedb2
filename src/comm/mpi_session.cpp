// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_session.hpp"

#include "core/log.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

namespace evener::comm {

namespace {

/// A positive number, or nothing.
std::optional<int> number(char const* text) {
    int value = 0;
    if (text == nullptr)
        return std::nullopt;
    char const* const end = text + std::strlen(text);
    auto const [rest, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || rest != end || value < 1)
        return std::nullopt;
    return value;
}

void refuse_missing_ranks() {
    int size = 0;
    EVENER_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size));
    auto const announced = announced_ranks([](char const* name) { return std::getenv(name); });
    if (announced && announced->ranks > size)
        throw core::CommError{
            MPI_ERR_OTHER, -1,
            fmt::format("the launcher announces {} ranks in {} (MPI_COMM_WORLD has {}, so every "
                        "process trains alone) start with srun --mpi=pmix, or with the mpirun of "
                        "this MPI",
                        announced->ranks, announced->variable, size)};
}

std::string library_line() {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    EVENER_MPI(MPI_Get_library_version(text, &length));
    std::string const whole(text, static_cast<std::size_t>(length));
    return whole.substr(0, whole.find_first_of(",\n"));
}

std::string host_name() {
    char text[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    EVENER_MPI(MPI_Get_processor_name(text, &length));
    return {text, static_cast<std::size_t>(length)};
}

} // namespace

std::optional<Announcement> announced_ranks(std::function<char const*(char const*)> const& lookup) {
    // mpirun's daemons are themselves started by srun, so its own word counts before Slurm's.
    if (auto const ranks = number(lookup("OMPI_COMM_WORLD_SIZE")))
        return Announcement{"OMPI_COMM_WORLD_SIZE", *ranks};
    if (auto const ranks = number(lookup("PMI_SIZE")))
        return Announcement{"PMI_SIZE", *ranks};
    // In a batch script, too, SLURM_NTASKS is set; only a process of a step counts.
    if (lookup("SLURM_STEP_ID") == nullptr || lookup("SLURM_PROCID") == nullptr)
        return std::nullopt;
    for (char const* const name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"})
        if (auto const ranks = number(lookup(name)))
            return Announcement{name, *ranks};
    return std::nullopt;
}

std::string missing_pmi(std::function<char const*(char const*)> const& lookup) {
    for (char const* const name :
         {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PMI_FD"})
        if (lookup(name) != nullptr)
            return {};
    auto const announced = announced_ranks(lookup);
    if (!announced || announced->ranks == 1)
        return {};
    return fmt::format("srun started {} processes ({}) without PMIx or PMI; if MPI does not start "
                       "now, use srun --mpi=pmix",
                       announced->ranks, announced->variable);
}

MpiSession::Runtime::Runtime(int* argc, char*** argv) : exceptions{std::uncaught_exceptions()} {
    int running = 0;
    MPI_Initialized(&running);
    int provided = 0;
    if (running != 0) {
        EVENER_MPI(MPI_Query_thread(&provided));
    } else {
        // A rank that waits in MPI gives its core to the rank or thread that computes.
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
        std::string const hint = missing_pmi(std::getenv);
        if (!hint.empty() && std::string_view{std::getenv("SLURM_PROCID")} == "0")
            core::log::root(core::log::Level::warn, "{}", hint);
        if (MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS)
            throw core::CommError{MPI_ERR_OTHER, -1,
                                  "MPI cannot be started (see its messages above) check that "
                                  "mpirun is of the MPI this program is built with"};
        owned = true;
    }
    EVENER_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (provided != MPI_THREAD_MULTIPLE)
        throw core::CommError{MPI_ERR_OTHER, -1,
                              fmt::format("this MPI offers thread level {} (the transport thread "
                                          "needs MPI_THREAD_MULTIPLE, {}) use an MPI built with it",
                                          provided, static_cast<int>(MPI_THREAD_MULTIPLE))};
    refuse_missing_ranks();
}

MpiSession::Runtime::~Runtime() {
    int ended = 0;
    MPI_Finalized(&ended);
    if (owned && ended == 0 && std::uncaught_exceptions() == exceptions)
        MPI_Finalize();
}

MpiSession::MpiSession(int* argc, char*** argv)
    : runtime_{argc, argv}, world_{Communicator::duplicate(MPI_COMM_WORLD)},
      node_{Communicator::of_node(MPI_COMM_WORLD)}, hosts_{world_.all_gather(host_name())},
      library_{library_line()} {}

MpiSession::~MpiSession() = default;

void MpiSession::abort_job(core::ExitCode code) {
    int running = 0;
    int ended = 0;
    MPI_Initialized(&running);
    MPI_Finalized(&ended);
    if (running != 0 && ended == 0)
        MPI_Abort(MPI_COMM_WORLD, static_cast<int>(code));
    std::_Exit(static_cast<int>(code));
}

} // namespace evener::comm
