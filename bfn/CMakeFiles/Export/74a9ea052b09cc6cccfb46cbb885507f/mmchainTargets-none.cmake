#----------------------------------------------------------------
# Generated CMake target import file for configuration "None".
#----------------------------------------------------------------

# Commands may need to know the format version.
set(CMAKE_IMPORT_FILE_VERSION 1)

# Import target "mmchain::mmchain" for configuration "None"
set_property(TARGET mmchain::mmchain APPEND PROPERTY IMPORTED_CONFIGURATIONS NONE)
set_target_properties(mmchain::mmchain PROPERTIES
  IMPORTED_LOCATION_NONE "${_IMPORT_PREFIX}/lib/libmmchain.so.0.1.0"
  IMPORTED_SONAME_NONE "libmmchain.so.0.1"
  )

list(APPEND _cmake_import_check_targets mmchain::mmchain )
list(APPEND _cmake_import_check_files_for_mmchain::mmchain "${_IMPORT_PREFIX}/lib/libmmchain.so.0.1.0" )

# Commands beyond this point should not need to know the version.
set(CMAKE_IMPORT_FILE_VERSION)
