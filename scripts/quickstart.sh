#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# quickstart.sh: from nothing to a trained language model. Installs (setup.sh), builds Release, makes
# token files of the King James text of Debian's package bible-kjv, trains inputs/quickstart.toml on
# four ranks in three unequal stage groups, and prints losses and a sample. Safe to repeat: what is
# prepared or trained stays. All results are in runs/.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" # the paths of the job are relative to the current folder
ranks=4
evener=build/release/bin/evener
data=runs/quickstart-data
run=runs/quickstart

say() {
    printf '\n== %s\n' "$*"
}

say "Installing what Evener is built from"
scripts/setup.sh
say "Building Release"
scripts/build.sh release

say "Preparing the text"
if [[ ! -f $data/report.txt ]]; then
    rm -rf "$data"
    mkdir -p "$data"
    bible -f 'Ge1:1-Rev22:21' </dev/null >"$data/kjv.txt"
    "$evener" prepare --output "$data" --validation-fraction 0.05 --ngrams "$data/kjv.txt" \
        >"$data/report.part"
    mv "$data/report.part" "$data/report.txt"
fi
cat "$data/report.txt"

say "Training inputs/quickstart.toml on $ranks ranks"
if [[ $EUID -eq 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
mpirun --oversubscribe --bind-to none -n "$ranks" "$evener" train inputs/quickstart.toml

say "Loss on the held-out text, and with only the last 4 bytes in sight"
"$evener" evaluate "$run" --data "$data/val.bin"
"$evener" evaluate "$run" --data "$data/val.bin" --context 4

say "A sample"
"$evener" sample "$run" --prompt "In the beginning" --bytes 600 --temperature 0.8
echo
say "Done. Metrics, resolved job, plan and checkpoints are in $run, the token files in $data."
echo "More: $evener --help; $evener sample $run --prompt TEXT --bytes N"
