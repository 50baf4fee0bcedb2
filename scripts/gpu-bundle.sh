#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu-bundle.sh OUTPUT.tar.xz: packs what `gpu-check.sh OUTPUT.tar.xz` trains with on a machine that has
# nothing but CUDA: the executable, the host plug-in of this machine's level and the CUDA plug-in for
# sm_90, the shared libraries and parts of Open MPI they need (no CUDA libraries, no C or C++ run time),
# a job, its tokens, and the losses of the job on this machine's CPU. At most 60 MiB.
#   EVENER_BUNDLE_BUILD          an existing build folder (default: build/bundle, built by this script)
#   EVENER_BUNDLE_ARCHITECTURES  GPU architectures (default: 90-real)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=${1:?usage: gpu-bundle.sh OUTPUT.tar.xz}
build=${EVENER_BUNDLE_BUILD:-$root/build/bundle}
most_bytes=$((60 * 1024 * 1024))

if [[ -z ${EVENER_BUNDLE_BUILD:-} ]]; then
    launcher=()
    if command -v ccache >/dev/null; then
        launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    fi
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DEVENER_BUILD_TESTS=OFF -DEVENER_CUDA=ON \
        -DEVENER_CUDA_ARCHITECTURES="${EVENER_BUNDLE_ARCHITECTURES:-90-real}" "${launcher[@]}" >/dev/null
    cmake --build "$build" -j "$(nproc)"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/evener-bundle
mkdir -p "$bundle"/{bin,plugins,lib,openmpi/lib,openmpi/share,openmpi/etc}

echo "gpu-bundle: collecting"
install -s "$build/bin/evener" "$bundle/bin/"
for plugin in "$build"/lib/libevener_host_x86-64-v*.so "$build/lib/libevener_cuda.so"; do
    install -s "$plugin" "$bundle/plugins/"
done
cp -r "$(ompi_info --path pkglibdir --parsable | sed 's/.*://')"/. "$bundle/openmpi/lib/"
cp -r "$(ompi_info --path pkgdatadir --parsable | sed 's/.*://')"/. "$bundle/openmpi/share/"
libraries=$(ompi_info --path libdir --parsable | sed 's/.*://')

# needed FILE...: paths of the shared libraries the files load, but for what every machine with CUDA
# has of its own.
needed() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
        grep -vE '/(lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s)\.so|ld-linux|lib(cuda|cublas|nvrtc|nccl))'
}
# Components of Open MPI that need more than this are for networks and launchers; it does without.
while read -r library; do
    cp -L "$library" "$bundle/lib/"
done < <(needed "$bundle"/bin/evener "$bundle"/plugins/*.so)
for library in "$libraries"/libmca_common_{sm,ompio}.so*; do
    [[ ! -e $library ]] || cp -L "$library" "$bundle/lib/"
done

cp "$root"/scripts/bundle/{check.sh,compare_losses.py,job.toml} "$bundle/"
ldd --version | sed -n 1p >"$bundle/built-on"
find "$root/src" "$root/kernels" -name '*.hpp' -print0 | sort -z | xargs -0 cat >"$work/text.txt"
"$bundle/bin/evener" prepare --output "$work/data" "$work/text.txt" >/dev/null
mv "$work/data/train.bin" "$bundle/train.bin"

echo "gpu-bundle: recording the losses on this machine's CPU"
env -u EVENER_DEVICE_PLUGIN "$bundle/check.sh" record
rm -rf "$bundle/run"

mkdir -p "$(dirname "$output")"
XZ_DEFAULTS=-T0 tar -C "$work" -cJf "$output" evener-bundle
bytes=$(stat -c %s "$output")
echo "gpu-bundle: $output, $((bytes / 1024)) KiB"
if [[ $bytes -gt $most_bytes ]]; then
    echo "gpu-bundle: more than $((most_bytes / 1024)) KiB" >&2
    exit 1
fi
