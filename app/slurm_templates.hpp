// SPDX-License-Identifier: Apache-2.0
#pragma once

// The files of slurm/ as they were when Evener was configured.

namespace evener::app {

extern char const* const slurm_nodes_template;
extern char const* const slurm_hetjob_template;
extern char const* const slurm_mpirun_template;

} // namespace evener::app
