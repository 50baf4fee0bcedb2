#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh PRESET [-DNAME=VALUE ...]: configures and builds build/PRESET (CMakePresets.json), with
# ccache where there is one.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:?usage: build.sh PRESET [-DNAME=VALUE ...]}
shift

if command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
cd "$root"
mkdir -p "build/$preset"
log=build/$preset/configure.log
echo "build: configuring build/$preset"
if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
echo "build: compiling build/$preset"
quiet=(-- --quiet)
[[ ! -t 1 ]] || quiet=() # a person sees the progress, a log only what went wrong
cmake --build "build/$preset" -j "$(nproc)" "${quiet[@]}"
