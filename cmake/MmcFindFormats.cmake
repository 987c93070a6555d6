# Finds the libraries of file formats. Each may be missing. Defines
#
#   MMC_ZLIB_FOUND, MMC_JANSSON_FOUND    whether; then PkgConfig::MMC_ZLIB (.npz) and
#                                        PkgConfig::MMC_JANSSON (.safetensors) are to be linked
#   MMC_HDF5_FOUND, MMC_MATIO_FOUND      whether; then PkgConfig::MMC_HDF5 and PkgConfig::MMC_MATIO are
#                                        what modules link, as loading these takes milliseconds
#   MMC_FORMATS_SUMMARY                  one line for people
#   MMC_FORMATS_LINK                     what a linker line needs, for mmchain.pc

set(MMC_FORMATS_LINK "")
set(MMC_FORMATS_SUMMARY "npy matrix-market")
set(formats_missing "")
if(MMC_WITH_FORMATS AND NOT MMC_WITH_FORMATS STREQUAL "AUTO")
  set(MMC_WITH_FORMATS ON) # 1, TRUE and YES say so too
endif()

# mmc_find_format(PREFIX MODULE FORMAT PACKAGE)
macro(mmc_find_format prefix module format package)
  set(MMC_${prefix}_FOUND FALSE)
  if(MMC_WITH_FORMATS)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(MMC_${prefix} QUIET IMPORTED_TARGET ${module})
    endif()
  endif()
  if(MMC_${prefix}_FOUND)
    string(APPEND MMC_FORMATS_SUMMARY " ${format}")
  else()
    string(APPEND formats_missing " ${format} (${package})")
  endif()
endmacro()

mmc_find_format(ZLIB zlib npz zlib1g-dev)
mmc_find_format(JANSSON jansson>=2.7 safetensors libjansson-dev)
mmc_find_format(HDF5 hdf5>=1.10 hdf5 libhdf5-dev)
mmc_find_format(MATIO matio>=1.5.17 matlab libmatio-dev)
if(NOT MMC_ZLIB_FOUND)
  set(MMC_MATIO_FOUND FALSE) # what MATLAB has compressed is inflated without matio
endif()
foreach(prefix IN ITEMS ZLIB JANSSON)
  if(MMC_${prefix}_FOUND)
    list(APPEND MMC_FORMATS_LINK ${MMC_${prefix}_LDFLAGS})
  endif()
endforeach()
string(REPLACE ";" " " MMC_FORMATS_LINK "${MMC_FORMATS_LINK}")
if(formats_missing)
  string(APPEND MMC_FORMATS_SUMMARY "; not${formats_missing}")
  if(MMC_WITH_FORMATS STREQUAL "ON")
    message(FATAL_ERROR "MMC_WITH_FORMATS is ON but pkg-config does not find what these need, by their "
                        "Debian packages:${formats_missing}")
  endif()
endif()
