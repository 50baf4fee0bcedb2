# SPDX-License-Identifier: Apache-2.0
# cmake -DSOURCE=folder -DOUTPUT=file -P write_commit.cmake: writes the file when its text changes.
set(commit "unknown")
find_program(git git)
if(git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty
                  OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(commit "${found}")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "core/build_info.hpp"

namespace evener::core {

char const* commit() { return "@commit@"; }

} // namespace evener::core
]])
