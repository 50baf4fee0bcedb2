#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# bench.sh: builds and runs the speed figures, one JSON line each, with the baseline in the line. Run
# it alone on the machine. Figures are ratios of two things measured in the same run.
#   step       whole training steps on one rank, 2 threads, against oneDNN's products (2 lines)
#   stages     two ranks as two stages against what the schedule's bubble allows
#   transport  cost of an idle transport thread, latency of a message
#   memory     the process's growth against the memory table
#   simulate   time of simulating, lowering and verifying 16 groups with 256 microbatches
#   offload    memory saved and time added by offload, simulated, with a table over chunk counts (to
#              stderr)
#   search     time of the greedy search for 64 groups with 512 microbatches
#   executor   what the executor adds to 8 ranks with 64 microbatches of 5 ms
#   writer     data files of checkpoints against plain writes of the same bytes
#   save       what a save beside training costs of a step
#   prediction step times of all schedules predicted from a calibration under 1F1B, against measured
#              ones; its lines by schedule go to stderr
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/scripts/setup.sh" >&2
"$root/scripts/build.sh" ci >&2
bin=$root/build/ci/bin
if [[ $EUID -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
"$bin/step_bench"
mpirun -n 2 --oversubscribe --bind-to none "$bin/stages_bench"
mpirun -n 2 --oversubscribe --bind-to none "$bin/transport_bench"
"$bin/memory_bench"
"$bin/simulate_bench"
"$bin/offload_bench"
"$bin/search_bench"
mpirun -n 8 --oversubscribe --bind-to none "$bin/executor_bench"
"$bin/writer_bench"
"$bin/save_bench"
mpirun -n 2 --oversubscribe --bind-to none "$bin/prediction_bench"
