// SPDX-License-Identifier: Apache-2.0

// What a main does with MpiSession, for session_test: `session_program run` ends well on every
// rank; `session_program fail` has rank 1 throw while rank 0 waits for it.

#include "comm/mpi_session.hpp"

#include <cstdio>
#include <string_view>

namespace {

void run(int argc, char** argv) {
    evener::comm::MpiSession const session{&argc, &argv};
    if (argc > 1 && std::string_view{argv[1]} == "fail" && session.rank() == 1)
        throw evener::core::DeviceError{0, true, "the device is gone"};
    session.world().barrier();
    std::printf("rank %d of %d\n", session.rank(), session.size());
}

} // namespace

int main(int argc, char** argv) {
    try {
        run(argc, argv);
        return 0;
    } catch (evener::core::Error const& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        evener::comm::MpiSession::abort_job(error.code());
    }
}
