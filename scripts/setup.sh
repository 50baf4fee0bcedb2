#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# setup.sh [LEVEL ...]: installs what Evener is built from on Debian 12 (apt-get, as root or through
# sudo) and builds Kokkos into the cache folder (setup_kokkos.sh, which takes the levels). Safe to
# repeat: what is there stays, and with everything there nothing is asked of the network. EVENER_NO_APT=1 skips the packages, for
# machines whose libraries come from elsewhere (README.md, "Without root").
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

packages=(
    # compiler and build
    g++ cmake ninja-build pkg-config git xz-utils ca-certificates
    # libraries; Debian's dnnl CMake file asks for OpenCL's headers
    libopenmpi-dev openmpi-bin libhdf5-dev libdnnl-dev ocl-icd-opencl-dev opencl-c-headers
    libtomlplusplus-dev libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev libhwloc-dev
    # tests; h5py and h5dump read what Evener writes
    libgtest-dev libgmock-dev librapidcheck-dev python3-h5py hdf5-tools
    # the text of the quickstart
    bible-kjv
)

is_installed() {
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

install_packages() {
    local package root=() missing=()
    for package in "${packages[@]}"; do
        is_installed "$package" || missing+=("$package")
    done
    if [[ ${#missing[@]} -eq 0 ]]; then
        echo "setup: all ${#packages[@]} Debian packages are installed"
        return
    fi
    if [[ $EUID -ne 0 ]]; then
        if ! command -v sudo >/dev/null; then
            echo "setup: packages are missing and installing them needs root: ${missing[*]}" >&2
            echo "setup: run this as root, or see README.md, \"Without root\"" >&2
            exit 5
        fi
        root=(sudo)
    fi
    echo "setup: installing with apt-get: ${missing[*]}"
    "${root[@]}" apt-get -q update
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y install --no-install-recommends "${missing[@]}"
}

# They bring system services that few machines want, so they stay optional; without them those tests
# skip themselves.
mention_optional_packages() {
    local package missing=()
    for package in iproute2 iputils-ping munge slurmctld slurmd slurm-client shellcheck; do
        is_installed "$package" || missing+=("$package")
    done
    if [[ ${#missing[@]} -gt 0 ]]; then
        echo "setup: optional, for the tests on fake hosts (README.md of tests/testbed):" \
            "apt-get install --no-install-recommends ${missing[*]}"
    fi
}

if [[ ${EVENER_NO_APT:-0} == 1 ]]; then
    echo "setup: EVENER_NO_APT=1, so libraries come from where find_package sees them"
elif ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "setup: no apt-get here (this script knows Debian); see README.md, \"Without root\"" >&2
    exit 5
else
    install_packages
    mention_optional_packages
fi

"$here/setup_kokkos.sh" "$@"
