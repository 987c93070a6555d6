/* residues.c: prepares a product by 8-bit integers, and enqueues its kernels in order. */
#include "device/cuda/residues/residues.h"

#include <math.h>

#include "base/alloc.h"
#include "base/sizes.h"
#include "device/cuda/cuda_check.h"
#include "device/cuda/element_bytes.h"
#include "device/cuda/tensor_map.h"
#include "device/whole/rows.h"

enum {
  HOPPER = 9,
  ALIGNMENT = 1024,
  K_MIN = 1024,
  ROWS_MIN = 512, /* fewer rows or columns do not pay for the splitting of the other operand */
  INTEGER_SIDE_MIN = 64,
  USUAL_MODULI = 14, /* of doubles, without a tolerance */
  FEWEST_MODULI = 4, /* with one */
  COPIED_BYTES = 16, /* what the copy engine reads begins and goes on at multiples of so many */
};
static const int64_t LONGEST = 1 << 22;
/* Smaller products are faster in FP64, those of integers by loops. */
static const double MULTIPLICATIONS_MIN = 2e10, INTEGERS_MIN = 1 << 27;
/* Sums of fewer elements, and more terms than so many times their square root, cuBLAS may cut into
 * pieces, which makes FP64 up to five times as accurate: of 1024x16000x4000 it does, of
 * 2000x16000x2000 not. */
static const double WHOLE_SUMS = 1 << 23, LONG_SUMS = 2;
/* As measured on an H200: of the tensor cores, of what is read and written beside them, of
 * launches. */
static const double OPERATIONS_PER_S = 1.55e15, BYTES_PER_S = 3.2e12, LAUNCHES_S = 4.5e-5;
/* A unit of a scaled row is at most so much of its length by the reach of the moduli. */
static const double UNIT_LARGEST = 8.0 / 7;
static const double LITTLE = 0x1p-20;
/* Signed digits of 64 bits reach a little further than 2^63. */
static const double DIGITS_REACH = 1.004 * 0x1p63;

/* An operand in residues, and how the copy engine finds them. */
typedef struct made {
  mmci_residue_operand operand;
  CUtensorMap map;
} made;

struct mmci_residues {
  mmci_residue_product product;
  int multiprocessors;
  unsigned char *memory;
  mmci_tensor_map_fn encode;
  CUtensorMap a, b; /* of the planes */
  made own[2];      /* A and B in this product's memory */
};

static bool is_integer(mmc_dtype dtype) {
  return dtype >= MMC_I8 && dtype <= MMC_U64;
}

static bool is_digits(mmc_dtype dtype) {
  return is_integer(dtype) && mmci_cuda_element_bytes(dtype) < 8;
}

/* Says whether there are such sums: modulo a number only of 64 bits, where digits do not serve. */
static bool has_rule(const mmci_gemm *gemm) {
  return gemm->rule.semiring == MMC_PLUS_TIMES && !gemm->rule.checked &&
         (gemm->rule.modulus == 0 || gemm->dtype == MMC_I64 || gemm->dtype == MMC_U64);
}

const char *mmci_residues_name(mmc_dtype dtype) {
  return !is_integer(dtype) ? "emulated int8 residues"
         : is_digits(dtype) ? "int8 digits"
                            : "int8 residues";
}

/* Returns what an element is off by at most, as a tolerance, where rows are scaled to the reach of
 * so many moduli: by half a unit in each element of both, and what the result is scaled by. Rows
 * that are left to FP64 have its errors. */
static double bound_by(const mmci_gemm *gemm, int planes) {
  const double k = (double)gemm->k, unit = UNIT_LARGEST / mmci_moduli_reach(planes);
  const double rounded = sqrt(k) * unit + 0.25 * k * unit * unit + 3 * 0x1p-52;
  return fmax(rounded, mmci_gemm_error_bound(gemm));
}

static bool has_tolerance(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_F64 && gemm->rule.tolerance > 0;
}

/* A little less than asked for, so that what is made of it by rounding is not more. */
double mmci_residues_error_bound(const mmci_gemm *gemm) {
  return gemm->rule.tolerance * (1 - LITTLE);
}

/* Returns the fewest moduli that keep a tolerance whatever the data, 0 when there are not enough.
 */
static int planes_within(const mmci_gemm *gemm) {
  for (int planes = FEWEST_MODULI; planes <= MMCI_MODULI_F64; planes++)
    if (bound_by(gemm, planes) * (1 + LITTLE) <= mmci_residues_error_bound(gemm)) return planes;
  return 0;
}

/* Returns how many moduli a product has whatever its data: those of sums of whole numbers. */
static int whole_planes(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_F32 ? MMCI_WHOLE_PLANES_F32 : MMCI_WHOLE_PLANES_F64;
}

bool mmci_residues_supports(const struct cudaDeviceProp *device, const mmci_gemm *gemm) {
  return device->major == HOPPER && device->minor == 0 &&
         (gemm->dtype == MMC_F64 || is_integer(gemm->dtype) ||
          (gemm->dtype == MMC_F32 && mmci_gemm_is_whole(gemm))) &&
         (!has_tolerance(gemm) || planes_within(gemm) > 0) && has_rule(gemm) && !gemm->a.gathered &&
         !gemm->b.gathered && gemm->m > 0 && gemm->k > 0 && gemm->n > 0 && gemm->m <= LONGEST &&
         gemm->n <= LONGEST && gemm->k <= (is_digits(gemm->dtype) ? LONGEST : MMCI_RESIDUES_K);
}

bool mmci_residues_ranges(const mmci_gemm *gemm) {
  return gemm->dtype == MMC_I16 || gemm->dtype == MMC_I32 || gemm->dtype == MMC_I64;
}

const uint64_t *mmci_residues_most(const mmci_residues *residues) {
  return residues->product.state->most;
}

bool mmci_residues_pays(const mmci_gemm *gemm) {
  if (gemm->dtype != MMC_F64)
    return gemm->k >= INTEGER_SIDE_MIN && gemm->m >= INTEGER_SIDE_MIN &&
           gemm->n >= INTEGER_SIDE_MIN && mmci_gemm_mkn(gemm) >= INTEGERS_MIN;
  const double k = (double)gemm->k, elements = (double)gemm->m * (double)gemm->n;
  const bool is_cut = elements < WHOLE_SUMS && k > LONG_SUMS * sqrt(elements);
  return gemm->k >= K_MIN && gemm->m >= ROWS_MIN && gemm->n >= ROWS_MIN &&
         mmci_gemm_mkn(gemm) >= MULTIPLICATIONS_MIN &&
         (!is_cut || mmci_gemm_is_whole(gemm) || has_tolerance(gemm));
}

double mmci_residues_seconds(const mmci_gemm *gemm) {
  const double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n,
               bytes = (double)mmci_cuda_element_bytes(gemm->dtype),
               planes = mmci_gemm_is_whole(gemm) ? whole_planes(gemm)
                        : has_tolerance(gemm)    ? planes_within(gemm)
                                                 : USUAL_MODULI;
  const double batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  return batch *
         (LAUNCHES_S + 2 * m * k * n * planes / OPERATIONS_PER_S +
          ((m * k + k * n) * (2 * bytes + planes) + m * n * (2 * planes + bytes)) / BYTES_PER_S);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static uint64_t aligned(uint64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Returns how many moduli or digits there is room for. */
static int planes_of(const mmci_gemm *gemm, int asked) {
  if (is_digits(gemm->dtype)) return (int)mmci_cuda_element_bytes(gemm->dtype);
  if (gemm->dtype == MMC_F32) return whole_planes(gemm);
  if (asked > 0) return asked;
  if (mmci_gemm_is_whole(gemm)) return whole_planes(gemm);
  if (has_tolerance(gemm)) return planes_within(gemm);
  if (gemm->dtype == MMC_F64) return MMCI_MODULI_F64;
  static const int FEWEST = 17;
  const double largest = gemm->rule.modulus != 0 ? 0.51 * (double)gemm->rule.modulus : DIGITS_REACH;
  const double most = 1.01 * (double)gemm->k * largest * largest;
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
  const uint64_t lines = (uint64_t)mmci_quotient_up(gemm->k, MMCI_LINE) * MMCI_LINE;
  const uint64_t tiles = (uint64_t)mmci_quotient_up(gemm->m, 2 * MMCI_PRODUCT_ROWS) * 2 *
                         (uint64_t)mmci_quotient_up(gemm->n, MMCI_PRODUCT_COLS);
  room at = {0};
  at.moduli = aligned(sizeof(mmci_residue_state) + 2 * sizeof(mmci_residue_seen));
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

/* Describes the dimensions: k, row, plane. */
static mmc_status describe(mmci_tensor_map_fn encode, const mmci_residue_operand *x, int planes,
                           CUtensorMap *out, mmci_error *error) {
  const cuuint64_t line_bytes = (cuuint64_t)x->lines * MMCI_LINE, rows = (cuuint64_t)x->rows;
  const mmci_tensor tensor = {.data = x->planes,
                              .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                              .dims = 3,
                              .sizes = {line_bytes, rows, (cuuint64_t)planes},
                              .strides = {line_bytes, line_bytes * rows},
                              .box = {MMCI_LINE, MMCI_PRODUCT_ROWS, 1},
                              .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                              .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  return mmci_tensor_map_make(encode, &tensor, out, error);
}

/* Describes bytes that lie along k in the caller's memory as a plane of them. */
static mmc_status describe_given(mmci_tensor_map_fn encode, const mmci_residue_operand *x,
                                 const void *data, int64_t ld, CUtensorMap *out,
                                 mmci_error *error) {
  const mmci_tensor tensor = {.data = data,
                              .type = CU_TENSOR_MAP_DATA_TYPE_UINT8,
                              .dims = 3,
                              .sizes = {(cuuint64_t)x->k, (cuuint64_t)x->rows, 1},
                              .strides = {(cuuint64_t)ld, (cuuint64_t)(ld * x->rows)},
                              .box = {MMCI_LINE, MMCI_PRODUCT_ROWS, 1},
                              .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
                              .promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  return mmci_tensor_map_make(encode, &tensor, out, error);
}

/* Takes memory and fills the tables; after a failure, what was taken is still there. */
static mmc_status take_memory(mmci_residues *x, mmci_error *error) {
  mmci_residue_product *p = &x->product;
  const mmci_gemm *g = &p->gemm;
  const room at = room_of(g, p->planes);
  MMCI_CUDA_TRY(cudaMalloc((void **)&x->memory, at.all));
  const int64_t lines = mmci_quotient_up(g->k, MMCI_LINE);
  p->state = (mmci_residue_state *)x->memory;
  mmci_residue_seen *seen = (mmci_residue_seen *)(p->state + 1);
  p->a = (mmci_residue_operand){g->m,
                                g->k,
                                lines,
                                (int8_t *)(x->memory + at.a_planes),
                                (mmci_residue_row *)(x->memory + at.a_rows),
                                seen};
  p->b = (mmci_residue_operand){g->n,
                                g->k,
                                lines,
                                (int8_t *)(x->memory + at.b_planes),
                                (mmci_residue_row *)(x->memory + at.b_rows),
                                seen + 1};
  p->residues = (int8_t *)(x->memory + at.residues);
  if (!is_digits(g->dtype)) {
    mmci_moduli *moduli = mmci_alloc_zeroed(1, sizeof *moduli);
    if (moduli == NULL) return mmci_fail_nomem(error, sizeof *moduli);
    mmci_moduli_fill(moduli);
    if (g->rule.modulus != 0) mmci_moduli_take_sums(moduli, g->rule.modulus);
    p->moduli = (const mmci_moduli *)(x->memory + at.moduli);
    const cudaError_t code =
        cudaMemcpy(x->memory + at.moduli, moduli, sizeof *moduli, cudaMemcpyHostToDevice);
    free(moduli);
    MMCI_CUDA_TRY(code);
  }
  /* What a look at bytes would find. */
  const mmci_residue_state one_digit = {.digits = {1, 1}};
  MMCI_CUDA_TRY(cudaMemcpy(p->state, &one_digit, sizeof one_digit, cudaMemcpyHostToDevice));
  /* Copies of little memory may return before they are done, and other streams do not wait. */
  MMCI_CUDA_TRY(cudaStreamSynchronize(NULL));
  mmc_status status = mmci_tensor_map_find(&x->encode, error);
  if (status == MMC_OK) status = describe(x->encode, &p->a, p->planes, &x->a, error);
  if (status == MMC_OK) status = describe(x->encode, &p->b, p->planes, &x->b, error);
  x->own[0] = (made){p->a, x->a};
  x->own[1] = (made){p->b, x->b};
  return status;
}

mmc_status mmci_residues_prepare(const mmci_gemm *gemm, int planes, int multiprocessors,
                                 mmci_residues **out, mmci_error *error) {
  mmci_residues *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_fail_nomem(error, sizeof *x);
  x->product.gemm = *gemm;
  x->product.planes = planes_of(gemm, planes);
  x->product.fixed = mmci_gemm_is_whole(gemm) ? x->product.planes : planes;
  if (mmci_gemm_is_whole(gemm))
    x->product.peak = gemm->dtype == MMC_F32 ? MMCI_WHOLE_PEAK_F32 : MMCI_WHOLE_PEAK_F64;
  x->product.tolerance = has_tolerance(gemm) ? mmci_residues_error_bound(gemm) : 0;
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

static bool is_across(const mmci_gemm *gemm, int which) {
  return which == 0 ? gemm->a.trans : !gemm->b.trans;
}

static int64_t ld_of(const mmci_gemm *gemm, int which) {
  return which == 0 ? gemm->a.ld : gemm->b.ld;
}

static void take_operand(mmci_residues *x, int which, const mmci_residues *from, int of) {
  mmci_residue_product *p = &x->product;
  *(which == 0 ? &p->a : &p->b) = of == 0 ? from->product.a : from->product.b;
  *(which == 0 ? &x->a : &x->b) = of == 0 ? from->a : from->b;
}

bool mmci_residues_share(mmci_residues *x, int which, const mmci_residues *from, int of) {
  mmci_residue_product *p = &x->product;
  p->shared &= ~(1 << which);
  if (which == 1) p->alike = false;
  const made *own = which == 0 ? &x->own[0] : &x->own[1];
  *(which == 0 ? &p->a : &p->b) = own->operand;
  *(which == 0 ? &x->a : &x->b) = own->map;
  if (from == NULL) return false;
  const mmci_gemm *g = &p->gemm, *h = &from->product.gemm;
  const mmci_residue_operand *mine = &own->operand,
                             *theirs = of == 0 ? &from->product.a : &from->product.b;
  if (is_integer(g->dtype) || g->dtype != h->dtype || g->sums != h->sums || g->batch > 1 ||
      h->batch > 1 || p->planes != from->product.planes || p->fixed != from->product.fixed ||
      p->tolerance != from->product.tolerance || mine->rows != theirs->rows ||
      mine->k != theirs->k || is_across(g, which) != is_across(h, of) ||
      ld_of(g, which) != ld_of(h, of))
    return false;
  if (from == x && (which != 1 || of != 0)) return false;
  take_operand(x, which, from, of);
  if (from == x)
    p->alike = true;
  else
    p->shared |= 1 << which;
  return true;
}

/* ---- working --------------------------------------------------------------------------------- */

/* Looks at both operands, and decides by how many moduli or digits they are multiplied. */
static mmc_status look(cudaStream_t stream, const mmci_residue_product *p, const void *a,
                       const void *b, mmci_error *error) {
  const mmci_gemm *g = &p->gemm;
  if (mmci_cuda_element_bytes(g->dtype) == 1) return MMC_OK;
  MMCI_CUDA_TRY(
      cudaMemsetAsync(p->state, 0, sizeof *p->state + 2 * sizeof(mmci_residue_seen), stream));
  mmc_status status = MMC_OK;
  if ((p->shared & 1) == 0)
    status = mmci_residues_range(stream, p, &p->a, a, g->a.ld, g->a.trans, error);
  if (status == MMC_OK && (p->shared & 2) == 0 && !p->alike)
    status = mmci_residues_range(stream, p, &p->b, b, g->b.ld, !g->b.trans, error);
  return status == MMC_OK ? mmci_residues_choose(stream, p, a, b, error) : status;
}

/* Says whether an operand's bytes are what splitting would make of them: they lie along k, where
 * the copy engine can read them. */
static bool is_split(const mmci_gemm *gemm, const void *x, int64_t ld, bool across) {
  return mmci_cuda_element_bytes(gemm->dtype) == 1 && !across && ld % COPIED_BYTES == 0 &&
         (uintptr_t)x % COPIED_BYTES == 0;
}

/* Splits an operand, or describes it as it lies. */
static mmc_status split(cudaStream_t stream, const mmci_residues *x,
                        const mmci_residue_operand *operand, const void *data, int64_t ld,
                        bool across, CUtensorMap *map, mmci_error *error) {
  const mmci_residue_product *p = &x->product;
  *map = operand == &p->a ? x->a : x->b;
  if (operand == &p->b && p->alike) return MMC_OK;
  return is_split(&p->gemm, data, ld, across)
             ? describe_given(x->encode, operand, data, ld, map, error)
             : mmci_residues_split(stream, p, operand, data, ld, across, error);
}

static mmc_status enqueue_one(cudaStream_t stream, const mmci_residues *x, const void *a,
                              const void *b, void *c, mmci_error *error) {
  const mmci_residue_product *p = &x->product;
  const mmci_gemm *g = &p->gemm;
  CUtensorMap a_map, b_map;
  mmc_status status = look(stream, p, a, b, error);
  if (status == MMC_OK) status = split(stream, x, &p->a, a, g->a.ld, g->a.trans, &a_map, error);
  if (status == MMC_OK) status = split(stream, x, &p->b, b, g->b.ld, !g->b.trans, &b_map, error);
  if (status == MMC_OK)
    status = mmci_residues_multiply(stream, p, &a_map, &b_map, x->multiprocessors, c, error);
  if (status != MMC_OK || is_digits(g->dtype)) return status;
  status = mmci_residues_combine(stream, p, c, error);
  if (status != MMC_OK || is_integer(g->dtype)) return status;
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
