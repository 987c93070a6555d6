/* mpi_team.c: the team "scalapack": words go by MPI, products by the BLAS under ScaLAPACK, and on
 * grids by its p?gemm.
 *
 * ScaLAPACK's matrices are column-major. A row-major matrix is its transpose, so C = A B on a grid
 * of rows x cols ranks is computed as the transposed product B' A' on one of cols x rows. */
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ranks/mpi/scalapack.h"
#include "ranks/team.h"

enum { CONTEXTS = 256, TAG = 21, CHUNK_BYTES = 1 << 30, PIECE_ROWS = 256, MORE_REQUESTS = 1024 };

/* A grid of BLACS. */
typedef struct context {
  mmci_layout grid; /* ours: that of BLACS has cols x rows */
  int number;       /* -1 on ranks that are not in it */
} context;

struct mmci_team {
  MPI_Comm communicator; /* a duplicate of our own */
  bool is_ours;          /* it is one of ours_open */
  int rank, count, local;
  int threads; /* of the BLAS; 0 when not known */
  int system;  /* the handle of BLACS for the communicator */
  int context_count;
  context contexts[CONTEXTS];
  int *map; /* room for the ranks of a grid */
  mmci_scalapack scalapack;
  /* Room for the messages of an exchange, taken at the beginning: a rank that lacked it then would
   * be waited for by the others. */
  MPI_Request *requests;
  int64_t request_room;
};

/* The number of teams that are open since one of them initialized MPI, which the last one
 * finalizes. */
static int ours_open;

static mmc_status check(int code, const char *what, mmci_error *error) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  if (code == MPI_SUCCESS) return MMC_OK;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) text[0] = '\0';
  return mmci_fail(error, MMC_E_DEVICE, "%s: %.200s", what, text);
}

/* ---- the team -------------------------------------------------------------------------------- */

/* Gives back what the team has of MPI, unless its user has finalized that: MPI would abort. */
static void leave(mmci_team *team) {
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized) return;
  for (int c = 0; c < team->context_count; c++)
    if (team->contexts[c].number >= 0) team->scalapack.gridexit(team->contexts[c].number);
  if (team->system >= 0) team->scalapack.free_handle(team->system);
  if (team->communicator != MPI_COMM_NULL) MPI_Comm_free(&team->communicator);
  if (team->is_ours && --ours_open == 0) MPI_Finalize();
}

static void close_team(mmci_team *team) {
  if (team == NULL) return;
  leave(team);
  free(team->requests);
  free(team->map);
  free(team);
}

/* Shares the cores of a host among its ranks, unless the environment says how many threads. */
static void share_cores(mmci_team *team) {
  MPI_Comm host;
  team->local = 1;
  if (MPI_Comm_split_type(team->communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) ==
      MPI_SUCCESS) {
    MPI_Comm_size(host, &team->local);
    MPI_Comm_free(&host);
  }
  cpu_set_t set;
  const char *given = getenv("OPENBLAS_NUM_THREADS");
  if (given == NULL) given = getenv("OMP_NUM_THREADS");
  if (given != NULL) team->threads = atoi(given);
  if (team->scalapack.set_threads == NULL || given != NULL ||
      sched_getaffinity(0, sizeof set, &set) != 0)
    return;
  team->threads = CPU_COUNT(&set) / team->local;
  if (team->threads < 1) team->threads = 1;
  team->scalapack.set_threads(team->threads);
}

static mmc_status join(mmci_team *team, const void *communicator, mmci_error *error) {
  MPI_Comm all = MPI_COMM_WORLD;
  int is_initialized = 0, is_finalized = 0, got;
  MPI_Finalized(&is_finalized);
  MPI_Initialized(&is_initialized);
  if (is_finalized)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "MPI was finalized and cannot be used again");
  if (communicator != NULL) memcpy(&all, communicator, sizeof all);
  if (!is_initialized && communicator != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "communicator",
                              "expected one of an MPI that is initialized");
  if (!is_initialized) {
    mmc_status status =
        check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &got), "MPI_Init", error);
    if (status != MMC_OK) return status;
  }
  team->is_ours = !is_initialized || ours_open > 0;
  ours_open += team->is_ours;
  if (all == MPI_COMM_NULL)
    return mmci_fail_argument(error, MMC_E_ARG, "communicator", "expected one, got MPI_COMM_NULL");
  mmc_status status = check(MPI_Comm_dup(all, &team->communicator), "MPI_Comm_dup", error);
  if (status != MMC_OK) return status;
  MPI_Comm_set_errhandler(team->communicator, MPI_ERRORS_RETURN);
  MPI_Comm_rank(team->communicator, &team->rank);
  MPI_Comm_size(team->communicator, &team->count);
  return MMC_OK;
}

/* Fails on all ranks where the library is not found on one, or memory is short. */
static mmc_status prepare(mmci_team *team, mmci_error *error) {
  int mine = (int)mmci_scalapack_open(&team->scalapack, error), worst;
  /* A message to and from every rank, and more for long ones, which go in pieces. */
  team->request_room = 2 * (int64_t)team->count + MORE_REQUESTS;
  team->requests = mmci_alloc_array((size_t)team->request_room, sizeof *team->requests);
  team->map = mmci_alloc_array((size_t)team->count, sizeof *team->map);
  if (mine == MMC_OK && (team->requests == NULL || team->map == NULL))
    mine = (int)mmci_fail_nomem(error, (uint64_t)team->request_room * sizeof *team->requests);
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, team->communicator);
  if (mine == MMC_OK && worst != MMC_OK)
    mmci_fail(
        error, (mmc_status)worst,
        worst == MMC_E_NOMEM ? "another rank has no memory" : "another rank finds no ScaLAPACK");
  return (mmc_status)worst;
}

static mmc_status open_team(const void *communicator, mmci_team **out, mmci_error *error) {
  mmci_team *team = mmci_alloc_zeroed(1, sizeof *team);
  if (team == NULL) return mmci_fail_nomem(error, sizeof *team);
  team->communicator = MPI_COMM_NULL;
  team->system = -1;
  mmc_status status = join(team, communicator, error);
  if (status == MMC_OK) status = prepare(team, error);
  if (status != MMC_OK) {
    close_team(team);
    return status;
  }
  share_cores(team);
  team->system = team->scalapack.sys2blacs_handle(team->communicator);
  *out = team;
  return MMC_OK;
}

static int32_t rank_of(const mmci_team *team) {
  return team->rank;
}
static int32_t count_of(const mmci_team *team) {
  return team->count;
}

/* Writes the name of the MPI and its version. */
static void name_mpi(char library[MPI_MAX_LIBRARY_VERSION_STRING]) {
  int length;
  MPI_Get_library_version(library, &length);
  library[strcspn(library, ",\n")] = '\0';
}

static mmc_status probe(char *text, size_t size, mmci_error *error) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  mmci_scalapack scalapack;
  mmc_status status = mmci_scalapack_open(&scalapack, error);
  if (status != MMC_OK) return status;
  name_mpi(library);
  snprintf(text, size, "%.200s, %.60s", scalapack.name, library);
  return MMC_OK;
}

static void describe(const mmci_team *team, char *text, size_t size) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  name_mpi(library);
  snprintf(text, size, "%.100s, %.60s, %d ranks, %d on this host", team->scalapack.name, library,
           team->count, team->local);
}

static bool is_named(const mmci_team *team) {
  return team->scalapack.is_named;
}

/* ---- words ----------------------------------------------------------------------------------- */

static mmc_status gather(mmci_team *team, const void *mine, size_t size, void *all,
                         mmci_error *error) {
  return check(
      MPI_Allgather(mine, (int)size, MPI_CHAR, all, (int)size, MPI_CHAR, team->communicator),
      "MPI_Allgather", error);
}

static mmc_status least(mmci_team *team, int32_t mine, int32_t *out, mmci_error *error) {
  int number = (int)mine, found = 0;
  mmc_status status = check(MPI_Allreduce(&number, &found, 1, MPI_INT, MPI_MIN, team->communicator),
                            "MPI_Allreduce", error);
  *out = found;
  return status;
}

static mmc_status share(mmci_team *team, int32_t from, void *bytes, size_t size,
                        mmci_error *error) {
  return check(MPI_Bcast(bytes, (int)size, MPI_CHAR, (int)from, team->communicator), "MPI_Bcast",
               error);
}

static int64_t pieces_of(const mmci_message *messages, int32_t count) {
  int64_t pieces = 0;
  for (int32_t i = 0; i < count; i++)
    pieces += (int64_t)((messages[i].size + CHUNK_BYTES - 1) / CHUNK_BYTES);
  return pieces;
}

/* Starts all messages of one direction, the long ones in pieces, which keep their order. */
static int start(mmci_team *team, const mmci_message *messages, int32_t count, bool sends,
                 MPI_Request *requests, int *started) {
  int code = MPI_SUCCESS;
  for (int32_t i = 0; i < count; i++) {
    char *at = messages[i].bytes;
    for (size_t left = messages[i].size; left > 0 && code == MPI_SUCCESS;) {
      const size_t size = left < CHUNK_BYTES ? left : CHUNK_BYTES;
      MPI_Request *request = &requests[*started];
      code = sends ? MPI_Isend(at, (int)size, MPI_BYTE, messages[i].rank, TAG, team->communicator,
                               request)
                   : MPI_Irecv(at, (int)size, MPI_BYTE, messages[i].rank, TAG, team->communicator,
                               request);
      *started += code == MPI_SUCCESS;
      at += size;
      left -= size;
    }
  }
  return code;
}

static mmc_status exchange(mmci_team *team, const mmci_message *sends, int32_t send_count,
                           const mmci_message *receives, int32_t receive_count, mmci_error *error) {
  const int64_t count = pieces_of(sends, send_count) + pieces_of(receives, receive_count);
  MPI_Request *requests = team->requests;
  int started = 0;
  if (count == 0) return MMC_OK;
  if (count > team->request_room) requests = mmci_alloc_array((size_t)count, sizeof *requests);
  if (requests == NULL) return mmci_fail_nomem(error, (uint64_t)count * sizeof *requests);
  int code = start(team, receives, receive_count, false, requests, &started);
  if (code == MPI_SUCCESS) code = start(team, sends, send_count, true, requests, &started);
  if (code == MPI_SUCCESS) code = MPI_Waitall(started, requests, MPI_STATUSES_IGNORE);
  if (requests != team->requests) free(requests);
  return check(code, "sending and receiving", error);
}

/* ---- products -------------------------------------------------------------------------------- */

static const float ones_f32[2] = {1, 0}, zeros_f32[2] = {0, 0};
static const double ones_f64[2] = {1, 0}, zeros_f64[2] = {0, 0};

static const void *one_of(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64 ? (const void *)ones_f32 : (const void *)ones_f64;
}
static const void *zero_of(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64 ? (const void *)zeros_f32 : (const void *)zeros_f64;
}

static bool fits(int64_t size) {
  return size <= INT_MAX;
}

static mmc_status multiply(mmci_team *team, mmc_dtype dtype, int64_t m, int64_t k, int64_t n,
                           const mmci_local *a, const mmci_local *b, void *c, mmci_error *error) {
  if (!fits(m) || !fits(k) || !fits(n) || !fits(a->ld) || !fits(b->ld))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "a rank's piece has more than 2^31 - 1 rows");
  const int rows = (int)n, inner = (int)k;
  const int lda = a->ld > 0 ? (int)a->ld : 1, ldb = b->ld > 0 ? (int)b->ld : 1;
  const int64_t size = (int64_t)mmc_dtype_size(dtype);
  /* One thread of OpenBLAS multiplies tall thin matrices, which are wide ones to it, up to 1.6
   * times as fast in pieces whose results stay in the cache. */
  const bool in_pieces = team->threads == 1 && n <= 128 && k <= 512 && m > 2 * (int64_t)PIECE_ROWS;
  const int64_t most = in_pieces ? PIECE_ROWS : m;
  for (int64_t first = 0; first < m; first += most) {
    const int cols = (int)(m - first < most ? m - first : most);
    const char *left = (const char *)a->data + first * (a->transposed ? 1 : a->ld) * size;
    team->scalapack.gemm[dtype](b->transposed ? "T" : "N", a->transposed ? "T" : "N", &rows, &cols,
                                &inner, one_of(dtype), b->data, &ldb, left, &lda, zero_of(dtype),
                                (char *)c + first * n * size, &rows);
  }
  return MMC_OK;
}

/* Returns where the context of a grid is, or -1. */
static int find_context(const mmci_team *team, const mmci_layout *grid) {
  for (int c = 0; c < team->context_count; c++)
    if (mmci_layout_same(&team->contexts[c].grid, grid)) return c;
  return -1;
}

static void prepare_grid(mmci_team *team, const mmci_layout *grid) {
  if (find_context(team, grid) >= 0) return;
  /* The block (i, j) of a matrix is the block (j, i) of its transpose. A column of the map is one
   * of BLACS's grid, and a row of ours. */
  for (int32_t r = 0; r < grid->ranks; r++) team->map[r] = grid->first + r;
  int number = team->system;
  team->scalapack.gridmap(&number, team->map, grid->grid_cols, grid->grid_cols, grid->grid_rows);
  const int own = team->rank - grid->first;
  if (own < 0 || own >= grid->ranks) number = -1;
  team->contexts[team->context_count++] = (context){*grid, number};
}

/* Writes the descriptor of a row-major rows x cols matrix on the grid: that of its transpose. */
static void describe_matrix(int context, const mmci_layout *grid, int64_t rows, int64_t cols,
                            int64_t ld, int out[9]) {
  const int values[9] = {1,
                         context,
                         (int)cols,
                         (int)rows,
                         (int)mmci_layout_block(cols, grid->grid_cols),
                         (int)mmci_layout_block(rows, grid->grid_rows),
                         0,
                         0,
                         ld > 0 ? (int)ld : 1};
  memcpy(out, values, sizeof values);
}

/* p?gemm estimates three ways and takes the one that leaves C where it is when neither other is
 * estimated to send 1.3 times less. Only then its words are those of "grid". Estimates are those
 * of pdgemm_.c of ScaLAPACK 2.2; with a margin, so that rounding does not matter. */
static bool takes_grid(const mmci_team *team, mmc_dtype dtype, const mmci_layout *grid, int64_t m,
                       int64_t k, int64_t n) {
  (void)dtype;
  if (find_context(team, grid) < 0 && team->context_count == CONTEXTS) return false;
  if (!fits(m) || !fits(k) || !fits(n)) return false;
  /* It sends less where a matrix is a vector of a few ranks. */
  const int64_t least = grid->grid_rows > grid->grid_cols ? grid->grid_rows : grid->grid_cols;
  if (m < least || k < least || n < least) return false;
  const double ratio = 1.3, margin = 1.2;
  const double c_rows = (double)mmci_layout_block(n, grid->grid_cols);
  const double c_cols = (double)mmci_layout_block(m, grid->grid_rows);
  const double k_rows = (double)mmci_layout_block(k, grid->grid_cols);
  const double k_cols = (double)mmci_layout_block(k, grid->grid_rows);
  const double k_most = k_rows > k_cols ? k_rows : k_cols;
  const double keeps_c = (double)k * (c_rows + c_cols);
  const double keeps_b = (double)n * (k_rows + k_most + ratio * c_cols);
  const double keeps_a = (double)m * (ratio * c_rows + k_cols + k_most);
  return keeps_c <= margin * keeps_a && keeps_c <= margin * keeps_b;
}

static mmc_status multiply_grid(mmci_team *team, mmc_dtype dtype, const mmci_layout *grid,
                                int64_t m, int64_t k, int64_t n, const mmci_local *a,
                                const mmci_local *b, void *c, mmci_error *error) {
  (void)error;
  const int context = team->contexts[find_context(team, grid)].number;
  if (context < 0) return MMC_OK;
  const mmci_piece own = mmci_layout_piece(grid, m, n, team->rank);
  int desc_a[9], desc_b[9], desc_c[9];
  describe_matrix(context, grid, m, k, a->ld, desc_a);
  describe_matrix(context, grid, k, n, b->ld, desc_b);
  describe_matrix(context, grid, m, n, own.cols, desc_c);
  const int rows = (int)n, cols = (int)m, inner = (int)k, first = 1;
  team->scalapack.pgemm[dtype]("N", "N", &rows, &cols, &inner, one_of(dtype), b->data, &first,
                               &first, desc_b, a->data, &first, &first, desc_a, zero_of(dtype), c,
                               &first, &first, desc_c);
  return MMC_OK;
}

static const mmci_team_ops ops = {
    .abi = MMCI_TEAM_ABI,
    .size = sizeof(mmci_team_ops),
    .name = "scalapack",
    .probe = probe,
    .open = open_team,
    .close = close_team,
    .rank = rank_of,
    .count = count_of,
    .describe = describe,
    .is_named = is_named,
    .gather = gather,
    .least = least,
    .share = share,
    .exchange = exchange,
    .multiply = multiply,
    .takes_grid = takes_grid,
    .prepare_grid = prepare_grid,
    .multiply_grid = multiply_grid,
};

__attribute__((visibility("default"))) const mmci_team_ops *mmci_module_entry(void);
const mmci_team_ops *mmci_module_entry(void) {
  return &ops;
}
