/* structured.c: products whose operands have structure, solves and inverses on a CUDA device.
 *
 * cuBLAS multiplies and solves with triangles, cuSOLVER factorises, and what is bound by memory is
 * that of structured_kernels.cu. What these need of memory belongs to the queue, which takes more
 * when a product asks for more. */
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/dtype.h"
#include "chain/triangle_strip.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/structured/structured_kernels.h"

/* In f32 cuBLAS is the faster with parts of this side, of triangles on the left; in other dtypes,
 * and on the right, it is not (docs/benchmarks.md). */
enum { SOLVED_SIDE = 256 };
enum { ALIGNED = 256 }; /* parts of the queue's room begin at multiples of so many bytes */

struct mmci_structured_kernel {
  mmci_device *device;
  mmci_structured product;
};

/* ---- what there is --------------------------------------------------------------------------- */

/* cuSOLVER has no factors of Hermitian matrices that are indefinite, and those of symmetric ones
 * take ten times as long as LU (docs/structure.md). Banded solves go line by line. */
uint32_t mmci_cuda_structured_lacks(const mmci_device *device, mmc_dtype dtype) {
  (void)device;
  (void)dtype;
  return 1u << MMCI_STRUCTURE_SYSV | 1u << MMCI_STRUCTURE_SYMV | 1u << MMCI_STRUCTURE_BLOCKS |
         1u << MMCI_STRUCTURE_TBSV | 1u << MMCI_STRUCTURE_PBSV | 1u << MMCI_STRUCTURE_GTSV |
         1u << MMCI_STRUCTURE_GBSV;
}

/* Says whether cuSOLVER factorises for it. */
static bool factorises(const mmci_structured *p) {
  if (!p->inverts) return p->kernel == MMCI_STRUCTURE_POSV || p->kernel == MMCI_STRUCTURE_GESV;
  return (p->traits & (MMC_LOWER | MMC_UPPER | MMC_ORTHOGONAL)) == 0;
}

static mmc_status find_cusolver(mmci_device *device, mmci_error *error) {
  pthread_mutex_lock(&device->lock);
  mmc_status status =
      device->cusolver != NULL ? MMC_OK : mmci_cusolver_load(&device->cusolver, error);
  pthread_mutex_unlock(&device->lock);
  return status;
}

mmc_status mmci_cuda_structured_check(mmci_device *device, const mmci_structured *ask,
                                      mmci_error *error) {
  if ((mmci_cuda_structured_lacks(device, ask->dtype) >> ask->kernel & 1) != 0)
    return mmci_fail(error, MMC_E_UNSUPPORTED,
                     "device 'cuda' has no kernel for this product with structure: use device cpu");
  return factorises(ask) ? find_cusolver(device, error) : MMC_OK;
}

mmc_status mmci_cuda_structured_prepare(mmci_device *device, const mmci_structured *product,
                                        mmci_structured_kernel **out, mmci_error *error) {
  MMCI_CUDA_ON(device);
  mmci_structured_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  *kernel = (mmci_structured_kernel){.device = device, .product = *product};
  mmc_status status = factorises(product) ? find_cusolver(device, error) : MMC_OK;
  if (status == MMC_OK)
    *out = kernel;
  else
    mmci_cuda_structured_release(kernel);
  return status;
}

void mmci_cuda_structured_release(mmci_structured_kernel *kernel) {
  free(kernel);
}

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

static const double REAL_F64[3][2] = {{1, 0}, {0, 0}, {-1, 0}};
static const float REAL_F32[3][2] = {{1, 0}, {0, 0}, {-1, 0}};
enum { ONE, ZERO, MINUS_ONE };

static bool is_double(mmc_dtype dtype) {
  return dtype == MMC_F64 || dtype == MMC_C128;
}
static const void *scalar(mmc_dtype dtype, int which) {
  return is_double(dtype) ? (const void *)REAL_F64[which] : REAL_F32[which];
}
static cudaDataType_t type_of(mmc_dtype dtype) {
  return dtype == MMC_F32   ? CUDA_R_32F
         : dtype == MMC_F64 ? CUDA_R_64F
         : dtype == MMC_C64 ? CUDA_C_32F
                            : CUDA_C_64F;
}
static cublasOperation_t op_of(mmc_op op) {
  return op == MMC_OP_N ? CUBLAS_OP_N : op == MMC_OP_T ? CUBLAS_OP_T : CUBLAS_OP_C;
}
static cublasSideMode_t side_of(bool right) {
  return right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
}
static cublasFillMode_t half_of(bool lower) {
  return lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
}
static cublasDiagType_t diagonal_of(bool unit) {
  return unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
}

/* Calls the function of cuBLAS for the dtype. */
#define MMCI_BY_DTYPE(cublas, dtype, f32, f64, c64, c128, ...)           \
  do {                                                                   \
    if ((dtype) == MMC_F32) MMCI_CUBLAS_TRY(cublas, f32, __VA_ARGS__);   \
    if ((dtype) == MMC_F64) MMCI_CUBLAS_TRY(cublas, f64, __VA_ARGS__);   \
    if ((dtype) == MMC_C64) MMCI_CUBLAS_TRY(cublas, c64, __VA_ARGS__);   \
    if ((dtype) == MMC_C128) MMCI_CUBLAS_TRY(cublas, c128, __VA_ARGS__); \
  } while (0)

static mmc_status mirrored_product(mmci_queue *queue, const mmci_structured *p, void *z,
                                   const void *s, mmci_error *error) {
  const bool hermitian = p->hermitian && mmci_dtype_is_complex(p->dtype);
  const cublasOperation_t op = p->op == MMC_OP_N ? CUBLAS_OP_N
                               : hermitian       ? CUBLAS_OP_C
                                                 : CUBLAS_OP_T;
  if (hermitian && p->dtype == MMC_C64)
    MMCI_CUBLAS_TRY(queue->cublas, cublasCherk_v2_64,
                    (queue->handle, CUBLAS_FILL_MODE_LOWER, op, p->rows, p->depth,
                     scalar(p->dtype, ONE), s, p->lds, scalar(p->dtype, ZERO), z, p->ldz));
  else if (hermitian)
    MMCI_CUBLAS_TRY(queue->cublas, cublasZherk_v2_64,
                    (queue->handle, CUBLAS_FILL_MODE_LOWER, op, p->rows, p->depth,
                     scalar(p->dtype, ONE), s, p->lds, scalar(p->dtype, ZERO), z, p->ldz));
  else
    MMCI_BY_DTYPE(queue->cublas, p->dtype, cublasSsyrk_v2_64, cublasDsyrk_v2_64, cublasCsyrk_v2_64,
                  cublasZsyrk_v2_64,
                  (queue->handle, CUBLAS_FILL_MODE_LOWER, op, p->rows, p->depth,
                   scalar(p->dtype, ONE), s, p->lds, scalar(p->dtype, ZERO), z, p->ldz));
  return mmci_cuda_mirror(queue->stream, p->dtype, z, p->rows, p->ldz, false, hermitian, error);
}

/* A symmetric matrix of real elements, or a Hermitian one, of which the lower half is read. */
static mmc_status symmetric_product(mmci_queue *queue, const mmci_structured *p, void *z,
                                    const void *s, const void *b, mmci_error *error) {
  MMCI_BY_DTYPE(queue->cublas, p->dtype, cublasSsymm_v2_64, cublasDsymm_v2_64, cublasChemm_v2_64,
                cublasZhemm_v2_64,
                (queue->handle, side_of(p->right), CUBLAS_FILL_MODE_LOWER, p->rows, p->cols,
                 scalar(p->dtype, ONE), s, p->lds, b, p->ldb, scalar(p->dtype, ZERO), z, p->ldz));
  return MMC_OK;
}

static mmc_status triangular_product(mmci_queue *queue, const mmci_structured *p, void *z,
                                     const void *s, const void *b, mmci_error *error) {
  MMCI_BY_DTYPE(queue->cublas, p->dtype, cublasStrmm_v2_64, cublasDtrmm_v2_64, cublasCtrmm_v2_64,
                cublasZtrmm_v2_64,
                (queue->handle, side_of(p->right), half_of((p->traits & MMC_LOWER) != 0),
                 op_of(p->op), diagonal_of((p->traits & MMC_UNIT) != 0), p->rows, p->cols,
                 scalar(p->dtype, ONE), s, p->lds, b, p->ldb, z, p->ldz));
  return MMC_OK;
}

/* Strips of so many parts of a triangle, and no narrower ones than that: cuBLAS's TRMM is slow with
 * few columns, and six times as slow in place (docs/benchmarks.md). */
enum { STRIPS = 6, NARROWEST = 1024 };

/* Computes Z := op(S) B or B op(S), of which B is triangular too. */
static mmc_status multiply_triangles(mmci_queue *queue, const mmci_structured *p, void *z,
                                     const void *s, const void *b, mmci_error *error) {
  const int64_t size = (int64_t)mmc_dtype_size(p->dtype), part = (p->rows + STRIPS - 1) / STRIPS,
                most = part > NARROWEST ? part : NARROWEST;
  const cudaDataType_t type = type_of(p->dtype);
  const cublasOperation_t op = op_of(p->op);
  mmc_status status = MMC_OK;
  for (int64_t first = 0; first < p->rows && status == MMC_OK; first += most) {
    const mmci_triangle_strip strip = mmci_structured_strip(p, first, most);
    void *z_out = mmci_address(z, strip.z_out * size);
    const void *b_in = mmci_address(b, strip.b_in * size),
               *s_out = mmci_address(s, strip.s_out * size);
    const bool is_there = strip.m > 0 && strip.n > 0;
    if (is_there && strip.carries)
      MMCI_CUBLAS_TRY(
          queue->cublas, cublasGemmEx_64,
          (queue->handle, p->right ? CUBLAS_OP_N : op, p->right ? op : CUBLAS_OP_N, strip.m,
           strip.n, strip.k, scalar(p->dtype, ONE), p->right ? b_in : s_out, type,
           p->right ? p->ldb : p->lds, p->right ? s_out : b_in, type, p->right ? p->lds : p->ldb,
           scalar(p->dtype, ZERO), z_out, type, p->ldz,
           is_double(p->dtype) ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    else if (is_there)
      MMCI_CUDA_TRY(cudaMemset2DAsync(z_out, (size_t)(p->ldz * size), 0, (size_t)(strip.m * size),
                                      (size_t)strip.n, queue->stream));
    status = triangular_product(queue, &strip.trmm, mmci_address(z, strip.z_in * size),
                                mmci_address(s, strip.s_in * size), b_in, error);
  }
  return status;
}

/* ---- pivots ---------------------------------------------------------------------------------- */

/* Is called once the pivot is enqueued to be written; what follows goes on while it is read. */
static mmc_status tell_pivot(mmci_queue *queue, mmci_error *error) {
  const mmci_event *known = queue->pivot_known;
  queue->pivot_known = NULL;
  if (known != NULL) MMCI_CUDA_TRY(cudaEventRecord(known->event, queue->stream));
  return MMC_OK;
}

/* ---- triangles ------------------------------------------------------------------------------- */

/* Z := op(S)^-1 Z or Z op(S)^-1 with a triangle S. */
typedef struct triangle {
  mmc_dtype dtype;
  bool right, lower, unit;
  mmc_op op;
  int64_t rows, cols;
  const void *s;
  int64_t lds;
  void *z;
  int64_t ldz;
} triangle;

static mmc_status solve_block(mmci_queue *queue, const triangle *t, mmci_error *error) {
  MMCI_BY_DTYPE(
      queue->cublas, t->dtype, cublasStrsm_v2_64, cublasDtrsm_v2_64, cublasCtrsm_v2_64,
      cublasZtrsm_v2_64,
      (queue->handle, side_of(t->right), half_of(t->lower), op_of(t->op), diagonal_of(t->unit),
       t->rows, t->cols, scalar(t->dtype, ONE), t->s, t->lds, t->z, t->ldz));
  return MMC_OK;
}

static int64_t side_of_triangle(const triangle *t) {
  return t->right ? t->cols : t->rows;
}

/* Returns one of two parts of a triangle, of this side from element first on, and of what is solved
 * for with it. */
static triangle part_of(const triangle *t, int64_t first, int64_t side) {
  const int64_t size = (int64_t)mmc_dtype_size(t->dtype);
  triangle part = *t;
  part.s = mmci_address(t->s, first * (t->lds + 1) * size);
  part.z = mmci_address(t->z, first * (t->right ? t->ldz : 1) * size);
  if (t->right)
    part.cols = side;
  else
    part.rows = side;
  return part;
}

/* Subtracts from the later part what the one that is solved for makes of the block beside them. */
static mmc_status subtract_solved(mmci_queue *queue, const triangle *t, const triangle *solved,
                                  const triangle *later, int64_t half, mmci_error *error) {
  const cudaDataType_t type = type_of(t->dtype);
  const cublasOperation_t op = op_of(t->op);
  const int64_t size = (int64_t)mmc_dtype_size(t->dtype);
  const void *s = mmci_address(t->s, half * (t->lower ? 1 : t->lds) * size);
  MMCI_CUBLAS_TRY(
      queue->cublas, cublasGemmEx_64,
      (queue->handle, t->right ? CUBLAS_OP_N : op, t->right ? op : CUBLAS_OP_N, later->rows,
       later->cols, side_of_triangle(solved), scalar(t->dtype, MINUS_ONE), t->right ? solved->z : s,
       type, t->right ? t->ldz : t->lds, t->right ? s : solved->z, type, t->right ? t->lds : t->ldz,
       scalar(t->dtype, ONE), later->z, type, t->ldz,
       is_double(t->dtype) ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return MMC_OK;
}

/* Solves by halves down to parts of a side, so that most of the work is a product. */
static mmc_status solve_triangle(mmci_queue *queue, const triangle *t, mmci_error *error) {
  const int64_t side = side_of_triangle(t);
  int64_t half = SOLVED_SIDE;
  if (side <= SOLVED_SIDE || t->right || t->dtype != MMC_F32) return solve_block(queue, t, error);
  while (2 * half < side) half *= 2;
  const triangle first = part_of(t, 0, half), second = part_of(t, half, side - half);
  /* op(S) is lower: the first rows of the result follow from S alone, or its last columns. */
  const bool is_lower = t->lower == (t->op == MMC_OP_N), from_first = is_lower != t->right;
  const triangle *solved = from_first ? &first : &second, *later = from_first ? &second : &first;
  mmc_status status = solve_triangle(queue, solved, error);
  if (status == MMC_OK) status = subtract_solved(queue, t, solved, later, half, error);
  return status == MMC_OK ? solve_triangle(queue, later, error) : status;
}

/* ---- room ------------------------------------------------------------------------------------ */

static size_t aligned_up(size_t bytes) {
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Sees to it that the queue has so much room; what was there before is no longer needed. */
static mmc_status take_room(mmci_queue *queue, size_t bytes, size_t host_bytes, mmci_error *error) {
  if (bytes > queue->room_bytes) {
    MMCI_CUDA_TRY(cudaStreamSynchronize(queue->stream));
    if (queue->room != NULL) MMCI_CUDA_TRY(cudaFree(queue->room));
    queue->room = NULL;
    queue->room_bytes = 0;
    MMCI_CUDA_TRY(cudaMalloc(&queue->room, bytes));
    queue->room_bytes = bytes;
  }
  if (host_bytes <= queue->host_room_bytes) return MMC_OK;
  MMCI_CUDA_TRY(cudaStreamSynchronize(queue->stream)); /* cuSOLVER may still read what is there */
  free(queue->host_room);
  queue->host_room_bytes = 0;
  queue->host_room = mmci_alloc_array(host_bytes, 1);
  if (queue->host_room == NULL) return mmci_fail_nomem(error, host_bytes);
  queue->host_room_bytes = host_bytes;
  return MMC_OK;
}

/* Makes the queue's handle of cuSOLVER work on the queue's stream. */
static mmc_status find_solver(mmci_queue *queue, mmci_error *error) {
  const mmci_cusolver *x = queue->device->cusolver;
  queue->cusolver = x;
  if (queue->solver == NULL) MMCI_CUSOLVER_TRY(x, cusolverDnCreate, (&queue->solver));
  if (queue->solver_params == NULL)
    MMCI_CUSOLVER_TRY(x, cusolverDnCreateParams, (&queue->solver_params));
  MMCI_CUSOLVER_TRY(x, cusolverDnSetStream, (queue->solver, queue->stream));
  return MMC_OK;
}

/* A matrix that is factorised, and what that takes. */
typedef struct factored {
  mmc_dtype dtype;
  bool definite;
  int64_t side, ld;
  void *s; /* NULL: a copy in the room */
  int64_t *exchanges;
  int *told; /* what getrs tells of its arguments, which are right */
  void *memory;
  size_t memory_bytes, host_bytes;
} factored;

static mmc_status ask_bytes(const mmci_queue *queue, factored *f, mmci_error *error) {
  const cudaDataType_t type = type_of(f->dtype);
  if (f->definite)
    MMCI_CUSOLVER_TRY(queue->cusolver, cusolverDnXpotrf_bufferSize,
                      (queue->solver, queue->solver_params, CUBLAS_FILL_MODE_LOWER, f->side, type,
                       f->s, f->ld, type, &f->memory_bytes, &f->host_bytes));
  else
    MMCI_CUSOLVER_TRY(queue->cusolver, cusolverDnXgetrf_bufferSize,
                      (queue->solver, queue->solver_params, f->side, f->side, type, f->s, f->ld,
                       type, &f->memory_bytes, &f->host_bytes));
  return MMC_OK;
}

/* Takes the room of a factorisation, with that of a copy of the matrix where it has none. */
static mmc_status take_factor_room(mmci_queue *queue, factored *f, mmci_error *error) {
  mmc_status status = find_solver(queue, error);
  if (status == MMC_OK) status = ask_bytes(queue, f, error);
  if (status != MMC_OK) return status;
  const size_t n = (size_t)f->side, copy = f->s != NULL ? 0 : n * n * mmc_dtype_size(f->dtype),
               exchanges = f->definite ? 0 : n * sizeof(int64_t);
  status = take_room(queue, ALIGNED + aligned_up(copy) + aligned_up(exchanges) + f->memory_bytes,
                     f->host_bytes, error);
  if (status != MMC_OK) return status;
  char *at = (char *)queue->room + ALIGNED;
  f->told = queue->room;
  if (f->s == NULL) f->s = at;
  f->exchanges = (int64_t *)(void *)(at + aligned_up(copy));
  f->memory = at + aligned_up(copy) + aligned_up(exchanges);
  return MMC_OK;
}

static mmc_status factorise(mmci_queue *queue, const factored *f, int32_t *pivot,
                            mmci_error *error) {
  const cudaDataType_t type = type_of(f->dtype);
  if (f->definite)
    MMCI_CUSOLVER_TRY(
        queue->cusolver, cusolverDnXpotrf,
        (queue->solver, queue->solver_params, CUBLAS_FILL_MODE_LOWER, f->side, type, f->s, f->ld,
         type, f->memory, f->memory_bytes, queue->host_room, f->host_bytes, pivot));
  else
    MMCI_CUSOLVER_TRY(
        queue->cusolver, cusolverDnXgetrf,
        (queue->solver, queue->solver_params, f->side, f->side, type, f->s, f->ld, f->exchanges,
         type, f->memory, f->memory_bytes, queue->host_room, f->host_bytes, pivot));
  return MMC_OK;
}

/* Solves with the factors: Z := S^-1 Z, or Z S^-1 where S is definite. */
static mmc_status solve_factored(mmci_queue *queue, const factored *f, bool right, int64_t rows,
                                 int64_t cols, void *z, int64_t ldz, mmci_error *error) {
  triangle t = {.dtype = f->dtype,
                .right = right,
                .lower = true,
                .op = right ? MMC_OP_H : MMC_OP_N,
                .rows = rows,
                .cols = cols,
                .s = f->s,
                .lds = f->ld,
                .z = z,
                .ldz = ldz};
  const cudaDataType_t type = type_of(f->dtype);
  if (f->definite) {
    mmc_status status = solve_triangle(queue, &t, error);
    t.op = right ? MMC_OP_N : MMC_OP_H;
    return status == MMC_OK ? solve_triangle(queue, &t, error) : status;
  }
  MMCI_CUSOLVER_TRY(queue->cusolver, cusolverDnXgetrs,
                    (queue->solver, queue->solver_params, CUBLAS_OP_N, rows, cols, type, f->s,
                     f->ld, f->exchanges, type, z, ldz, f->told));
  return MMC_OK;
}

/* ---- solves ---------------------------------------------------------------------------------- */

static mmc_status solve(mmci_queue *queue, const mmci_structured *p, void *z, void *s,
                        int32_t *pivot, mmci_error *error) {
  factored f = {.dtype = p->dtype,
                .definite = p->kernel == MMCI_STRUCTURE_POSV,
                .side = p->right ? p->cols : p->rows,
                .ld = p->lds,
                .s = s};
  mmc_status status = take_factor_room(queue, &f, error);
  if (status == MMC_OK) status = factorise(queue, &f, pivot, error);
  if (status == MMC_OK) status = tell_pivot(queue, error);
  return status == MMC_OK ? solve_factored(queue, &f, p->right, p->rows, p->cols, z, p->ldz, error)
                          : status;
}

static triangle triangle_of(const mmci_structured *p, void *z, const void *s) {
  return (triangle){.dtype = p->dtype,
                    .right = p->right,
                    .lower = (p->traits & MMC_LOWER) != 0,
                    .unit = (p->traits & MMC_UNIT) != 0,
                    .op = p->op,
                    .rows = p->rows,
                    .cols = p->cols,
                    .s = s,
                    .lds = p->lds,
                    .z = z,
                    .ldz = p->ldz};
}

/* Tells the first zero on the diagonal of a triangle. */
static mmc_status look_at_diagonal(mmci_queue *queue, const triangle *t, int32_t *pivot,
                                   mmci_error *error) {
  if (t->unit) {
    MMCI_CUDA_TRY(cudaMemsetAsync(pivot, 0, sizeof *pivot, queue->stream));
    return MMC_OK;
  }
  const mmci_diagonal diagonal = {
      .data = t->s, .count = t->right ? t->cols : t->rows, .step = t->lds + 1};
  return mmci_cuda_find_zero(queue->stream, t->dtype, &diagonal, pivot, error);
}

static mmc_status solve_triangular(mmci_queue *queue, const triangle *t, int32_t *pivot,
                                   mmci_error *error) {
  mmc_status status = look_at_diagonal(queue, t, pivot, error);
  if (status == MMC_OK) status = tell_pivot(queue, error);
  return status == MMC_OK ? solve_triangle(queue, t, error) : status;
}

/* ---- inverses -------------------------------------------------------------------------------- */

/* Copies Z to a matrix without gaps, and makes Z the identity. */
static mmc_status set_aside(mmci_queue *queue, const mmci_structured *p, void *z, void *copy,
                            mmci_error *error) {
  const size_t size = mmc_dtype_size(p->dtype), line = (size_t)p->rows * size;
  MMCI_CUDA_TRY(cudaMemcpy2DAsync(copy, line, z, (size_t)p->ldz * size, line, (size_t)p->rows,
                                  cudaMemcpyDeviceToDevice, queue->stream));
  return mmci_cuda_identity(queue->stream, p->dtype, z, p->rows, p->ldz, error);
}

static mmc_status invert_triangular(mmci_queue *queue, const mmci_structured *p, void *z,
                                    int32_t *pivot, mmci_error *error) {
  const size_t n = (size_t)p->rows;
  mmc_status status = take_room(queue, n * n * mmc_dtype_size(p->dtype), 0, error);
  if (status == MMC_OK) status = set_aside(queue, p, z, queue->room, error);
  triangle t = triangle_of(p, z, queue->room);
  t.op = MMC_OP_N;
  t.right = false;
  t.lds = p->rows;
  return status == MMC_OK ? solve_triangular(queue, &t, pivot, error) : status;
}

static mmc_status invert_factored(mmci_queue *queue, const mmci_structured *p, void *z,
                                  int32_t *pivot, mmci_error *error) {
  factored f = {.dtype = p->dtype,
                .definite = (p->traits & MMC_POSITIVE_DEFINITE) != 0,
                .side = p->rows,
                .ld = p->rows};
  mmc_status status = take_factor_room(queue, &f, error);
  if (status == MMC_OK) status = set_aside(queue, p, z, f.s, error);
  if (status == MMC_OK) status = factorise(queue, &f, pivot, error);
  if (status == MMC_OK)
    status = solve_factored(queue, &f, false, p->rows, p->rows, z, p->ldz, error);
  if (status != MMC_OK || !mmci_traits_mirrored(p->traits)) return status;
  const bool conj = mmci_dtype_is_complex(p->dtype) && (p->traits & MMC_HERMITIAN) != 0;
  return mmci_cuda_mirror(queue->stream, p->dtype, z, p->rows, p->ldz, false, conj, error);
}

static mmc_status invert(mmci_queue *queue, const mmci_structured *p, void *z, int32_t *pivot,
                         mmci_error *error) {
  if (mmci_traits_have(p->traits, MMC_DIAGONAL)) {
    const mmci_diagonal diagonal = {.data = z, .count = p->rows, .step = p->ldz + 1};
    mmc_status status = mmci_cuda_find_zero(queue->stream, p->dtype, &diagonal, pivot, error);
    if (status != MMC_OK) return status;
    return mmci_cuda_invert_diagonal(queue->stream, p->dtype, z, p->rows, p->ldz, error);
  }
  if ((p->traits & MMC_ORTHOGONAL) != 0)
    return mmci_cuda_transpose_square(queue->stream, p->dtype, z, p->rows, p->ldz, error);
  if ((p->traits & (MMC_LOWER | MMC_UPPER)) != 0)
    return invert_triangular(queue, p, z, pivot, error);
  return invert_factored(queue, p, z, pivot, error);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static mmci_device_lines lines_of(const mmci_structured *p, void *z) {
  return (mmci_device_lines){z, p->cols, p->rows, p->ldz}; /* its columns are lines */
}

static mmc_status scale(mmci_queue *queue, const mmci_structured *p, void *z, const void *s,
                        const void *b, int32_t *pivot, mmci_error *error) {
  const mmci_device_lines lines = lines_of(p, z);
  const mmci_diagonal diagonal = {.data = s,
                                  .count = p->right ? p->cols : p->rows,
                                  .step = p->lds + 1,
                                  .conj = p->op == MMC_OP_H,
                                  .by_line = p->right};
  mmc_status status =
      p->divides ? mmci_cuda_find_zero(queue->stream, p->dtype, &diagonal, pivot, error) : MMC_OK;
  if (status != MMC_OK) return status;
  return mmci_cuda_scale(queue->stream, p->dtype, &lines, b, p->ldb, &diagonal, p->divides, error);
}

/* Z := op(P) B takes row i of B from where row i of op(P) has its 1: rows are places of lines, and
 * P lies by columns. */
static mmc_status permute(mmci_queue *queue, const mmci_structured *p, void *z, const void *s,
                          const void *b, mmci_error *error) {
  const int64_t side = p->right ? p->cols : p->rows;
  const size_t bytes = (size_t)side * sizeof(int64_t);
  const mmci_device_lines lines = lines_of(p, z);
  mmc_status status = take_room(queue, bytes, 0, error);
  if (status != MMC_OK) return status;
  MMCI_CUDA_TRY(cudaMemsetAsync(queue->room, 0xff, bytes, queue->stream));
  /* B op(P) takes column j of B from where column j of op(P) has its 1. */
  const bool of_places = p->right == (p->op != MMC_OP_N);
  status =
      mmci_cuda_find_ones(queue->stream, p->dtype, s, side, p->lds, of_places, queue->room, error);
  if (status != MMC_OK) return status;
  return mmci_cuda_gather(queue->stream, p->dtype, &lines, b, p->ldb, queue->room, !p->right,
                          error);
}

/* B op(S) is the transposed of op(S)^T B^T, whose lines are columns. */
static mmc_status multiply_band(mmci_queue *queue, const mmci_structured *p, void *z, const void *s,
                                const void *b, mmci_error *error) {
  const bool turned = (p->op != MMC_OP_N) != p->right;
  const mmci_device_lines lines = lines_of(p, z);
  const mmci_device_band m = {.data = s,
                              .n = p->right ? p->cols : p->rows,
                              .row_step = turned ? p->lds : 1,
                              .column_step = turned ? 1 : p->lds,
                              .conj = p->op == MMC_OP_H,
                              .band = p->right ? mmci_band_transpose(p->band) : p->band};
  return mmci_cuda_band(queue->stream, p->dtype, &lines, b, p->ldb, &m, !p->right, error);
}

/* ---- one product ----------------------------------------------------------------------------- */

static mmc_status enqueue(mmci_queue *queue, const mmci_structured *p, void *z, void *s,
                          const void *b, int32_t *pivot, mmci_error *error) {
  const bool is_empty = p->rows == 0 || p->cols == 0;
  if (is_empty && mmci_structured_has_pivot(p))
    MMCI_CUDA_TRY(cudaMemsetAsync(pivot, 0, sizeof *pivot, queue->stream));
  if (is_empty) return MMC_OK;
  if (p->inverts) return invert(queue, p, z, pivot, error);
  const triangle t = triangle_of(p, z, s);
  switch (p->kernel) {
    case MMCI_STRUCTURE_SYRK:
      return mirrored_product(queue, p, z, s, error);
    case MMCI_STRUCTURE_SYMM:
      return symmetric_product(queue, p, z, s, b, error);
    case MMCI_STRUCTURE_TRMM:
      return triangular_product(queue, p, z, s, b, error);
    case MMCI_STRUCTURE_TRTRMM:
      return multiply_triangles(queue, p, z, s, b, error);
    case MMCI_STRUCTURE_TRSM:
      return solve_triangular(queue, &t, pivot, error);
    case MMCI_STRUCTURE_POSV:
    case MMCI_STRUCTURE_GESV:
      return solve(queue, p, z, s, pivot, error);
    case MMCI_STRUCTURE_SCALE:
      return scale(queue, p, z, s, b, pivot, error);
    case MMCI_STRUCTURE_PERMUTE:
      return permute(queue, p, z, s, b, error);
    case MMCI_STRUCTURE_BAND:
      return multiply_band(queue, p, z, s, b, error);
    default:
      return mmci_fail(error, MMC_E_UNSUPPORTED,
                       "device 'cuda' has no kernel for this product with structure");
  }
}

mmc_status mmci_cuda_structured_enqueue(mmci_queue *queue, const mmci_structured_kernel *kernel,
                                        void *z, void *s, const void *b, int32_t *pivot,
                                        mmci_event *known, mmci_error *error) {
  MMCI_CUDA_ON(queue->device);
  mmc_status status = mmci_cuda_bind_handle(queue, error);
  if (status != MMC_OK) return status;
  queue->pivot_known = known;
  status = enqueue(queue, &kernel->product, z, s, b, pivot, error);
  return status == MMC_OK ? tell_pivot(queue, error) : status;
}
