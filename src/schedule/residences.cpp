// SPDX-License-Identifier: Apache-2.0
#include "schedule/residences.hpp"

namespace evener::schedule {

namespace {

/// Items of one chunk, with nothing of another between them.
struct Run {
    core::ChunkId chunk;
    std::size_t first = 0;
    std::size_t last = 0;
};

std::vector<Run> runs_of(std::vector<core::ChunkId> const& chunks) {
    std::vector<Run> runs;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
        if (!chunks[i].valid())
            continue;
        if (runs.empty() || runs.back().chunk != chunks[i])
            runs.push_back({chunks[i], i, i});
        runs.back().last = i;
    }
    return runs;
}

} // namespace

std::vector<Residence> residences_of(std::vector<core::ChunkId> const& chunks) {
    std::vector<Run> const runs = runs_of(chunks);
    std::vector<Residence> residences;
    std::vector<std::size_t> of_run; // index of its residence
    for (std::size_t r = 0; r < runs.size(); ++r) {
        if (r >= 2 && runs[r - 2].chunk == runs[r].chunk) {
            of_run.push_back(of_run[r - 2]);
            residences[of_run.back()].last = runs[r].last;
            continue;
        }
        of_run.push_back(residences.size());
        residences.push_back(
            {runs[r].chunk, r == 0 ? 0 : runs[r - 1].first, runs[r].first, runs[r].last});
    }
    return residences;
}

} // namespace evener::schedule
