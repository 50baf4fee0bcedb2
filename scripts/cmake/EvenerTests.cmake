# SPDX-License-Identifier: Apache-2.0
# evener_add_test(NAME core/error SOURCES error_test.cpp [LIBS Evener::core ...] [NP 1 2 4]
#                 [LABELS unit ...] [TIMEOUT seconds] [ENVIRONMENT A=b ...])
#   One GoogleTest executable (bin/test_core_error). Without NP: the ctest `core/error`. With NP: one
#   ctest `core/error.npP` per count, started by mpirun with a main that joins the ranks' results.
#   LABELS default to unit (mpi is added to NP tests); TIMEOUT to 300 s. Exit code 77 = skipped.

function(evener_add_test)
  cmake_parse_arguments(arg "" "NAME;TIMEOUT" "SOURCES;LIBS;NP;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_NAME OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "evener_add_test: NAME or SOURCES missing, or unknown "
                        "'${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  string(REPLACE "/" "_" target "test_${arg_NAME}")
  add_executable(${target} ${arg_SOURCES})
  evener_common_options(${target})
  target_link_libraries(${target} PRIVATE ${arg_LIBS})

  if(NOT arg_NP)
    target_link_libraries(${target} PRIVATE evener_test_main)
    add_test(NAME ${arg_NAME} COMMAND ${target})
    evener_set_test_properties(${arg_NAME} 1)
    return()
  endif()
  target_link_libraries(${target} PRIVATE evener_test_main_mpi)
  list(APPEND arg_LABELS mpi)
  foreach(ranks IN LISTS arg_NP)
    set(name ${arg_NAME}.np${ranks})
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n ${ranks}
                                  $<TARGET_FILE:${target}>)
    evener_set_test_properties(${name} ${ranks})
  endforeach()
endfunction()

# Reads arg_LABELS, arg_TIMEOUT and arg_ENVIRONMENT of the caller.
macro(evener_set_test_properties name processors)
  set_tests_properties(
    ${name} PROPERTIES
    LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} PROCESSORS ${processors} SKIP_RETURN_CODE 77
    ENVIRONMENT "OMPI_MCA_mpi_yield_when_idle=1;${arg_ENVIRONMENT};${evener_test_environment}")
endmacro()

# Runs as root (containers) need Open MPI's consent; the sanitizers need their suppressions.
set(evener_test_environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
if(EVENER_SANITIZE)
  set(suppressions ${PROJECT_SOURCE_DIR}/tests/support/leaks.supp)
  list(APPEND evener_test_environment
       ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
       LSAN_OPTIONS=suppressions=${suppressions}:print_suppressions=0
       UBSAN_OPTIONS=print_stacktrace=1)
endif()
