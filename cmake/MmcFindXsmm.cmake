# Finds LIBXSMM, which writes code for small products. Defines
#
#   MMC_XSMM_FOUND     whether; then PkgConfig::MMC_XSMM is the target to link, before the CBLAS,
#                      whose Fortran functions it names; where none is linked, libxsmmnoblas stands in
#   MMC_XSMM_SUMMARY   one line for people
#   MMC_XSMM_LINK      what a linker line needs, for mmchain.pc
#
# Its functions have other names since 2.0. It works for the device blas, and is proven by linking.

set(MMC_XSMM_FOUND FALSE)
set(MMC_XSMM_LINK "")
if(NOT MMC_WITH_XSMM)
  set(MMC_XSMM_SUMMARY "off: small products go to the CBLAS")
elseif(NOT MMC_BLAS_FOUND)
  if(NOT MMC_WITH_XSMM STREQUAL "AUTO")
    message(FATAL_ERROR "MMC_WITH_XSMM is ON, but LIBXSMM works for the device blas, which is not built")
  endif()
  set(MMC_XSMM_SUMMARY "left out, as there is no CBLAS")
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(MMC_XSMM QUIET IMPORTED_TARGET libxsmm>=1.16 libxsmm<2)
    pkg_check_modules(MMC_XSMM_NOBLAS QUIET libxsmmnoblas)
  endif()
  if(MMC_XSMM_FOUND AND NOT MMC_BLAS_LINKED AND MMC_XSMM_NOBLAS_FOUND)
    set_property(TARGET PkgConfig::MMC_XSMM APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                                                            -lxsmmnoblas)
  endif()
  if(MMC_XSMM_FOUND)
    mmc_links(
      MMC_XSMM_LINKS "PkgConfig::MMC_XSMM;mmc_blas" ""
      "return libxsmm_dmmdispatch(4, 4, 4, 0, 0, 0, 0, 0, 0, 0) == 0;" "libxsmm.h")
    if(NOT MMC_XSMM_LINKS)
      set(MMC_XSMM_FOUND FALSE)
    endif()
  endif()
  if(MMC_XSMM_FOUND)
    set(MMC_XSMM_SUMMARY "${MMC_XSMM_libxsmm_VERSION}, for small products")
    string(REPLACE ";" " " MMC_XSMM_LINK "${MMC_XSMM_LDFLAGS}")
    if(NOT MMC_BLAS_LINKED)
      string(APPEND MMC_XSMM_LINK " -lxsmmnoblas")
    endif()
  elseif(MMC_WITH_XSMM STREQUAL "AUTO")
    set(MMC_XSMM_SUMMARY "none found: small products go to the CBLAS (Debian: libxsmm-dev)")
  else()
    message(FATAL_ERROR "MMC_WITH_XSMM is ON but pkg-config finds no libxsmm of a version 1.16 or "
                        "1.17 that links (Debian: libxsmm-dev)")
  endif()
endif()
