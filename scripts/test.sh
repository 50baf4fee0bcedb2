#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# test.sh [quick|ci|full] [ctest arguments ...]: installs, builds and runs the tests.
#   quick  a fiftieth of each property's cases, one build: about 5 minutes behind the build
#   ci     a tenth; and the unit and fuzz tests again with the sanitizers, at size quick (default,
#          or what EVENER_TEST_SIZE says)
#   full   the stated counts; and with the sanitizers at size ci: hours
# More arguments go to ctest, e.g. `test.sh quick -R core`. All tests run in one ctest, so its last
# lines are the verdict; those of the sanitizer build are called asan/...
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
size=${1:-${EVENER_TEST_SIZE:-ci}}
[[ $# -eq 0 ]] || shift
case $size in
quick) sanitized_size='' factor=1 ;;
ci) sanitized_size=quick factor=1 ;;
full) sanitized_size=ci factor=20 ;;
*)
    echo "test.sh: unknown size '$size' (quick, ci or full)" >&2
    exit 2
    ;;
esac

"$root/scripts/setup.sh"
"$root/scripts/build.sh" ci "-DEVENER_TIMEOUT_FACTOR=$factor"
folders="\"$root/build/ci\""
if [[ -n $sanitized_size ]]; then
    "$root/scripts/build.sh" asan "-DEVENER_TIMEOUT_FACTOR=$factor" \
        -DEVENER_TEST_SIZE="$sanitized_size"
    folders+=" \"$root/build/asan\""
fi

# A folder that only says where the tests of both builds are.
mkdir -p "$root/build/tests-$size"
echo "subdirs($folders)" >"$root/build/tests-$size/CTestTestfile.cmake"
export EVENER_TEST_SIZE=$size
exec ctest --test-dir "$root/build/tests-$size" --output-on-failure --no-tests=error \
    -j "$(($(nproc) + 1))" "$@" # many tests wait more than they compute
