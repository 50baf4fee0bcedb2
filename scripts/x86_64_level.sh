#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints this machine's x86-64 level (v2, v3 or v4) from the CPU flags the kernel reports.
set -euo pipefail

flags=" $(sed -n '/^flags[[:space:]]*:/ { s/^[^:]*: *//; p; q }' /proc/cpuinfo) "

has_all() {
    local flag
    for flag in "$@"; do
        [[ $flags == *" $flag "* ]] || return 1
    done
}

if ! has_all cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3; then
    echo "x86_64_level.sh: this CPU is below x86-64-v2, which Evener needs" >&2
    exit 3
elif ! has_all avx avx2 bmi1 bmi2 f16c fma abm movbe xsave; then
    echo v2
elif ! has_all avx512f avx512bw avx512cd avx512dq avx512vl; then
    echo v3
else
    echo v4
fi
