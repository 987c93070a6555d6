# Finds the Python that the package is built for: Python_EXECUTABLE, MMC_PYTHON, or the first one with
# NumPy. Sets MMC_PYTHON (with NumPy, for the tests; "" when there is none), MMC_PYTHON_FOUND (its
# headers are there and the package is wanted) and MMC_PYTHON_SUMMARY.

set(MMC_PYTHON "" CACHE FILEPATH "A python3 with NumPy, for the package and the tests")
if(NOT MMC_PYTHON)
  # python3-numpy belongs to Debian's own, which may not come first.
  foreach(candidate IN ITEMS ${Python_EXECUTABLE} python3 /usr/bin/python3)
    execute_process(COMMAND ${candidate} -c "import numpy" RESULT_VARIABLE status OUTPUT_QUIET
                                                                               ERROR_QUIET)
    if(status EQUAL 0)
      set(MMC_PYTHON ${candidate} CACHE FILEPATH "A python3 with NumPy, for the package and the tests"
                                        FORCE)
      break()
    endif()
  endforeach()
endif()

set(MMC_PYTHON_FOUND FALSE)
if(NOT MMC_BUILD_PYTHON)
  set(MMC_PYTHON_SUMMARY "off: the package is left out")
else()
  if(NOT Python_EXECUTABLE AND MMC_PYTHON)
    execute_process(COMMAND ${MMC_PYTHON} -c "import sys; print(sys.executable)"
                    OUTPUT_VARIABLE Python_EXECUTABLE OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(Python_EXECUTABLE)
    find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)
  endif()
  if(Python_Development.Module_FOUND)
    set(MMC_PYTHON_FOUND TRUE)
    set(MMC_PYTHON_SUMMARY "${Python_VERSION}, ${Python_EXECUTABLE}")
  elseif(NOT MMC_BUILD_PYTHON STREQUAL "AUTO")
    message(FATAL_ERROR "MMC_BUILD_PYTHON is ON but there is no python3 >= 3.9 with its headers "
                        "(Debian: python3-dev)")
  else()
    set(MMC_PYTHON_SUMMARY
        "no python3 with NumPy and headers: the package is left out (Debian: python3-numpy, python3-dev)"
    )
  endif()
endif()
