# commit.cmake: writes a header with the commit that is built, when it has changed.
# Variables: SOURCE, the tree; OUT, the header; NOTE, a file in which `git archive` puts the commit.
set(commit "unknown")
file(READ "${NOTE}" note)
string(STRIP "${note}" note)
if(NOT note MATCHES "Format")
  set(commit "${note}")
else()
  execute_process(
    COMMAND git -C "${SOURCE}" describe --always --abbrev=10 --exclude=* --dirty
    OUTPUT_VARIABLE found
    RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed EQUAL 0 AND NOT found STREQUAL "")
    set(commit "${found}")
  endif()
endif()
set(text "/* The commit of which this was built. */\n#define MMC_COMMIT \"${commit}\"\n")
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUT}" "${text}")
endif()
