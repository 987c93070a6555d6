#----------------------------------------------------------------
# Generated CMake target import file for configuration "RelWithDebInfo".
#----------------------------------------------------------------

# Commands may need to know the format version.
set(CMAKE_IMPORT_FILE_VERSION 1)

# Import target "mmchain::mmchain" for configuration "RelWithDebInfo"
set_property(TARGET mmchain::mmchain APPEND PROPERTY IMPORTED_CONFIGURATIONS RELWITHDEBINFO)
set_target_properties(mmchain::mmchain PROPERTIES
  IMPORTED_LOCATION_RELWITHDEBINFO "${_IMPORT_PREFIX}/lib/libmmchain.so.0.1.0"
  IMPORTED_SONAME_RELWITHDEBINFO "libmmchain.so.0.1"
  )

list(APPEND _cmake_import_check_targets mmchain::mmchain )
list(APPEND _cmake_import_check_files_for_mmchain::mmchain "${_IMPORT_PREFIX}/lib/libmmchain.so.0.1.0" )

# Commands beyond this point should not need to know the version.
set(CMAKE_IMPORT_FILE_VERSION)
