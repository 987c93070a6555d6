# Finds a CBLAS. Defines the target mmc_blas (linking it is enough), and
#
#   MMC_BLAS_FOUND         whether the device blas is built
#   MMC_BLAS_LINKED        whether it is linked with a CBLAS; else it loads one when it runs
#   MMC_BLAS_SUMMARY       one line for people
#   MMC_BLAS_PKG           the pkg-config module it came from; "" when given by hand
#   MMC_BLAS_LINK          what a linker line needs, for mmchain.pc
#   MMC_BLAS_IS_OPENBLAS   whether it has OpenBLAS's extensions
#
# Tried in this order, each proven by linking a call: MMC_CBLAS_LIBRARIES, then the pkg-config
# modules openblas, cblas, blas. Where none is found, and with MMC_WITH_BLAS=LOAD, which does not
# look for any, the device loads an OpenBLAS when it is first used.

include(CMakePushCheckState)
include(CheckCSourceCompiles)

set(MMC_BLAS_FOUND TRUE)
set(MMC_BLAS_LINKED FALSE)
set(MMC_BLAS_PKG "")
set(MMC_BLAS_LINK "")

# Whether a program with this body and these headers links with the libraries (or targets). A yes is
# cached; a no is asked again, since by then a package may have been installed.
function(mmc_links answer libraries include_dirs body)
  if(NOT ${answer})
    unset(${answer} CACHE)
  endif()
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_LIBRARIES ${libraries})
  set(CMAKE_REQUIRED_INCLUDES ${include_dirs})
  set(CMAKE_REQUIRED_QUIET TRUE)
  set(includes "")
  foreach(header IN LISTS ARGN)
    string(APPEND includes "#include <${header}>\n")
  endforeach()
  check_c_source_compiles("${includes}int main(void) { ${body} }" ${answer})
  cmake_pop_check_state()
endfunction()

set(mmc_blas_call
    "double a = 1, b = 2, c = 0;
     cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1.0, &a, 1, &b, 1, 0.0, &c, 1);
     return c != 2;")
set(mmc_openblas_call "return openblas_get_config() == 0 || CblasConjNoTrans == CblasNoTrans;")

add_library(mmc_blas INTERFACE IMPORTED)

if(MMC_WITH_BLAS STREQUAL "LOAD")
  set(MMC_BLAS_SUMMARY "an OpenBLAS is loaded when it is needed")
elseif(NOT MMC_WITH_BLAS)
  set(MMC_BLAS_FOUND FALSE)
  set(MMC_BLAS_SUMMARY "off: device blas is left out")
elseif(MMC_CBLAS_LIBRARIES)
  unset(MMC_BLAS_GIVEN_LINKS CACHE)
  mmc_links(MMC_BLAS_GIVEN_LINKS "${MMC_CBLAS_LIBRARIES}" "${MMC_CBLAS_INCLUDE_DIRS}"
            "${mmc_blas_call}" cblas.h)
  if(NOT MMC_BLAS_GIVEN_LINKS)
    message(FATAL_ERROR "MMC_CBLAS_LIBRARIES (${MMC_CBLAS_LIBRARIES}) with MMC_CBLAS_INCLUDE_DIRS "
                        "(${MMC_CBLAS_INCLUDE_DIRS}) does not link a call of cblas_dgemm")
  endif()
  set(MMC_BLAS_LINKED TRUE)
  set(MMC_BLAS_SUMMARY "${MMC_CBLAS_LIBRARIES}, as given")
  target_link_libraries(mmc_blas INTERFACE ${MMC_CBLAS_LIBRARIES})
  target_include_directories(mmc_blas SYSTEM INTERFACE ${MMC_CBLAS_INCLUDE_DIRS})
  string(REPLACE ";" " " MMC_BLAS_LINK "${MMC_CBLAS_LIBRARIES}")
  # No package puts these where the loader looks, so installed files remember the place.
  set(CMAKE_INSTALL_RPATH_USE_LINK_PATH TRUE)
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    foreach(module IN ITEMS openblas cblas blas)
      pkg_check_modules(MMC_BLAS_${module} QUIET IMPORTED_TARGET ${module})
      if(MMC_BLAS_${module}_FOUND)
        mmc_links(MMC_BLAS_${module}_LINKS PkgConfig::MMC_BLAS_${module} ""
                  "${mmc_blas_call}" cblas.h)
        if(MMC_BLAS_${module}_LINKS)
          set(MMC_BLAS_LINKED TRUE)
          set(MMC_BLAS_PKG ${module})
          set(MMC_BLAS_SUMMARY "${module} ${MMC_BLAS_${module}_VERSION}")
          target_link_libraries(mmc_blas INTERFACE PkgConfig::MMC_BLAS_${module})
          string(REPLACE ";" " " MMC_BLAS_LINK "${MMC_BLAS_${module}_LDFLAGS}")
          break()
        endif()
      endif()
    endforeach()
  endif()
  if(NOT MMC_BLAS_LINKED)
    if(NOT MMC_WITH_BLAS STREQUAL "AUTO")
      message(FATAL_ERROR "MMC_WITH_BLAS is ON but pkg-config finds no openblas, cblas or blas that "
                          "links. Install one (Debian: libopenblas-dev), or set "
                          "MMC_CBLAS_LIBRARIES and MMC_CBLAS_INCLUDE_DIRS")
    endif()
    set(MMC_BLAS_SUMMARY
        "none found: an OpenBLAS is loaded where the library runs (Debian: libopenblas-dev links one)")
  endif()
endif()

set(MMC_BLAS_IS_OPENBLAS FALSE)
if(MMC_BLAS_LINKED)
  mmc_links(MMC_BLAS_LINKS_OPENBLAS mmc_blas "" "${mmc_openblas_call}" cblas.h)
  if(MMC_BLAS_LINKS_OPENBLAS)
    set(MMC_BLAS_IS_OPENBLAS TRUE)
  endif()
endif()
