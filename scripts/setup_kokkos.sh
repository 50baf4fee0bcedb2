#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup_kokkos.sh [LEVEL ...]: builds Kokkos with OpenMP for each x86-64 level (v2, v3, v4; default
# this machine's) into the cache folder, from the copy inside Debian's `trilinos` source package.
# Debian's own binary has no OpenMP. The sources come through an isolated apt configuration: the
# system's own apt sources with deb-src switched on; nothing of the system's apt state changes.
# The cache is $EVENER_CACHE, else $XDG_CACHE_HOME/evener, else ~/.cache/evener.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=3.4.1
cache=${EVENER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/evener}
compiler=gcc$("${CXX:-g++}" -dumpversion | cut -d. -f1)

if [[ $# -gt 0 ]]; then
    levels=("$@")
else
    levels=("$("$here/x86_64_level.sh")")
fi

missing=()
for level in "${levels[@]}"; do
    folder=$cache/kokkos-$version-$compiler-x86-64-$level
    if [[ -f $folder/lib/cmake/Kokkos/KokkosConfig.cmake ]]; then
        echo "Kokkos $version for x86-64-$level is in $folder"
    else
        missing+=("$level")
    fi
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

# An installed Kokkos that fits (a module, Spack, Kokkos_DIR) is as good: CMake would take it.
installed() {
    local probe=$work/probe-$1
    cmake -G Ninja -S "$here/cmake/kokkos_probe" -B "$probe" "-DLEVEL=$1" >/dev/null 2>&1 &&
        cmake --build "$probe" >/dev/null 2>&1 && grep -s '^folder: ' "$probe/verdict.txt"
}

mkdir -p "$cache"
work=$(mktemp -d "$cache/kokkos-build.XXXXXX")
trap 'rm -rf "$work"' EXIT

for index in "${!missing[@]}"; do
    if found=$(installed "${missing[index]}"); then
        echo "Kokkos for x86-64-${missing[index]} is installed in ${found#folder: }"
        unset "missing[index]"
    fi
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

# The system's apt sources as deb-src only, in the old and the deb822 notation.
write_source_lists() {
    local file
    mkdir -p "$work/apt/sources.list.d" "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    : >"$work/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -f $file ]] || continue
        sed -n 's/^[[:space:]]*deb[[:space:]]\(.*\)/deb-src \1/p' "$file" |
            grep -v 'cdrom:' >>"$work/apt/sources.list" || true
    done
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -f $file ]] || continue
        sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/apt/sources.list.d/${file##*/}"
    done
}

isolated_apt() {
    apt-get -q -o Dir::Etc::SourceList="$work/apt/sources.list" \
        -o Dir::Etc::SourceParts="$work/apt/sources.list.d" \
        -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" \
        -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

echo "Kokkos $version: fetching Debian's trilinos sources (166 MB, kept only while unpacking)"
write_source_lists
# A source of somebody else's that has no deb-src must not stop us; the next command tells.
isolated_apt update >"$work/apt.log" 2>&1 || true
if ! (cd "$work" && isolated_apt source --download-only trilinos) >>"$work/apt.log" 2>&1; then
    cat "$work/apt.log" >&2
    echo "setup_kokkos.sh: cannot fetch the sources of package trilinos (see above); build Kokkos" \
        "with OpenMP, static and position-independent, yourself and set Kokkos_DIR" >&2
    exit 5
fi
mkdir "$work/trilinos"
tar -C "$work/trilinos" --wildcards --strip-components=3 -xf "$work"/trilinos_*.orig.tar.* \
    '*/packages/kokkos'
rm -f "$work"/trilinos_*.tar.*
found=$(sed -n 's/^.*Kokkos_VERSION_\(MAJOR\|MINOR\|PATCH\) 0*\([0-9][0-9]*\).*/\2/p' \
    "$work/trilinos/CMakeLists.txt" | head -n 3 | paste -sd.)
if [[ $found != "$version" ]]; then
    echo "setup_kokkos.sh: this system's trilinos holds Kokkos '$found' (expected $version);" \
        "build Kokkos with OpenMP yourself and set Kokkos_DIR" >&2
    exit 5
fi

for level in "${missing[@]}"; do
    folder=$cache/kokkos-$version-$compiler-x86-64-$level
    echo "Kokkos $version: building for x86-64-$level"
    if ! {
        cmake -G Ninja -S "$work/trilinos" -B "$work/build-$level" -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_CXX_STANDARD=20 -DKokkos_CXX_STANDARD=20 \
            -DCMAKE_CXX_FLAGS="-march=x86-64-$level -fvisibility=hidden" \
            -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
            -DKokkos_ENABLE_OPENMP=ON -DKokkos_ENABLE_SERIAL=ON \
            -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR=lib &&
            cmake --build "$work/build-$level" -j "$(nproc)" &&
            DESTDIR="$work/root-$level" cmake --install "$work/build-$level"
    } >"$work/build.log" 2>&1; then
        tail -n 40 "$work/build.log" >&2
        echo "setup_kokkos.sh: Kokkos for x86-64-$level does not build (see above)" >&2
        exit 1
    fi
    rm -rf "$folder"
    mv -T "$work/root-$level$folder" "$folder"
    echo "Kokkos $version for x86-64-$level is in $folder"
done
