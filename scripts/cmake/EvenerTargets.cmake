# SPDX-License-Identifier: Apache-2.0
# evener_add_library(NAME core SOURCES a.cpp b.cpp [PUBLIC Evener::x fmt::fmt ...] [PRIVATE ...])
#   makes the static library evener_core with the alias Evener::core; without SOURCES a header-only
#   one. Includes are written from the repository ("kernels/table.hpp") or src/ ("core/error.hpp").
# evener_common_options(target [LEVEL v3])
#   warnings, sanitizers and the x86-64 level; objects of different levels are never linked together,
#   so everything but the host plug-in stays at v2.

function(evener_common_options target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LEVEL" "")
  if(NOT arg_LEVEL)
    set(arg_LEVEL v2)
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Messages name files as the repository does, wherever it was built.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic
                         -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False alarms of g++ 12 inside std::string when optimizing (GCC bugs 105329 and 105616).
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict)
  endif()
  target_compile_definitions(${target} PRIVATE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
  if(EVENER_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(${target} PRIVATE -march=x86-64-${arg_LEVEL})
  endif()
  if(EVENER_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined
                           -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
    target_link_options(${target} PUBLIC -fsanitize=address,undefined)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/scripts/cmake/keep_loaded.cpp)
      target_link_options(${target} PRIVATE LINKER:--export-dynamic-symbol=dlclose)
    endif()
  endif()
endfunction()

function(evener_add_library)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  if(NOT arg_NAME OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "evener_add_library: NAME missing or unknown '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  set(target evener_${arg_NAME})
  set(roots ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    target_include_directories(${target} PUBLIC ${roots})
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
    evener_common_options(${target})
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${roots})
    target_link_libraries(${target} INTERFACE ${arg_PUBLIC})
  endif()
  add_library(Evener::${arg_NAME} ALIAS ${target})
endfunction()
