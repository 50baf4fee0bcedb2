#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# drill.sh [quick|ci|full]: builds, and rehearses what goes wrong on machines: processes killed at every
# point of a save and at any time, damaged files, full disks, hung ranks, signals, hosts and links
# that die, Slurm's limits and requeues. Prints what each drill counted; ci (default) is a tenth of
# full. The same tests run in test.sh; those that need namespaces or Slurm skip where there are none.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
size=${1:-ci}
case $size in
quick | ci) factor=1 ;;
full) factor=20 ;;
*)
    echo "drill.sh: unknown size '$size' (quick, ci or full)" >&2
    exit 2
    ;;
esac

"$root/scripts/setup.sh"
"$root/scripts/build.sh" ci "-DEVENER_TIMEOUT_FACTOR=$factor"
log=$root/build/drill-$size.log
status=0
EVENER_TEST_SIZE=$size ctest --test-dir "$root/build/ci" --no-tests=error --verbose \
    -L 'drill|testbed|slurm' >"$log" 2>&1 || status=$?
grep -E '^[0-9]+: (drill: |\[ +(OK|FAILED|SKIPPED) +\] [A-Za-z/]+\.)' "$log" |
    sed -E 's/^[0-9]*: //; s/^drill: /               /' || true
tail -n 25 "$log" | grep -E 'tests passed|Total Test time|\((Failed|Timeout|Skipped)\)' || true
echo "drill.sh: size $size, everything in $log"
exit "$status"
