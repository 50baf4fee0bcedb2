# SPDX-License-Identifier: Apache-2.0
# The libraries Evener is built on, all by find_package or pkg-config; nothing is downloaded.
# Imported targets: MPI::MPI_CXX hdf5::hdf5 DNNL::dnnl tomlplusplus::tomlplusplus CLI11::CLI11
# fmt::fmt nlohmann_json::nlohmann_json PkgConfig::xxhash PkgConfig::hwloc; with tests GTest::gtest
# GTest::gmock rapidcheck. Kokkos: see EvenerKokkos.cmake (host plug-in only).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

set(MPI_CXX_SKIP_MPICXX ON) # only the C interface is used
find_package(MPI REQUIRED COMPONENTS CXX)
target_compile_definitions(MPI::MPI_CXX INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)

find_package(dnnl 2.6 REQUIRED)
find_package(tomlplusplus 3.3 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)

if(EVENER_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
