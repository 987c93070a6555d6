/* residues.c: prepares a product by 8-bit integers, and enqueues its kernels in order. */
#include "device/cuda/residues/residues.h"

#include <math.h>

#include "base/alloc.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/element_bytes.h"

enum {
  HOPPER = 9,
  ALIGNMENT = 1024,
  K_MIN = 1024,
  ROWS_MIN = 512, /* fewer rows or columns do not pay for the splitting of the other operand */
  INTEGER_SIDE_MIN = 64,
  USUAL_MODULI = 14, /* of doubles */
};
static const int64_t LONGEST = 1 << 22;
/* Smaller products are faster in FP64, those of integers by loops. */
static const double MULTIPLICATIONS_MIN = 4.3e10, INTEGERS_MIN = 1 << 27;
/* As measured on an H200: of the tensor cores, of what is read and written beside them, of
 * launches. */
static const double OPERATIONS_PER_S = 1.55e15, BYTES_PER_S = 2.2e12, LAUNCHES_S = 6e-5;
/* Signed digits of 64 bits reach a little further than 2^63. */
static const double DIGITS_REACH = 1.004 * 0x1p63;

struct mmci_residues {
  mmci_residue_product product;
  int multiprocessors;
  unsigned char *memory;
  CUtensorMap a, b;
};

static bool is_digits(mmc_dtype dtype) {
  return dtype != MMC_F64 && mmci_cuda_element_bytes(dtype) < 8;
}

static bool is_integer(mmc_dtype dtype) {
  return dtype >= MMC_I8 && dtype <= MMC_U64;
}

const char *mmci_residues_name(mmc_dtype dtype) {
  return dtype == MMC_F64   ? "emulated int8 residues"
         : is_digits(dtype) ? "int8 digits"
                            : "int8 residues";
}

bool mmci_residues_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm) {
  const mmci_rule *rule = &gemm->rule;
  return device->major == HOPPER && device->minor == 0 &&
         (gemm->dtype == MMC_F64 || is_integer(gemm->dtype)) && rule->semiring == MMC_PLUS_TIMES &&
         rule->modulus == 0 && !rule->checked && !gemm->a.gathered && !gemm->b.gathered &&
         gemm->m > 0 && gemm->k > 0 && gemm->n > 0 && gemm->m <= LONGEST && gemm->n <= LONGEST &&
         gemm->k <= (is_digits(gemm->dtype) ? LONGEST : MMCI_RESIDUES_K);
}

bool mmci_residues_pays(const mmci_gemm *gemm) {
  if (gemm->dtype != MMC_F64)
    return gemm->k >= INTEGER_SIDE_MIN && gemm->m >= INTEGER_SIDE_MIN &&
           gemm->n >= INTEGER_SIDE_MIN && mmci_gemm_mkn(gemm) >= INTEGERS_MIN;
  return gemm->k >= K_MIN && gemm->m >= ROWS_MIN && gemm->n >= ROWS_MIN &&
         mmci_gemm_mkn(gemm) >= MULTIPLICATIONS_MIN;
}

double mmci_residues_seconds(const mmci_gemm *gemm) {
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n,
               bytes = (double)mmci_cuda_element_bytes(gemm->dtype), planes = USUAL_MODULI;
  const double batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  return batch *
         (LAUNCHES_S + 2 * m * k * n * planes / OPERATIONS_PER_S +
          ((m * k + k * n) * (2 * bytes + planes) + m * n * (2 * planes + bytes)) / BYTES_PER_S);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t blocks_of(int64_t count, int64_t each) {
  return (count + each - 1) / each;
}

static uint64_t aligned(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Returns how many moduli or digits there is room for. */
static int planes_of(const mmci_gemm *gemm, int asked) {
  if (is_digits(gemm->dtype)) return (int)mmci_cuda_element_bytes(gemm->dtype);
  if (asked > 0) return asked;
  if (gemm->dtype == MMC_F64) return MMCI_MODULI_F64;
  static const int FEWEST = 17;
  const double most = (double)gemm->k * DIGITS_REACH * DIGITS_REACH;
  /* The products of 17 and more of the moduli. */
  static const double PRODUCTS[] = {0x1.eep+132, 0x1.5cp+140, 0x1.e9p+147, 0x1.4ap+155};
  int count = 0;
  while (count < 3 && most > 0.499 * PRODUCTS[count]) count++;
  return FEWEST + count;
}

typedef struct room {
  uint64_t state, moduli, a_rows, b_rows, a_planes, b_planes, residues, all;
} room;

static room room_of(const mmci_gemm *gemm, int planes) {
  const uint64_t lines = (uint64_t)blocks_of(gemm->k, MMCI_LINE) * MMCI_LINE;
  const uint64_t tiles = (uint64_t)blocks_of(gemm->m, 2 * MMCI_PRODUCT_ROWS) * 2 *
                         (uint64_t)blocks_of(gemm->n, MMCI_PRODUCT_COLS);
  room at = {0};
  at.moduli = aligned(sizeof(mmci_residue_state));
  at.a_rows = at.moduli + aligned(sizeof(mmci_moduli));
  at.b_rows = at.a_rows + aligned((uint64_t)gemm->m * sizeof(mmci_residue_row));
  at.a_planes = at.b_rows + aligned((uint64_t)gemm->n * sizeof(mmci_residue_row));
  at.b_planes = at.a_planes + aligned((uint64_t)planes * (uint64_t)gemm->m * lines);
  at.residues = at.b_planes + aligned((uint64_t)planes * (uint64_t)gemm->n * lines);
  at.all = at.residues + (is_digits(gemm->dtype)
                              ? 0
                              : (uint64_t)planes * tiles * MMCI_PRODUCT_ROWS * MMCI_PRODUCT_COLS);
  return at;
}

uint64_t mmci_residues_bytes(const mmci_gemm *gemm) {
  return room_of(gemm, planes_of(gemm, 0)).all;
}

/* ---- preparing ------------------------------------------------------------------------------- */

typedef CUresult (*encode_fn)(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                              void *address, const cuuint64_t *sizes, const cuuint64_t *strides,
                              const cuuint32_t *box, const cuuint32_t *element_strides,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion,
                              CUtensorMapFloatOOBfill take_memory);

/* Finds the driver's function, without linking the driver. */
static mmc_status find_encode(encode_fn *out, mmci_error *error) {
  enum cudaDriverEntryPointQueryResult found;
  void *function = NULL;
  MMCI_CUDA_TRY(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                 cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "the driver has no cuTensorMapEncodeTiled");
  *(void **)out = function;
  return MMC_OK;
}

/* Describes the dimensions: k, row, plane. */
static mmc_status describe(const mmci_residue_operand *x, int planes, CUtensorMap *out,
                           mmci_error *error) {
  const cuuint64_t line_bytes = (cuuint64_t)x->lines * MMCI_LINE;
  const cuuint64_t sizes[] = {line_bytes, (cuuint64_t)x->rows, (cuuint64_t)planes};
  const cuuint64_t strides[] = {line_bytes, line_bytes * (cuuint64_t)x->rows};
  const cuuint32_t box[] = {MMCI_LINE, MMCI_PRODUCT_ROWS, 1}, every[] = {1, 1, 1};
  encode_fn encode = NULL;
  mmc_status status = find_encode(&encode, error);
  if (status != MMC_OK) return status;
  CUresult code = encode(out, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, x->planes, sizes, strides, box,
                         every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code == CUDA_SUCCESS) return MMC_OK;
  return mmci_fail(error, MMC_E_DEVICE, "cuTensorMapEncodeTiled: error %d", (int)code);
}

/* Takes memory and fills the tables; after a failure, what was taken is still there. */
static mmc_status take_memory(mmci_residues *x, mmci_error *error) {
  mmci_residue_product *p = &x->product;
  const mmci_gemm *g = &p->gemm;
  const room at = room_of(g, p->planes);
  MMCI_CUDA_TRY(cudaMalloc((void **)&x->memory, at.all));
  const int64_t lines = blocks_of(g->k, MMCI_LINE);
  p->state = (mmci_residue_state *)x->memory;
  p->a = (mmci_residue_operand){g->m, g->k, lines, (int8_t *)(x->memory + at.a_planes),
                                (mmci_residue_row *)(x->memory + at.a_rows)};
  p->b = (mmci_residue_operand){g->n, g->k, lines, (int8_t *)(x->memory + at.b_planes),
                                (mmci_residue_row *)(x->memory + at.b_rows)};
  p->residues = (int8_t *)(x->memory + at.residues);
  if (!is_digits(g->dtype)) {
    mmci_moduli *moduli = mmci_alloc_zeroed(1, sizeof *moduli);
    if (moduli == NULL) return mmci_fail_nomem(error, sizeof *moduli);
    mmci_moduli_fill(moduli);
    p->moduli = (const mmci_moduli *)(x->memory + at.moduli);
    const cudaError_t code =
        cudaMemcpy(x->memory + at.moduli, moduli, sizeof *moduli, cudaMemcpyHostToDevice);
    free(moduli);
    MMCI_CUDA_TRY(code);
  }
  mmc_status status = describe(&p->a, p->planes, &x->a, error);
  return status == MMC_OK ? describe(&p->b, p->planes, &x->b, error) : status;
}

mmc_status mmci_residues_prepare(const mmci_gemm *gemm, int planes, int multiprocessors,
                                 mmci_residues **out, mmci_error *error) {
  mmci_residues *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->product.gemm = *gemm;
  x->product.planes = planes_of(gemm, planes);
  x->product.fixed = planes;
  x->multiprocessors = multiprocessors;
  mmc_status status = take_memory(x, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_residues_release(x);
  return status;
}

void mmci_residues_release(mmci_residues *residues) {
  if (residues == NULL) return;
  if (residues->memory != NULL && cudaFree(residues->memory) != cudaSuccess)
    (void)cudaGetLastError();
  free(residues);
}

/* ---- working --------------------------------------------------------------------------------- */

/* Looks at both operands, and decides by how many moduli or digits they are multiplied. */
static mmc_status look(cudaStream_t stream, const mmci_residue_product *p, const void *a,
                       const void *b, mmci_error *error) {
  const mmci_gemm *g = &p->gemm;
  MMCI_CUDA_TRY(cudaMemsetAsync(p->state, 0, sizeof *p->state, stream));
  mmc_status status = mmci_residues_range(stream, p, &p->a, a, g->a.ld, g->a.trans, error);
  if (status == MMC_OK)
    status = mmci_residues_range(stream, p, &p->b, b, g->b.ld, !g->b.trans, error);
  return status == MMC_OK ? mmci_residues_choose(stream, p, a, b, error) : status;
}

static mmc_status enqueue_one(cudaStream_t stream, const mmci_residues *x, const void *a,
                              const void *b, void *c, mmci_error *error) {
  const mmci_residue_product *p = &x->product;
  const mmci_gemm *g = &p->gemm;
  mmc_status status = look(stream, p, a, b, error);
  if (status == MMC_OK)
    status = mmci_residues_split(stream, p, &p->a, a, g->a.ld, g->a.trans, error);
  if (status == MMC_OK)
    status = mmci_residues_split(stream, p, &p->b, b, g->b.ld, !g->b.trans, error);
  if (status == MMC_OK)
    status = mmci_residues_multiply(stream, p, &x->a, &x->b, x->multiprocessors, c, error);
  if (status != MMC_OK || is_digits(g->dtype)) return status;
  status = mmci_residues_combine(stream, p, c, error);
  if (status != MMC_OK || g->dtype != MMC_F64) return status;
  return mmci_residues_rest(stream, p, x->multiprocessors, a, b, c, error);
}

mmc_status mmci_residues_enqueue(cudaStream_t stream, const mmci_residues *residues, const void *a,
                                 const void *b, void *c, mmci_error *error) {
  const mmci_gemm *g = &residues->product.gemm;
  const int64_t bytes = (int64_t)mmci_cuda_element_bytes(g->dtype);
  mmc_status status = MMC_OK;
  for (int64_t i = 0; status == MMC_OK && (i == 0 || i < g->batch); i++)
    status = enqueue_one(stream, residues, (const char *)a + i * g->a.stride * bytes,
                         (const char *)b + i * g->b.stride * bytes,
                         (char *)c + i * g->c_stride * bytes, error);
  return status;
}
