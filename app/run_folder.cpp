// SPDX-License-Identifier: Apache-2.0
#include "app/run_folder.hpp"

#include "checkpoints/store.hpp"

#include "app/visibility.hpp"
#include "app/watching.hpp"

namespace evener::app {

namespace {

std::optional<io::RunFolderLock> hold(comm::MpiSession const& mpi, std::string const& path) {
    std::optional<io::RunFolderLock> lock;
    together(mpi, mpi.rank() == 0, [&] {
        io::create_folder(path);
        lock.emplace(path);
        checkpoints::require_places(path);
        print_last_words(path);
    });
    return lock;
}

} // namespace

RunFolder::RunFolder(comm::MpiSession const& mpi, std::string const& path)
    : path{path}, lock{hold(mpi, path)}, shared{ranks_that_share(mpi, path)}, status{mpi,
                                                                                     status_file(
                                                                                         path)} {}

void RunFolder::write(comm::MpiSession const& mpi, RunTexts const& texts) const {
    together(mpi, mpi.rank() == 0, [&] {
        io::write_file_atomically(path + "/job.toml", texts.job);
        io::write_file_atomically(path + "/plan.toml", texts.plan);
        io::write_file_atomically(path + "/schedule.csv", texts.schedule);
    });
}

} // namespace evener::app
