/* in_order.c: finds algorithms of cuBLASLt that add up in order, by what they do to matrices. */
#include "device/cuda/product/in_order.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/random.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/product/lt.h"

enum {
  TRIED_MAX = 6,     /* proposals that are looked at for a product */
  SIDE_MAX = 384,    /* longer sides of matrices that are compared ... */
  SIDE_PERIOD = 128, /* ... lie alike modulo this */
  DEPTH_MAX = 2048,
  DEPTH_PERIOD = 1024,
  BATCH_MAX = 3,
  PERIOD = 16 /* leading dimensions and strides lie alike modulo this */
};
static const double MULTIPLICATIONS_MIN = 1 << 18;

struct mmci_in_order {
  mmci_device *device;
  mmci_gemm gemm;
  bool as_sums;
  mmci_lt_product lt;
};

static const float ONE_F32 = 1, ZERO_F32 = 0;
static const double ONE_F64 = 1, ZERO_F64 = 0;

/* Returns the dtype of what is written for elements: themselves, or sums. */
static mmc_dtype result_of(mmc_dtype dtype, bool as_sums) {
  return as_sums && mmci_cuda_element_bytes(dtype) == 2 ? MMC_F32 : dtype;
}

/* Settles results of that dtype. */
static mmc_status settle(cudaStream_t stream, const mmci_gemm *gemm, bool as_sums, void *c,
                         mmci_error *error) {
  mmci_gemm results = *gemm;
  results.dtype = result_of(gemm->dtype, as_sums);
  return mmci_cuda_settle(stream, &results, c, error);
}

bool mmci_in_order_pays(const mmci_gemm *gemm) {
  const double batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  return !mmci_dtype_is_complex(gemm->dtype) && !gemm->accumulate && !gemm->a.gathered &&
         !gemm->b.gathered && gemm->batch <= INT32_MAX &&
         batch * mmci_gemm_mkn(gemm) >= MULTIPLICATIONS_MIN;
}

/* ---- matrices that algorithms are compared on ------------------------------------------------ */

static int64_t shortened(int64_t size, int64_t most, int64_t period) {
  return size <= most ? size : most - period + size % period;
}

static int64_t lines_of(const mmci_form *form, int64_t rows, int64_t cols) {
  return form->trans ? cols : rows;
}

/* Shortens an operand of a product that was rows x cols and is now as said. */
static mmci_form shortened_form(const mmci_form *form, int64_t rows, int64_t cols, int64_t new_rows,
                                int64_t new_cols) {
  mmci_form to = *form;
  const int64_t line = form->trans ? rows : cols, new_line = form->trans ? new_rows : new_cols;
  const int64_t gap = form->ld > line ? form->ld - line : 0;
  to.ld = new_line + gap % PERIOD;
  if (form->stride == 0) return to;
  const int64_t all = to.ld * lines_of(form, new_rows, new_cols);
  to.stride = (all + PERIOD - 1) / PERIOD * PERIOD + form->stride % PERIOD;
  return to;
}

static mmci_gemm shortened_gemm(const mmci_gemm *gemm) {
  mmci_gemm to = *gemm;
  const mmci_form c = {.ld = gemm->ldc, .stride = gemm->c_stride};
  to.m = shortened(gemm->m, SIDE_MAX, SIDE_PERIOD);
  to.n = shortened(gemm->n, SIDE_MAX, SIDE_PERIOD);
  to.k = shortened(gemm->k, DEPTH_MAX, DEPTH_PERIOD);
  to.batch = gemm->batch < BATCH_MAX ? gemm->batch : BATCH_MAX;
  to.a = shortened_form(&gemm->a, gemm->m, gemm->k, to.m, to.k);
  to.b = shortened_form(&gemm->b, gemm->k, gemm->n, to.k, to.n);
  const mmci_form new_c = shortened_form(&c, gemm->m, gemm->n, to.m, to.n);
  to.ldc = new_c.ld;
  to.c_stride = new_c.stride;
  return to;
}

static size_t operand_elements(const mmci_form *form, int64_t rows, int64_t cols, int64_t batch) {
  const int64_t all = form->ld * lines_of(form, rows, cols);
  return (size_t)(all + (batch > 1 ? (batch - 1) * form->stride : 0));
}

/* Fills an operand with numbers of both signs and of many magnitudes, those of its first line so
 * small that sums of such lines' products have no leading bit. */
static void fill(mmc_dtype dtype, size_t count, size_t tiny, uint64_t *random, void *to) {
  for (size_t t = 0; t < count; t++) {
    const uint64_t bits = mmci_random_bits(random), spread = bits >> 56;
    const bool small = t < tiny;
    if (dtype == MMC_F64) {
      const uint64_t exponent = small ? 480 + spread % 16 : 1013 + spread % 20;
      ((uint64_t *)to)[t] = (bits & 0x800fffffffffffffULL) | exponent << 52;
    } else if (dtype == MMC_F32) {
      const uint32_t exponent = (uint32_t)(small ? 58 + spread % 6 : 117 + spread % 20);
      ((uint32_t *)to)[t] = ((uint32_t)bits & 0x807fffffu) | exponent << 23;
    } else if (dtype == MMC_F16) {
      const uint32_t exponent = (uint32_t)(small ? spread % 3 : 8 + spread % 10);
      ((uint16_t *)to)[t] = (uint16_t)(((uint32_t)bits & 0x83ffu) | exponent << 10);
    } else {
      const uint32_t exponent = (uint32_t)(small ? 58 + spread % 6 : 119 + spread % 16);
      ((uint16_t *)to)[t] = (uint16_t)(((uint32_t)bits & 0x807fu) | exponent << 7);
    }
  }
}

/* Lets the second half of k's take back what the first half has added, so that nothing is left but
 * what rounding made of the sums, which another order makes otherwise. */
static void take_back(const mmci_form *form, int64_t ks, int64_t others, bool along, bool negate,
                      int64_t batch, size_t size, unsigned char *x) {
  const int64_t half = ks / 2, step = along ? 1 : form->ld, next = along ? form->ld : 1;
  for (int64_t i = 0; i < batch && (i == 0 || form->stride != 0); i++)
    for (int64_t other = 0; other < others; other++)
      for (int64_t k = 0; k < half; k++) {
        const int64_t at = i * form->stride + other * next;
        unsigned char *to = x + (size_t)(at + (half + k) * step) * size;
        memcpy(to, x + (size_t)(at + k * step) * size, size);
        if (negate) to[size - 1] ^= 0x80;
      }
}

/* What is compared, on the host and on the device. */
typedef struct comparison {
  mmci_gemm gemm;
  bool as_sums;
  cudaStream_t stream;
  size_t a_bytes, b_bytes, c_bytes; /* rounded up to ALIGNED */
  unsigned char *host;              /* A, B, C and C */
  unsigned char *device;            /* the same */
} comparison;

static size_t aligned(size_t bytes) {
  enum { ALIGNED = 256 };
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

static void close_comparison(comparison *x) {
  free(x->host);
  if (x->device != NULL) mmci_cuda_ignore(cudaFree(x->device));
  if (x->stream != NULL) mmci_cuda_ignore(cudaStreamDestroy(x->stream));
}

static mmc_status open_comparison(const mmci_gemm *gemm, bool as_sums, comparison *x,
                                  mmci_error *error) {
  const size_t size = mmci_cuda_element_bytes(gemm->dtype),
               c_size = mmci_cuda_element_bytes(result_of(gemm->dtype, as_sums));
  x->as_sums = as_sums;
  x->gemm = shortened_gemm(gemm);
  const mmci_gemm *g = &x->gemm;
  const mmci_form c = {.ld = g->ldc, .stride = g->c_stride};
  const size_t a = operand_elements(&g->a, g->m, g->k, g->batch),
               b = operand_elements(&g->b, g->k, g->n, g->batch);
  x->a_bytes = aligned(size * a);
  x->b_bytes = aligned(size * b);
  x->c_bytes = aligned(c_size * operand_elements(&c, g->m, g->n, g->batch));
  const size_t all = x->a_bytes + x->b_bytes + 2 * x->c_bytes;
  x->host = mmci_alloc_zeroed(all, 1);
  if (x->host == NULL) return mmci_fail_nomem(error, all);
  uint64_t random = 20261123;
  fill(g->dtype, a, g->a.trans ? 0 : (size_t)g->k, &random, x->host);
  fill(g->dtype, b, g->b.trans ? (size_t)g->k : 0, &random, x->host + x->a_bytes);
  const int64_t batch = g->batch > 1 ? g->batch : 1;
  take_back(&g->a, g->k, g->m, !g->a.trans, false, batch, size, x->host);
  take_back(&g->b, g->k, g->n, g->b.trans, true, batch, size, x->host + x->a_bytes);
  MMCI_CUDA_TRY(cudaMalloc((void **)&x->device, all));
  MMCI_CUDA_TRY(cudaStreamCreateWithFlags(&x->stream, cudaStreamNonBlocking));
  MMCI_CUDA_TRY(cudaMemcpyAsync(x->device, x->host, all, cudaMemcpyHostToDevice, x->stream));
  return MMC_OK;
}

/* Multiplies with the algorithm; false where it does not take these operands. */
static bool multiply_by(const mmci_cublas *cublas, const mmci_lt_product *lt, mmc_dtype dtype,
                        cudaStream_t stream, const void *a, const void *b, void *c) {
  const bool wide = dtype == MMC_F64;
  const void *one = wide ? (const void *)&ONE_F64 : &ONE_F32,
             *zero = wide ? (const void *)&ZERO_F64 : &ZERO_F32;
  return MMCI_CUBLAS_CALL(cublas->cublasLtMatmul(cublas->lt, lt->product, one, b, lt->b, a, lt->a,
                                                 zero, c, lt->c, c, lt->c, &lt->algorithm, NULL, 0,
                                                 stream)) == CUBLAS_STATUS_SUCCESS;
}

static mmc_status reference(const comparison *x, void *c, mmci_error *error) {
  const void *a = x->device, *b = x->device + x->a_bytes;
  if (result_of(x->gemm.dtype, x->as_sums) != x->gemm.dtype) {
    mmc_status status = mmci_cuda_ordered_half_sums(x->stream, &x->gemm, a, b, c, error);
    return status == MMC_OK ? settle(x->stream, &x->gemm, true, c, error) : status;
  }
  return mmci_cuda_element_bytes(x->gemm.dtype) == 2
             ? mmci_cuda_ordered_half(x->stream, &x->gemm, a, b, c, error)
             : mmci_cuda_ordered_product(x->stream, &x->gemm, a, b, c, error);
}

static bool describe(const mmci_cublas *cublas, const mmci_gemm *gemm, bool as_sums,
                     mmci_lt_product *lt, mmc_status *status, mmci_error *error) {
  mmci_stored a, b, c;
  const mmci_form form = {.ld = gemm->ldc};
  if (!mmci_stored_as(&gemm->a, gemm->m, gemm->k, gemm->dtype, &a) ||
      !mmci_stored_as(&gemm->b, gemm->k, gemm->n, gemm->dtype, &b) ||
      !mmci_stored_as(&form, gemm->m, gemm->n, gemm->dtype, &c))
    return false;
  const mmci_arithmetic *results = mmci_arithmetic_of(result_of(gemm->dtype, as_sums));
  *status = mmci_lt_describe(cublas, mmci_arithmetic_of(gemm->dtype), gemm, &a, &b, &c,
                             results->type, lt, error);
  return true;
}

/* Lets *same say whether the algorithm's bits are those of the kernels here. */
static mmc_status compare(const mmci_cublas *cublas, const mmci_gemm *gemm, bool as_sums,
                          const cublasLtMatmulAlgo_t *algorithm, bool *same, mmci_error *error) {
  comparison x = {0};
  mmci_lt_product lt = {0};
  mmc_status status = open_comparison(gemm, as_sums, &x, error);
  unsigned char *c = x.device != NULL ? x.device + x.a_bytes + x.b_bytes : NULL,
                *host = x.host != NULL ? x.host + x.a_bytes + x.b_bytes : NULL;
  *same = status == MMC_OK && describe(cublas, &x.gemm, as_sums, &lt, &status, error);
  lt.algorithm = *algorithm;
  *same = *same && status == MMC_OK &&
          multiply_by(cublas, &lt, x.gemm.dtype, x.stream, x.device, x.device + x.a_bytes, c);
  if (status == MMC_OK && *same) status = settle(x.stream, &x.gemm, as_sums, c, error);
  if (status == MMC_OK && *same) status = reference(&x, c + x.c_bytes, error);
  if (status == MMC_OK)
    status =
        mmci_cuda_check(cudaMemcpyAsync(host, c, 2 * x.c_bytes, cudaMemcpyDeviceToHost, x.stream),
                        "cudaMemcpyAsync", error);
  if (status == MMC_OK)
    status = mmci_cuda_check(cudaStreamSynchronize(x.stream), "cudaStreamSynchronize", error);
  *same = *same && status == MMC_OK && memcmp(host, host + x.c_bytes, x.c_bytes) == 0;
  mmci_lt_destroy(cublas, &lt);
  close_comparison(&x);
  return status;
}

/* ---- algorithms ------------------------------------------------------------------------------ */

static uint64_t key_of(const mmci_gemm *gemm, bool as_sums, const cublasLtMatmulAlgo_t *algorithm) {
  const mmci_gemm like = shortened_gemm(gemm);
  const int64_t facts[] = {like.dtype,    like.m,        like.k,        like.n,       like.batch,
                           like.a.ld,     like.b.ld,     like.ldc,      like.a.trans, like.b.trans,
                           like.a.stride, like.b.stride, like.c_stride, as_sums};
  return mmci_hash_bytes(mmci_hash_bytes(MMCI_HASH_START, algorithm, sizeof *algorithm), facts,
                         sizeof facts);
}

static bool is_known(mmci_device *device, uint64_t key, bool *same) {
  mmci_in_order_known *known = &device->in_order;
  bool found = false;
  pthread_mutex_lock(&device->lock);
  for (int t = 0; t < known->count && t < MMCI_IN_ORDER_KNOWN && !found; t++)
    if (known->keys[t] == key) {
      *same = known->same[t];
      found = true;
    }
  pthread_mutex_unlock(&device->lock);
  return found;
}

static void remember(mmci_device *device, uint64_t key, bool same) {
  mmci_in_order_known *known = &device->in_order;
  pthread_mutex_lock(&device->lock);
  const int at = known->count % MMCI_IN_ORDER_KNOWN;
  known->keys[at] = key;
  known->same[at] = same;
  known->count =
      known->count < 2 * MMCI_IN_ORDER_KNOWN - 1 ? known->count + 1 : MMCI_IN_ORDER_KNOWN;
  pthread_mutex_unlock(&device->lock);
}

static bool cuts_k(const mmci_cublas *cublas, const cublasLtMatmulAlgo_t *algorithm) {
  int32_t parts = 0;
  size_t written = 0;
  return MMCI_CUBLAS_CALL(cublas->cublasLtMatmulAlgoConfigGetAttribute(
             algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, sizeof parts, &written)) !=
             CUBLAS_STATUS_SUCCESS ||
         parts > 1 || parts < 0;
}

/* Takes the first algorithm that adds up in order. */
static mmc_status choose(mmci_in_order *x, mmci_error *error) {
  const mmci_cublas *cublas = x->device->cublas;
  const mmci_lt_terms terms = {.workspace_bytes = 0, .reductions = CUBLASLT_REDUCTION_SCHEME_NONE};
  cublasLtMatmulHeuristicResult_t results[MMCI_LT_PROPOSALS];
  int count = 0;
  mmc_status status = mmci_lt_propose(cublas, &x->lt, &terms, results, &count, error);
  for (int t = 0; t < count && t < TRIED_MAX && status == MMC_OK; t++) {
    bool same = false;
    if (cuts_k(cublas, &results[t].algo)) continue;
    const uint64_t key = key_of(&x->gemm, x->as_sums, &results[t].algo);
    if (!is_known(x->device, key, &same)) {
      status = compare(cublas, &x->gemm, x->as_sums, &results[t].algo, &same, error);
      if (status == MMC_OK) remember(x->device, key, same);
    }
    if (same) {
      x->lt.algorithm = results[t].algo;
      return MMC_OK;
    }
  }
  return status != MMC_OK ? status
                          : mmci_fail(error, MMC_E_UNSUPPORTED,
                                      "cuBLASLt has no algorithm that adds up in order");
}

mmc_status mmci_in_order_prepare(mmci_device *device, const mmci_gemm *gemm, bool as_sums,
                                 mmci_in_order **out, mmci_error *error) {
  mmci_in_order *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  mmc_status status = MMC_OK;
  x->device = device;
  x->gemm = *gemm;
  x->as_sums = as_sums;
  if (!describe(device->cublas, gemm, as_sums, &x->lt, &status, error))
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "cuBLAS has no name for how operands lie");
  if (status == MMC_OK) status = choose(x, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_in_order_release(x);
  return status;
}

void mmci_in_order_release(mmci_in_order *x) {
  if (x == NULL) return;
  mmci_lt_destroy(x->device->cublas, &x->lt);
  free(x);
}

bool mmci_in_order_takes(const void *a, const void *b, const void *c) {
  return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % MMCI_LT_VECTOR_BYTES == 0;
}

mmc_status mmci_in_order_enqueue(cudaStream_t stream, const mmci_in_order *x, const void *a,
                                 const void *b, void *c, mmci_error *error) {
  if (!multiply_by(x->device->cublas, &x->lt, x->gemm.dtype, stream, a, b, c))
    return mmci_fail(error, MMC_E_DEVICE, "cublasLtMatmul: failed for a product in order");
  return x->as_sums ? MMC_OK : mmci_cuda_settle(stream, &x->gemm, c, error);
}
