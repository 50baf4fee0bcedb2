# SPDX-License-Identifier: Apache-2.0
# Writes generated/core/build_info.hpp and, for the plug-ins, generated/kernels/build_id.hpp.
# EVENER_BUILD_ID is the same in the executable and the plug-ins of one build: a hash of the kernel
# contracts, version, compiler and build type. The commit is not in it, and stands in a source file
# of its own, so that a new commit recompiles one small file.
file(GLOB contracts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.hpp)
list(SORT contracts)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${contracts})
set(text "${PROJECT_VERSION} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${EVENER_SANITIZE}")
foreach(contract IN LISTS contracts)
  file(SHA256 ${contract} hash)
  string(APPEND text " ${hash}")
endforeach()
string(SHA256 EVENER_BUILD_ID "${text}")
string(SUBSTRING ${EVENER_BUILD_ID} 0 16 EVENER_BUILD_ID)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.hpp.in
               ${PROJECT_BINARY_DIR}/generated/core/build_info.hpp @ONLY)
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_id.hpp.in
               ${PROJECT_BINARY_DIR}/generated/kernels/build_id.hpp @ONLY)

# Links evener_core to a source file that tells the commit; it is rewritten only when that changed.
add_custom_target(evener_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
          -DOUTPUT=${PROJECT_BINARY_DIR}/generated/core/commit.cpp
          -P ${CMAKE_CURRENT_LIST_DIR}/write_commit.cmake
  BYPRODUCTS ${PROJECT_BINARY_DIR}/generated/core/commit.cpp
  COMMENT "Looking up the commit")
