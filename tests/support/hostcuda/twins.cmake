# SPDX-License-Identifier: Apache-2.0
# The seeded bugs: each must be reported, by its own message, and its corrected twin must not.
foreach(variant asan tsan)
  add_executable(hostcuda_twins_${variant} twins/twins_main.cpp ${host_twins})
  evener_hostcuda_options(hostcuda_twins_${variant} ${variant})
  target_link_libraries(hostcuda_twins_${variant} PRIVATE evener_hostcuda_layer_${variant})
endforeach()
add_executable(hostcuda_async twins/async_main.cpp ${host_twins})
evener_hostcuda_options(hostcuda_async asan)
target_link_libraries(hostcuda_async PRIVATE evener_hostcuda_layer_asan)

# add_twin_test(name message [A=b ...] COMMAND ...): passes when the output matches the message.
function(add_twin_test name message)
  cmake_parse_arguments(arg "" "" "COMMAND" ${ARGN})
  add_test(NAME support/hostcuda/${name} COMMAND ${arg_COMMAND})
  # Late operations are what finds the bugs: no step is made because the machine is busy elsewhere.
  set_tests_properties(support/hostcuda/${name} PROPERTIES
    LABELS unit TIMEOUT 120 PASS_REGULAR_EXPRESSION "${message}" SKIP_RETURN_CODE 77
    ENVIRONMENT "EVENER_HOSTCUDA_PROGRESS_MS=600000;TSAN_OPTIONS=halt_on_error=1;\\
UBSAN_OPTIONS=halt_on_error=1;${arg_UNPARSED_ARGUMENTS}")
endfunction()

function(add_twins variant name message)
  set(command $<TARGET_FILE:hostcuda_twins_${variant}> ${name})
  if(variant STREQUAL "tsan")
    list(PREPEND command ${CMAKE_CURRENT_SOURCE_DIR}/without_aslr.sh)
  endif()
  add_twin_test(${name}.wrong "${message}" COMMAND ${command} wrong)
  add_twin_test(${name}.correct "no alarm, fingerprint" COMMAND ${command} correct)
endfunction()

set(overflow "AddressSanitizer: heap-buffer-overflow")
add_twins(asan oob_read "${overflow}.*READ of size 4")
add_twins(asan oob_write "${overflow}.*WRITE of size 4")
add_twins(asan oob_static_shared "index 64 out of bounds for type")
add_twins(asan oob_dynamic_shared "${overflow}.*READ of size 4")
add_twins(asan misaligned "misaligned address")
add_twins(asan divergent_barrier "threads of one block wait at different barriers")
add_twins(asan early_exit "1 thread.s., first 5: exited")
add_twins(asan shuffle_against_barrier "deadlock: divergent barrier")
add_twins(asan lane_outside_mask "the calling lane is not in its own mask")
add_twins(asan mixed_shuffles "mismatched warp collective: __shfl")
add_twins(asan partial_mma "mma executed by a partial warp")
add_twins(asan uninitialized_shared "holds NaN")
add_twins(asan missing_copy_wait "holds NaN")
foreach(race read_after_write write_after_read missing_syncwarp sum_across_blocks sum_in_shared)
  add_twins(tsan ${race} "ThreadSanitizer: data race.*#0 [^#]*${race}<true>")
endforeach()

set(async $<TARGET_FILE:hostcuda_async>)
add_twin_test(async.correct "flagged 0 of 32" COMMAND ${async} correct)
foreach(bug skip_wait skip_sync late_reuse)
  add_twin_test(async.${bug} "flagged 32 of 32" COMMAND ${async} ${bug})
endforeach()
add_twin_test(async.host_deref "AddressSanitizer: use-after-poison" COMMAND ${async} host_deref)
add_twin_test(async.oob_copy "destination: the range runs past the end of its allocation.*flagged 32 of 32"
              COMMAND ${async} oob_copy)
