# SPDX-License-Identifier: Apache-2.0
# evener_add_test(NAME core/error SOURCES error_test.cpp [LIBS Evener::core ...] [NP 1 2 4]
#                 [LABELS unit ...] [TIMEOUT seconds] [ENVIRONMENT A=b ...] [RUN_SERIAL])
#   One GoogleTest executable (bin/test_core_error). Without NP: the ctest `core/error`. With NP: one
#   ctest `core/error.npP` per count, started by mpirun with a main that joins the ranks' results.
#   LABELS: unit (default) and fuzz also run with the sanitizers, as asan/core/error; others (system,
#   bench, ...) only without. NP tests get the label mpi too. RUN_SERIAL: alone on the machine (bench
#   is always). TIMEOUT defaults to 300 s. Exit code 77 = skipped.

set(EVENER_TEST_SIZE "" CACHE STRING "quick, ci or full (empty: from the environment, else ci)")
set(EVENER_TIMEOUT_FACTOR 1 CACHE STRING "Multiplies the timeouts of the tests")

function(evener_add_test)
  cmake_parse_arguments(arg "RUN_SERIAL" "NAME;TIMEOUT" "SOURCES;LIBS;NP;LABELS;ENVIRONMENT"
                        ${ARGN})
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
  set(prefix "")
  if(EVENER_SANITIZE)
    if(NOT arg_LABELS MATCHES "unit|fuzz|kernel")
      return()
    endif()
    set(prefix asan/)
  endif()
  string(REPLACE "/" "_" target "test_${arg_NAME}")
  add_executable(${target} ${arg_SOURCES})
  evener_common_options(${target})
  if(NOT EVENER_SANITIZE)
    target_compile_options(${target} PRIVATE -O1) # a third less time to compile
  endif()
  if(NOT arg_NP)
    target_link_libraries(${target} PRIVATE ${arg_LIBS} evener_test_main)
    add_test(NAME ${prefix}${arg_NAME} COMMAND ${target})
    evener_set_test_properties(${prefix}${arg_NAME} 1)
    return()
  endif()
  target_link_libraries(${target} PRIVATE ${arg_LIBS} evener_test_main_mpi)
  list(APPEND arg_LABELS mpi)
  foreach(ranks IN LISTS arg_NP)
    set(name ${prefix}${arg_NAME}.np${ranks})
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n ${ranks}
                                  $<TARGET_FILE:${target}>)
    evener_set_test_properties(${name} ${ranks})
  endforeach()
endfunction()

# Reads arg_LABELS, arg_TIMEOUT, arg_RUN_SERIAL and arg_ENVIRONMENT of the caller.
macro(evener_set_test_properties name processors)
  # Waiting ranks give up the core; root (in containers) needs Open MPI's consent.
  set(environment OMPI_MCA_mpi_yield_when_idle=1 OMPI_ALLOW_RUN_AS_ROOT=1
                  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ${arg_ENVIRONMENT})
  if(EVENER_TEST_SIZE)
    list(APPEND environment EVENER_TEST_SIZE=${EVENER_TEST_SIZE})
  endif()
  set(suppressions ${PROJECT_SOURCE_DIR}/tests/support/leaks.supp)
  if(EVENER_SANITIZE)
    set(unwind 1) # fast; a leak inside MPI is recognized only by a whole stack
    if(arg_LABELS MATCHES "mpi|system")
      set(unwind 0)
    endif()
    # Without the interception: following the thread-local data of plug-ins, the leak check of g++ 12
    # crashes at exit on a thread of OpenMP.
    string(CONCAT options detect_leaks=1:strict_string_checks=1:intercept_tls_get_addr=0
                          :fast_unwind_on_malloc=${unwind})
    list(APPEND environment
         ASAN_OPTIONS=${options}
         LSAN_OPTIONS=suppressions=${suppressions}:print_suppressions=0
         UBSAN_OPTIONS=print_stacktrace=1)
  endif()
  math(EXPR timeout "${arg_TIMEOUT} * ${EVENER_TIMEOUT_FACTOR}")
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${timeout}
                       PROCESSORS ${processors} SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
  if(arg_RUN_SERIAL OR "bench" IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endmacro()
