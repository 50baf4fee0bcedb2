// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random valid jobs, resolved. The same for the same seed.

#include "job/job.hpp"

#include <cstdint>

namespace evener::job {

Job random_job(std::uint64_t seed);

} // namespace evener::job
