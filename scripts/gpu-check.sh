#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu-check.sh [BUNDLE.tar.xz]: what only a GPU can show, in at most 8 minutes.
#   Stage one needs nvcc, g++, CMake and Python, nothing else: it builds the CUDA plug-in for this
#   machine's GPU and a program that compares every operation with the reference, then prints the
#   share of the copy bandwidth, or of the cuBLAS rate, that each operation reaches.
#   Stage two, when a bundle of gpu-bundle.sh is given, trains its job for 50 steps on one rank with
#   the GPU and compares the losses with those that the bundle's CPU run had.
# Environment:
#   EVENER_GPU_CHECK_BUILD   folder to build in (default: build/gpu-check)
#   EVENER_GPU_CHECK_FAKE    libevener_hostcuda.so of a build (its gpu_check lies in ../bin): checks
#                            this script where there is no GPU; times then mean nothing
# Exit code: 0 good, 1 something is wrong, 77 no GPU.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bundle=${1:-}
fake=${EVENER_GPU_CHECK_FAKE:-}
build=${EVENER_GPU_CHECK_BUILD:-$root/build/gpu-check}
failures=0

say() {
    printf '\n== %s (%d s)\n' "$*" "$SECONDS"
}

# check WHAT COMMAND...: runs it; a failure is counted and the script goes on, for time on a GPU is
# short.
check() {
    local what=$1 code=0
    shift
    "$@" || code=$?
    if [[ $code -ne 0 ]]; then
        echo "gpu-check: $what failed (exit code $code)"
        failures=$((failures + 1))
    fi
}

no_gpu() {
    echo "gpu-check: skipped: $*"
    exit 77
}

find_nvcc() {
    local candidate
    for candidate in "${NVCC:-}" "$(command -v nvcc || true)" "${CUDA_PATH:-}/bin/nvcc" \
        /usr/local/cuda/bin/nvcc; do
        if [[ -n $candidate && -x $candidate ]]; then
            echo "$candidate"
            return
        fi
    done
}

# The driver's word for the first GPU's compute capability, without a dot: 90. Empty without a GPU.
gpu_architecture() {
    python3 - <<'PYTHON'
import ctypes

try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    raise SystemExit
device, count, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
    raise SystemExit
driver.cuDeviceGet(ctypes.byref(device), 0)
numbers = []
for attribute in (75, 76):  # compute capability, major and minor
    driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
    numbers.append(str(value.value))
print("".join(numbers))
PYTHON
}

build_stage_one() {
    local nvcc=$1 architecture=$2
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DEVENER_GPU_CHECK_ONLY=ON \
        -DEVENER_CUDA=ON -DCUDAToolkit_ROOT="${nvcc%/bin/nvcc}" \
        -DEVENER_CUDA_ARCHITECTURES="$architecture-real" >"$build/configure.log" 2>&1 ||
        {
            cat "$build/configure.log"
            return 1
        }
    cmake --build "$build" -j "$(nproc)" --target gpu_check evener_cuda >"$build/build.log" 2>&1 ||
        {
            grep -iE 'error|fatal' "$build/build.log" || tail -n 40 "$build/build.log"
            return 1
        }
}

stage_two() {
    local work=$build/bundle
    rm -rf "$work"
    mkdir -p "$work"
    tar -C "$work" -xf "$bundle"
    if [[ -n $fake ]]; then
        EVENER_DEVICE_PLUGIN=$fake "$work/evener-bundle/check.sh"
    else
        LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$toolkit/lib64 \
            "$work/evener-bundle/check.sh"
    fi
}

mkdir -p "$build"
say "Stage one: kernels against the reference"
if [[ -n $fake ]]; then
    echo "gpu-check: a fake GPU, nothing here ran on hardware"
    program=$(dirname "$fake")/../bin/gpu_check
    plugin=$fake
    compare=(compare "${EVENER_GPU_CHECK_EVERY:-1}")
    rates=(rates small)
else
    architecture=$(gpu_architecture)
    [[ -n $architecture ]] || no_gpu "no GPU that the driver's libcuda.so.1 can use"
    nvcc=$(find_nvcc)
    [[ -n $nvcc ]] || no_gpu "a GPU, but no nvcc (PATH, /usr/local/cuda/bin, NVCC or CUDA_PATH)"
    toolkit=${nvcc%/bin/nvcc}
    check "building for sm_$architecture" build_stage_one "$nvcc" "$architecture"
    program=$build/bin/gpu_check
    plugin=$build/lib/libevener_cuda.so
    compare=(compare)
    rates=(rates)
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$toolkit/lib64
fi
export EVENER_TEST_PLUGIN=$plugin EVENER_TEST_THREADS=1
if [[ -x $program && -f $plugin ]]; then
    check "comparing with the reference" "$program" "${compare[@]}"
    say "Rates"
    check "measuring" "$program" "${rates[@]}"
fi
if [[ -z $fake ]]; then
    say "Registers, memory and machine code"
    check "the resource report" env NVCC="$nvcc" python3 "$root/scripts/cuda_resources.py"
fi
if [[ -n $bundle ]]; then
    say "Stage two: 50 steps on the GPU against the CPU's losses"
    check "training" stage_two
fi

say "Done: $failures failures"
[[ $failures -eq 0 ]]
