/* count_words.c: an MPI profiling layer that counts what this process sends, whoever calls MPI. It
 * is preloaded. Characters and integers are not counted: they are what ranks agree by. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT long long test_bytes_sent(void);

static long long bytes_sent;

EXPORT long long test_bytes_sent(void) {
  return bytes_sent;
}

static bool is_control(MPI_Datatype type) {
  return type == MPI_CHAR || type == MPI_INT || type == MPI_2INT;
}

static void count(int elements, MPI_Datatype type, int times) {
  int size = 0;
  if (is_control(type)) return;
  PMPI_Type_size(type, &size);
  bytes_sent += (long long)elements * size * times;
}

static int others(MPI_Comm comm) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  return size - 1;
}

EXPORT int MPI_Send(const void *bytes, int elements, MPI_Datatype type, int to, int tag,
                    MPI_Comm comm) {
  count(elements, type, 1);
  return PMPI_Send(bytes, elements, type, to, tag, comm);
}

EXPORT int MPI_Ssend(const void *bytes, int elements, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm) {
  count(elements, type, 1);
  return PMPI_Ssend(bytes, elements, type, to, tag, comm);
}

EXPORT int MPI_Rsend(const void *bytes, int elements, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm) {
  count(elements, type, 1);
  return PMPI_Rsend(bytes, elements, type, to, tag, comm);
}

EXPORT int MPI_Isend(const void *bytes, int elements, MPI_Datatype type, int to, int tag,
                     MPI_Comm comm, MPI_Request *request) {
  count(elements, type, 1);
  return PMPI_Isend(bytes, elements, type, to, tag, comm, request);
}

EXPORT int MPI_Sendrecv(const void *bytes, int elements, MPI_Datatype type, int to, int tag,
                        void *arrived, int arriving, MPI_Datatype arriving_type, int from,
                        int arriving_tag, MPI_Comm comm, MPI_Status *status) {
  count(elements, type, 1);
  return PMPI_Sendrecv(bytes, elements, type, to, tag, arrived, arriving, arriving_type, from,
                       arriving_tag, comm, status);
}

/* A broadcast sends to all others, however it does it. */
EXPORT int MPI_Bcast(void *bytes, int elements, MPI_Datatype type, int root, MPI_Comm comm) {
  int rank;
  PMPI_Comm_rank(comm, &rank);
  if (rank == root) count(elements, type, others(comm));
  return PMPI_Bcast(bytes, elements, type, root, comm);
}

EXPORT int MPI_Reduce(const void *bytes, void *sum, int elements, MPI_Datatype type, MPI_Op op,
                      int root, MPI_Comm comm) {
  int rank;
  PMPI_Comm_rank(comm, &rank);
  if (rank != root) count(elements, type, 1);
  return PMPI_Reduce(bytes, sum, elements, type, op, root, comm);
}

EXPORT int MPI_Allreduce(const void *bytes, void *sum, int elements, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm) {
  count(elements, type, 2);
  return PMPI_Allreduce(bytes, sum, elements, type, op, comm);
}
