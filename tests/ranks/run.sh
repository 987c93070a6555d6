#!/usr/bin/env bash
# run.sh RANKS COMMAND...: runs a command on so many ranks of this host, more than it has cores if need
# be. Exits with 77 where there is no mpirun.
set -euo pipefail
ranks=$1
shift
mpirun=$(command -v mpirun) || { echo "no mpirun"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OPENBLAS_NUM_THREADS=1
# Open MPI 4 speaks over the loopback; Open MPI 5 does so by itself, and fails where its command is told to.
export OMPI_MCA_oob_tcp_if_include=lo
# What is preloaded comes before a sanitizer, and an MPI keeps memory to its end.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:detect_leaks=0"
exec "$mpirun" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 --mca btl self,vader \
  -np "$ranks" "$@"
