# Writes commit.h with the current commit. Leaves the file untouched if it is up to date, so that nothing is rebuilt.
execute_process(COMMAND git describe --always --dirty --abbrev=7 "--exclude=*" WORKING_DIRECTORY ${SOURCE}
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
set(text "#pragma once\n#define DPBENCH_COMMIT \"${commit}\"\n")
if(EXISTS ${HEADER})
  file(READ ${HEADER} before)
endif()
if(NOT "${text}" STREQUAL "${before}")
  file(WRITE ${HEADER} "${text}")
endif()
