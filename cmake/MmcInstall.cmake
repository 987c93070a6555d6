# cmake --install: headers, libraries, the pkg-config file and the CMake package.
#
# The shared library carries what it needs. A program that links the static one must link CBLAS,
# OpenMP and the rest itself: mmchain.pc says so to `pkg-config --static`, and mmchainConfig.cmake
# finds them, defining mmchain::mmchain_static only where they are there.

include(CMakePackageConfigHelpers)

install(FILES "${PROJECT_SOURCE_DIR}/include/mmchain.h" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(
  TARGETS mmchain
  EXPORT mmchainTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(
  TARGETS mmchain_static
  EXPORT mmchainStaticTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(doc_dir "${CMAKE_INSTALL_DOCDIR}")
if(NOT PROJECT_IS_TOP_LEVEL)
  set(doc_dir "${CMAKE_INSTALL_DATAROOTDIR}/doc/mmchain") # the other is that of the project around
endif()
if(NOT IS_ABSOLUTE "${doc_dir}")
  string(PREPEND doc_dir "\${CMAKE_INSTALL_PREFIX}/")
endif()
install(
  CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")
set(DOC_DIR \"${doc_dir}\")
set(WORK \"${PROJECT_BINARY_DIR}/pages\")
include(\"${PROJECT_SOURCE_DIR}/cmake/MmcInstallPages.cmake\")")

# ---- CMake package ---------------------------------------------------------------------------

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/mmchain")
foreach(set IN ITEMS mmchainTargets mmchainStaticTargets)
  install(
    EXPORT ${set}
    NAMESPACE mmchain::
    DESTINATION ${package_dir})
endforeach()
configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/mmchainConfig.cmake.in" "${PROJECT_BINARY_DIR}/mmchainConfig.cmake"
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may break what linked the one before.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/mmchainConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/mmchainConfig.cmake"
              "${PROJECT_BINARY_DIR}/mmchainConfigVersion.cmake" DESTINATION ${package_dir})

# ---- pkg-config ------------------------------------------------------------------------------

# Paths start from where the file lies, so that an installed tree may be moved.
set(pc_dir "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH prefix_from_pc "${pc_dir}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH include_from_pc "${pc_dir}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
string(JOIN " " private_libraries ${MMC_XSMM_LINK} ${MMC_BLAS_LINK} ${MMC_SQLITE_LINK} ${MMC_FORMATS_LINK} ${OpenMP_C_FLAGS} -lpthread -lm -ldl)
configure_file("${PROJECT_SOURCE_DIR}/cmake/mmchain.pc.in" "${PROJECT_BINARY_DIR}/mmchain.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/mmchain.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
