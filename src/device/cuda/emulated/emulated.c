/* emulated.c: prepares an emulated product, and enqueues its kernels in order. */
#include "device/cuda/emulated/emulated.h"

#include "base/alloc.h"
#include "base/sizes.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/tensor_map.h"

enum {
  AMPERE = 8,
  HOPPER = 9,
  LINES = 2,        /* lines of FP16 parts for a row in a block */
  LINE_BYTES = 128, /* bytes of a line of FP16 parts */
  DIGITS = 3,       /* lines of bytes for a row in a block */
  DIGIT_LINE_BYTES = 64,
  K_MIN = 512,         /* for a smaller k FP32's error is the smaller one */
  ROWS_MIN = 128,      /* fewer rows or columns leave most of a tile empty */
  INT8_K_MIN = 2048,   /* k from which the error of bytes hardly depends on k */
  INT8_K_MAX = 1 << 15 /* 3 k products of two digits fit an int */
};
/* Smaller results are native, but for those of nearly two tiles a multiprocessor: for want of tiles
 * cuBLAS cuts their sums into pieces, which makes them more accurate. */
static const double ELEMENTS_MIN = 1 << 23;
static const int64_t LONGEST = 1 << 22;

/* Maps of both operands for the tensor cores. */
typedef struct maps {
  CUtensorMap a, b;
} maps;

struct mmci_emulated {
  mmci_emulated_product product;
  int multiprocessors;
  unsigned char *memory; /* rows, counts, then parts */
  size_t zeroed_bytes;   /* bytes at the beginning that are zeroed before every product */
  maps halves, bytes;    /* bytes are there where they are tried */
  bool alike;            /* B is A, and so are its parts */
  bool by_warps;         /* parts are multiplied without maps */
  mmci_emulated_operand own_b;
};

const char *mmci_emulated_name(mmci_emulated_kind kind) {
  return kind == MMCI_INT8 ? "emulated 3xint8" : "emulated 2xf16";
}

bool mmci_emulated_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm) {
  return (device->major == HOPPER || device->major == AMPERE) && device->minor == 0 &&
         gemm->dtype == MMC_F32 && !gemm->a.gathered && !gemm->b.gathered && gemm->m > 0 &&
         gemm->k > 0 && gemm->n > 0 && gemm->m <= LONGEST && gemm->k <= LONGEST &&
         gemm->n <= LONGEST;
}

bool mmci_emulated_pays(const mmci_gemm *gemm, int multiprocessors) {
  if (gemm->k < K_MIN || gemm->m < ROWS_MIN || gemm->n < ROWS_MIN) return false;
  if ((double)gemm->m * (double)gemm->n >= ELEMENTS_MIN) return true;
  const int64_t tiles =
      mmci_quotient_up(gemm->m, MMCI_TILE_ROWS) * mmci_quotient_up(gemm->n, MMCI_TILE_COLS);
  return 3 * tiles >= 5 * (int64_t)multiprocessors && tiles <= 2 * (int64_t)multiprocessors;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static mmci_emulated_operand operand_of(int64_t rows, int64_t k) {
  return (mmci_emulated_operand){.rows = rows, .k = k, .blocks = mmci_quotient_up(k, MMCI_DEPTH)};
}

/* Returns the bytes of an operand that are zeroed: rows, a sum, a count for every 32 rows, one for
 * all. */
static uint64_t state_bytes(const mmci_emulated_operand *x) {
  uint64_t bytes = (uint64_t)x->rows * sizeof *x->row + sizeof *x->rough +
                   ((uint64_t)mmci_quotient_up(x->rows, MMCI_LINE_ROWS) + 1) * sizeof *x->arrived;
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static uint64_t parts_bytes(const mmci_emulated_operand *x) {
  return (uint64_t)(mmci_quotient_up(x->rows, MMCI_LINE_ROWS) * MMCI_LINE_ROWS * x->blocks) *
         LINES * LINE_BYTES;
}

static unsigned char *place_state(mmci_emulated_operand *x, unsigned char *at) {
  x->row = (mmci_emulated_row *)at;
  x->rough = (uint64_t *)(x->row + x->rows);
  x->arrived = (int32_t *)(x->rough + 1);
  x->left = x->arrived + mmci_quotient_up(x->rows, MMCI_LINE_ROWS);
  return at + state_bytes(x);
}

uint64_t mmci_emulated_bytes(const mmci_gemm *gemm) {
  mmci_emulated_operand a = operand_of(gemm->m, gemm->k), b = operand_of(gemm->n, gemm->k);
  return state_bytes(&a) + state_bytes(&b) + parts_bytes(&a) + parts_bytes(&b);
}

/* ---- preparing ------------------------------------------------------------------------------- */

mmci_emulated_kind mmci_emulated_choose(const struct cudaDeviceProp *device,
                                        const mmci_gemm *gemm) {
  if (device->major < HOPPER) return MMCI_HALVES_MMA;
  const bool bytes = gemm->k >= INT8_K_MIN && gemm->k <= INT8_K_MAX &&
                     (double)gemm->m * (double)gemm->n >= ELEMENTS_MIN;
  return bytes ? MMCI_INT8 : MMCI_HALVES;
}

/* Describes the dimensions: a line, 32 rows, lines, blocks of 32 rows. */
static mmc_status describe_operand(const mmci_emulated_operand *x, bool bytes, int box_rows,
                                   CUtensorMap *out, mmci_error *error) {
  const uint32_t line_bytes = bytes ? DIGIT_LINE_BYTES : LINE_BYTES;
  const cuuint64_t lines = (cuuint64_t)x->blocks * (bytes ? DIGITS : LINES);
  const cuuint64_t group_bytes = (cuuint64_t)MMCI_LINE_ROWS * line_bytes;
  const cuuint32_t elements = bytes ? line_bytes : line_bytes / 2;
  const mmci_tensor tensor = {
      .data = x->parts,
      .type = bytes ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      .dims = 4,
      .sizes = {elements, MMCI_LINE_ROWS, lines,
                (cuuint64_t)mmci_quotient_up(x->rows, MMCI_LINE_ROWS)},
      .strides = {line_bytes, group_bytes, group_bytes * lines},
      .box = {elements, MMCI_LINE_ROWS, 1, (cuuint32_t)box_rows / MMCI_LINE_ROWS},
      .swizzle = bytes ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
      .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  mmci_tensor_map_fn encode = NULL;
  mmc_status status = mmci_tensor_map_find(&encode, error);
  return status == MMC_OK ? mmci_tensor_map_make(encode, &tensor, out, error) : status;
}

static mmc_status describe_operands(const mmci_emulated *x, mmci_emulated_kind kind, maps *out,
                                    mmci_error *error) {
  const bool bytes = kind == MMCI_INT8;
  mmc_status status = describe_operand(&x->product.a, bytes, MMCI_TILE_ROWS, &out->a, error);
  if (status != MMC_OK) return status;
  return describe_operand(&x->product.b, bytes, MMCI_BOX_COLS, &out->b, error);
}

/* Takes memory; after a failure, what was taken is still there. */
static mmc_status take_memory(mmci_emulated *x, mmci_error *error) {
  mmci_emulated_operand *a = &x->product.a, *b = &x->product.b;
  MMCI_CUDA_TRY(cudaMalloc((void **)&x->memory, mmci_emulated_bytes(&x->product.gemm)));
  unsigned char *at = place_state(b, place_state(a, x->memory));
  x->zeroed_bytes = (size_t)(at - x->memory);
  a->parts = (uint32_t *)at;
  b->parts = (uint32_t *)(at + parts_bytes(a));
  x->own_b = *b;
  if (x->by_warps) return MMC_OK;
  mmc_status status = describe_operands(x, MMCI_HALVES, &x->halves, error);
  if (status != MMC_OK || !x->product.bytes) return status;
  return describe_operands(x, MMCI_INT8, &x->bytes, error);
}

mmc_status mmci_emulated_prepare(const mmci_gemm *gemm, mmci_emulated_kind kind,
                                 int multiprocessors, mmci_emulated **out, mmci_error *error) {
  mmci_emulated *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->product = (mmci_emulated_product){*gemm, operand_of(gemm->m, gemm->k),
                                       operand_of(gemm->n, gemm->k), kind == MMCI_INT8};
  x->multiprocessors = multiprocessors;
  x->by_warps = kind == MMCI_HALVES_MMA;
  mmc_status status = take_memory(x, error);
  if (status == MMC_OK)
    *out = x;
  else
    mmci_emulated_release(x);
  return status;
}

void mmci_emulated_release(mmci_emulated *emulated) {
  if (emulated == NULL) return;
  if (emulated->memory != NULL && cudaFree(emulated->memory) != cudaSuccess)
    (void)cudaGetLastError();
  free(emulated);
}

bool mmci_emulated_share_own(mmci_emulated *x, bool alike) {
  mmci_emulated_product *p = &x->product;
  const mmci_gemm *g = &p->gemm;
  mmci_error ignored;
  const bool may = alike && g->a.stride == g->b.stride && g->m == g->n && g->a.ld == g->b.ld &&
                   g->a.trans != g->b.trans;
  if (may == x->alike) return may;
  p->b = may ? p->a : x->own_b;
  x->alike = may;
  if (x->by_warps) return may;
  mmc_status status = describe_operands(x, MMCI_HALVES, &x->halves, &ignored);
  if (status == MMC_OK && p->bytes) status = describe_operands(x, MMCI_INT8, &x->bytes, &ignored);
  if (status == MMC_OK || !may) return may;
  return mmci_emulated_share_own(x, false);
}

/* ---- working --------------------------------------------------------------------------------- */

/* Splits both operands, then multiplies: kernels do nothing where the device finds that nothing is
 * to be done. */
static mmc_status multiply_parts(cudaStream_t stream, const mmci_emulated *emulated,
                                 mmci_emulated_kind kind, const maps *as, const float *a,
                                 const float *b, float *c, mmci_error *error) {
  const mmci_emulated_product *p = &emulated->product;
  const mmci_gemm *g = &p->gemm;
  const bool bytes = kind == MMCI_INT8;
  mmc_status status = mmci_emulated_split(stream, p, &p->a, bytes, a, g->a.ld, g->a.trans, error);
  if (status == MMC_OK && !emulated->alike)
    status = mmci_emulated_split(stream, p, &p->b, bytes, b, g->b.ld, !g->b.trans, error);
  if (status != MMC_OK) return status;
  if (emulated->by_warps) return mmci_emulated_multiply_ampere(stream, p, c, error);
  return mmci_emulated_multiply(stream, p, kind, &as->a, &as->b, emulated->multiprocessors, c,
                                error);
}

static mmc_status enqueue_one(cudaStream_t stream, const mmci_emulated *x, const float *a,
                              const float *b, float *c, mmci_error *error) {
  mmc_status status = MMC_OK;
  MMCI_CUDA_TRY(cudaMemsetAsync(x->memory, 0, x->zeroed_bytes, stream));
  if (x->product.bytes) status = multiply_parts(stream, x, MMCI_INT8, &x->bytes, a, b, c, error);
  if (status == MMC_OK) status = multiply_parts(stream, x, MMCI_HALVES, &x->halves, a, b, c, error);
  if (status == MMC_OK)
    status = mmci_emulated_rest(stream, &x->product, x->multiprocessors, a, b, c, error);
  return status;
}

mmc_status mmci_emulated_enqueue(cudaStream_t stream, const mmci_emulated *emulated, const float *a,
                                 const float *b, float *c, mmci_error *error) {
  const mmci_gemm *g = &emulated->product.gemm;
  mmc_status status = MMC_OK;
  for (int64_t i = 0; status == MMC_OK && (i == 0 || i < g->batch); i++)
    status = enqueue_one(stream, emulated, a + i * g->a.stride, b + i * g->b.stride,
                         c + i * g->c_stride, error);
  return status;
}
