#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check.sh [record]: part of a bundle of scripts/gpu-bundle.sh. Trains job.toml with one rank, in float32
# and in bfloat16, on the GPU, and compares the losses with those that `record` wrote down on the CPU.
#   EVENER_CHECK_STEPS   10 to 50 steps instead of 50
# CUDA libraries are this machine's: they must be where the loader looks, or in LD_LIBRARY_PATH.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
steps=${EVENER_CHECK_STEPS:-50}
devices=gpu
[[ ${1:-} != record ]] || devices=cpu

# Open MPI finds itself in the bundle, looks for no launcher and talks to nobody.
export OPAL_PREFIX=$here OPAL_LIBDIR=$here/lib OPAL_PKGLIBDIR=$here/openmpi/lib
export OPAL_PKGDATADIR=$here/openmpi/share OPAL_SYSCONFDIR=$here/openmpi/etc
export OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self
export OMPI_MCA_mca_base_component_show_load_errors=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export EVENER_PLUGIN_PATH=$here/plugins
if [[ -z ${EVENER_DEVICE_PLUGIN:-} ]]; then
    export EVENER_DEVICE_PLUGIN=$here/plugins/libevener_cuda.so
fi

if ! "$here/bin/evener" --version; then
    echo "check.sh: the executable does not start here; it was built for $(cat "$here/built-on")" >&2
    exit 1
fi
cd "$here"
failed=0
for type in float32 bfloat16; do
    out=$here/run/$devices-$type
    rm -rf "$out"
    begin=$SECONDS
    if ! bin/evener train job.toml --set run.devices="\"$devices\"" --set run.out="\"$out\"" \
        --set precision.compute="\"$type\"" --set train.steps="$steps"; then
        echo "check.sh: training in $type failed" >&2
        failed=1
        continue
    fi
    echo "check.sh: $steps steps in $type on the $devices in $((SECONDS - begin)) s"
    if [[ $devices == cpu ]]; then
        cp "$out/metrics.jsonl" "losses-$type.jsonl"
    else
        python3 compare_losses.py "$type" "$steps" "losses-$type.jsonl" "$out/metrics.jsonl" || failed=1
    fi
done
exit $failed
