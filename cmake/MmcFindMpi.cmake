# Finds an MPI, for chains on several hosts. ScaLAPACK is not needed to build: it is opened when it is
# asked for. Defines
#
#   MMC_MPI_FOUND     whether; then MPI::MPI_C is the target to link
#   MMC_MPI_SUMMARY   one line for people

set(MMC_MPI_FOUND FALSE)
if(NOT MMC_WITH_MPI)
  set(MMC_MPI_SUMMARY "off: chains run in one process")
else()
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(MMC_MPI_FOUND TRUE)
    set(MMC_MPI_SUMMARY "${MPI_C_VERSION}, for chains on several hosts")
  elseif(MMC_WITH_MPI STREQUAL "AUTO")
    set(MMC_MPI_SUMMARY "none found: chains run in one process (Debian: libopenmpi-dev)")
  else()
    message(FATAL_ERROR "MMC_WITH_MPI is ON but no MPI is found (Debian: libopenmpi-dev)")
  endif()
endif()
