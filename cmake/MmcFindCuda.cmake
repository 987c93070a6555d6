# Finds the CUDA toolkit and enables the language. Sets MMC_CUDA_FOUND and MMC_CUDA_SUMMARY.
#
# Nothing but src/device/cuda needs it. Machine code is made for sm_80 and sm_90a; PTX lets later
# chips run as well.

set(MMC_CUDA_FOUND FALSE)
if(NOT MMC_WITH_CUDA)
  set(MMC_CUDA_SUMMARY "off: module cuda is left out")
else()
  # nvcc may be installed without being on the PATH; FindCUDAToolkit knows where to look.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_NVCC_EXECUTABLE)
      set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
    endif()
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90-virtual)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit QUIET)
  endif()
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    set(MMC_CUDA_FOUND TRUE)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(MMC_CUDA_SUMMARY "${CUDAToolkit_VERSION}, ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(NOT MMC_WITH_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "MMC_WITH_CUDA is ON but there is no CUDA toolkit: put nvcc on the PATH, or "
                        "set CMAKE_CUDA_COMPILER")
  else()
    set(MMC_CUDA_SUMMARY "no nvcc found: module cuda is left out")
  endif()
endif()
