# Finds SQLite, in which wisdom is kept. Defines
#
#   MMC_SQLITE_FOUND     whether; then PkgConfig::MMC_SQLITE is the target to link
#   MMC_SQLITE_SUMMARY   one line for people
#   MMC_SQLITE_LINK      what a linker line needs, for mmchain.pc
#
# 3.31 is the first whose schemas can be kept from running anything.

set(MMC_SQLITE_FOUND FALSE)
set(MMC_SQLITE_LINK "")
if(NOT MMC_WITH_SQLITE)
  set(MMC_SQLITE_SUMMARY "off: wisdom is not kept")
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(MMC_SQLITE QUIET IMPORTED_TARGET sqlite3>=3.31)
  endif()
  if(MMC_SQLITE_FOUND)
    set(MMC_SQLITE_SUMMARY "${MMC_SQLITE_VERSION}, for wisdom")
    string(REPLACE ";" " " MMC_SQLITE_LINK "${MMC_SQLITE_LDFLAGS}")
  elseif(MMC_WITH_SQLITE STREQUAL "AUTO")
    set(MMC_SQLITE_SUMMARY "none found: wisdom is not kept (Debian: libsqlite3-dev)")
  else()
    message(FATAL_ERROR "MMC_WITH_SQLITE is ON but pkg-config finds no sqlite3 of version 3.31 or "
                        "later (Debian: libsqlite3-dev)")
  endif()
endif()
