/* way.c: see way.h. */
#include "device/cuda/product/way.h"

#include <math.h>

#include "device/cuda/cuda_device.h"
#include "device/cuda/emulated/emulated.h"
#include "device/cuda/model.h"
#include "device/cuda/product/batch.h"
#include "device/cuda/product/complex_by_real.h"
#include "device/cuda/product/large_tile.h"
#include "device/cuda/product/sliced_k.h"
#include "device/cuda/product/thin.h"
#include "device/cuda/product/vectors.h"
#include "device/cuda/residues/residues.h"

enum {
  LARGE_TILES_BELOW = MMCI_FIRST_SLICED_K - MMCI_FIRST_LARGE_TILE,
  LATER_LARGE_TILE = MMCI_FIRST_SLICED_K + 5,
  AMPERE = 8
};

static const mmci_arithmetic TF32 = {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                     "cublas tf32"};
static const mmci_arithmetic TF32_COMPLEX = {CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                             "cublas tf32 complex"};
static const char *const VARIANT_NAMES[] = {
    "cublaslt 1",  "cublaslt 2",  "cublaslt 3",  "cublaslt 4",  "cublaslt 5",  "cublaslt 6",
    "cublaslt 7",  "cublaslt 8",  "cublaslt 9",  "cublaslt 10", "cublaslt 11", "cublaslt 12",
    "cublaslt 13", "cublaslt 14", "cublaslt 15", "cublaslt 16", "cublaslt 17", "cublaslt 18",
    "cublaslt 19", "cublaslt 20", "cublaslt 21", "cublaslt 22", "cublaslt 23", "cublaslt 24"};

static const mmci_arithmetic *find_arithmetic(const mmci_gemm *gemm) {
  if (gemm->precision == MMCI_FAST && gemm->dtype == MMC_F32) return &TF32;
  if (gemm->precision == MMCI_FAST && gemm->dtype == MMC_C64) return &TF32_COMPLEX;
  return mmci_arithmetic_of(gemm->dtype);
}

static bool is_batch(const mmci_gemm *gemm) {
  return gemm->batch > 1;
}

bool mmci_cuda_goes_by_residues(const mmci_device *device, const mmci_gemm *gemm) {
  return gemm->variant == 0 && mmci_residues_supports(&device->properties, gemm) &&
         mmci_residues_pays(gemm);
}

static bool goes_emulated(const mmci_device *device, const mmci_gemm *gemm) {
  return mmci_emulated_supports(&device->properties, gemm) &&
         mmci_emulated_pays(gemm, device->properties.multiProcessorCount);
}

/* Says whether a complex product is a real one that is emulated. */
static bool is_emulated_complex(const mmci_device *device, const mmci_gemm *gemm) {
  if (!mmci_dtype_is_complex(gemm->dtype) || gemm->variant != 0 || gemm->a.gathered ||
      gemm->b.gathered)
    return false;
  const mmci_gemm real = mmci_complex_by_real(gemm);
  return real.dtype == MMC_F32 ? goes_emulated(device, &real)
                               : mmci_cuda_goes_by_residues(device, &real);
}

static bool has_native_sums(const mmci_gemm *gemm) {
  return gemm->precision != MMCI_FAITHFUL &&
         find_arithmetic(gemm) == mmci_arithmetic_of(gemm->dtype);
}

static mmci_way_kind kind_of_batch(const mmci_device *device, const mmci_gemm *gemm) {
  static const mmci_way_kind KINDS[] = {[MMCI_BATCH_CUBLAS] = MMCI_WAY_CUBLAS_BATCH,
                                        [MMCI_BATCH_GROUP] = MMCI_WAY_GROUP,
                                        [MMCI_BATCH_THIN] = MMCI_WAY_THIN,
                                        [MMCI_BATCH_OUTER] = MMCI_WAY_OUTER,
                                        [MMCI_BATCH_VECTORS] = MMCI_WAY_VECTORS};
  return has_native_sums(gemm) ? KINDS[mmci_cuda_way_of_batch(device, gemm).kind]
                               : MMCI_WAY_CUBLAS_BATCH;
}

int mmci_variant_of_large_tile(int shape) {
  return shape < LARGE_TILES_BELOW ? MMCI_FIRST_LARGE_TILE + shape
                                   : LATER_LARGE_TILE + shape - LARGE_TILES_BELOW;
}

int mmci_large_tile_of_variant(int variant) {
  if (variant >= LATER_LARGE_TILE) return variant - LATER_LARGE_TILE + LARGE_TILES_BELOW;
  return variant >= MMCI_FIRST_LARGE_TILE && variant < MMCI_FIRST_SLICED_K
             ? variant - MMCI_FIRST_LARGE_TILE
             : -1;
}

/* Makes of a product by rows a batch of these by one matrix. */
static bool as_rows_alone(const mmci_gemm *gemm, mmci_gemm *out) {
  if (is_batch(gemm) || gemm->m < 2 || gemm->n < 2 || gemm->a.trans) return false;
  *out = *gemm;
  out->m = 1;
  out->batch = gemm->m;
  out->a.stride = gemm->a.ld;
  out->b.stride = 0;
  out->c_stride = gemm->ldc;
  return mmci_vectors_supports(out);
}

/* By so much more than is predicted vectors.cu is taken to take beside cuBLAS: that of f32, and of
 * sums across lines of 16 bits, is off by more. */
static double doubt_of_rows(const mmci_gemm *gemm) {
  const bool is_half = mmci_cuda_element_bytes(gemm->dtype) == 2;
  return gemm->dtype == MMC_F32 || (is_half && !gemm->b.trans) ? 0.3 : 0.2;
}

/* Says whether a native product that thin.cu or cuBLAS would compute is faster by vectors.cu, row
 * by row, and makes it that batch. Of 5950 on an H200 (cuBLAS 13.1), whose kernels for small
 * matrices are uneven, three in seven of cuBLAS's go there, twice as fast in the geomean and one in
 * 40 slower by more than a twentieth, and nearly all of thin.cu's, 1.25 times as fast and one in 33
 * slower. cuBLAS cuts longer sums than these, which its model does not know; none of more
 * multiplications went there. */
static bool goes_by_rows(const mmci_device *device, const mmci_gemm *gemm, mmci_way_kind by,
                         mmci_gemm *out) {
  enum { TERMS_MOST = 1024, MULTIPLICATIONS_MOST = 1 << 28 };
  mmci_gemm rows;
  if (gemm->variant != 0 || gemm->k > TERMS_MOST || mmci_gemm_mkn(gemm) > MULTIPLICATIONS_MOST ||
      !has_native_sums(gemm) || !as_rows_alone(gemm, &rows))
    return false;
  const double us = mmci_vectors_us(&rows);
  const mmci_cuda_model *model = mmci_cuda_model_of(device->properties.name);
  const bool pays = by == MMCI_WAY_THIN
                        ? us < mmci_thin_us(gemm)
                        : us * (1 + doubt_of_rows(gemm)) < mmci_cuda_model_product_us(model, gemm);
  if (pays) *out = rows;
  return pays;
}

static mmci_way_kind kind_of_variant(const mmci_device *device, const mmci_gemm *gemm) {
  if (gemm->precision == MMCI_FAITHFUL && mmci_cuda_goes_by_residues(device, gemm))
    return MMCI_WAY_RESIDUES;
  if (gemm->precision == MMCI_FAITHFUL && is_emulated_complex(device, gemm))
    return MMCI_WAY_FAITHFUL_COMPLEX;
  if (gemm->precision == MMCI_FAITHFUL && gemm->variant == 0 && goes_emulated(device, gemm))
    return MMCI_WAY_EMULATED;
  if (is_batch(gemm)) return kind_of_batch(device, gemm);
  if (gemm->variant != 0)
    return gemm->variant < MMCI_FIRST_LARGE_TILE            ? MMCI_WAY_CUBLASLT
           : mmci_large_tile_of_variant(gemm->variant) >= 0 ? MMCI_WAY_LARGE_TILE
                                                            : MMCI_WAY_SLICED_K;
  if (mmci_thin_pays(gemm)) return MMCI_WAY_THIN;
  return has_native_sums(gemm) && mmci_cuda_goes_to_outer(device, gemm) ? MMCI_WAY_OUTER
                                                                        : MMCI_WAY_CUBLAS;
}

int mmci_ordered_shape(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64 ? 2 : 0;
}

/* Large tiles are faster where there is one for every multiprocessor. They add to C what they
 * have summed up, so products that accumulate are not for them. */
static mmci_way_kind kind_in_order(const mmci_device *device, const mmci_gemm *gemm) {
  enum { TILE = 256 * 128, ROUNDS = 1 };
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  if (mmci_cuda_element_bytes(gemm->dtype) == 2 && device->properties.major >= AMPERE)
    return MMCI_WAY_ORDERED_HALF;
  const mmci_gemm real = is_complex ? mmci_complex_by_real(gemm) : *gemm;
  const double tiles = (double)real.m * (double)real.n / TILE;
  const bool is_large = tiles >= ROUNDS * (double)device->properties.multiProcessorCount &&
                        real.k >= TILE / 256 && !gemm->accumulate && !is_batch(gemm) &&
                        !gemm->a.gathered && !gemm->b.gathered;
  if (!is_large || (is_complex && gemm->turned) ||
      (real.dtype != MMC_F32 && real.dtype != MMC_F64) ||
      !mmci_large_tile_supports(&device->properties, &real, mmci_ordered_shape(real.dtype)))
    return MMCI_WAY_ORDERED;
  return is_complex ? MMCI_WAY_ORDERED_COMPLEX : MMCI_WAY_ORDERED_TILES;
}

static bool is_nothing(const mmci_gemm *gemm) {
  return gemm->m == 0 || gemm->n == 0 || (gemm->k == 0 && gemm->accumulate);
}

static mmci_way_kind kind_of_integers(const mmci_device *device, const mmci_gemm *gemm) {
  if (is_nothing(gemm)) return MMCI_WAY_NOTHING;
  if (gemm->k == 0) return MMCI_WAY_ZEROS;
  if (gemm->rule.checked) return MMCI_WAY_CHECKED;
  return mmci_cuda_goes_by_residues(device, gemm) ? MMCI_WAY_RESIDUES
         : gemm->rule.modulus != 0                ? MMCI_WAY_MODULAR
                                                  : MMCI_WAY_PLAIN;
}

/* Says whether the products of a batch are rows of one, as B is one matrix and the rows of A, and
 * those of C, follow each other, and makes it that one. */
static bool are_rows(const mmci_gemm *gemm, mmci_gemm *out) {
  const mmci_form *a = &gemm->a, *b = &gemm->b;
  if (!is_batch(gemm) || gemm->m < 1 || b->stride != 0 || b->gathered || a->gathered || a->trans ||
      gemm->m > INT32_MAX / gemm->batch)
    return false;
  const bool follow = gemm->m == 1
                          ? a->stride >= gemm->k && gemm->c_stride >= gemm->n
                          : a->stride == gemm->m * a->ld && gemm->c_stride == gemm->m * gemm->ldc;
  if (!follow || a->stride == 0 || gemm->c_stride == 0) return false;
  *out = *gemm;
  out->m = gemm->m * gemm->batch;
  out->a.ld = gemm->m == 1 ? a->stride : a->ld;
  out->ldc = gemm->m == 1 ? gemm->c_stride : gemm->ldc;
  out->batch = 1;
  out->a.stride = out->c_stride = 0;
  return true;
}

/* Returns a product by a column, whose operands lie as a row's may, as the row by the transposed
 * matrix that it is. */
static mmci_gemm as_row(const mmci_gemm *gemm) {
  mmci_gemm row = *gemm;
  row.m = 1;
  row.n = gemm->m;
  row.a = (mmci_form){.ld = gemm->k, .conj = gemm->b.conj, .stride = gemm->b.stride};
  row.b = gemm->a;
  row.b.trans = !gemm->a.trans;
  row.ldc = gemm->m;
  return row;
}

/* Says whether a native batch of numbers is better one product, of rows or of columns that lie as
 * rows do: single products of small matrices take more than is predicted, half of them. */
static bool is_better_as_rows(const mmci_device *device, const mmci_gemm *gemm, mmci_gemm *out,
                              bool *swaps) {
  static const double DOUBT = 0.2;
  const mmci_form *b = &gemm->b;
  if (!is_batch(gemm) || gemm->rule.semiring != MMC_PLUS_TIMES ||
      mmci_dtype_is_integer(gemm->dtype) || gemm->sums != MMCI_SUMS_CHAIN ||
      mmci_gemm_is_in_order(gemm) || !has_native_sums(gemm))
    return false;
  *swaps = gemm->n == 1 && gemm->a.stride == 0 && gemm->ldc == 1 && !b->gathered &&
           (b->trans || b->ld == 1);
  const mmci_gemm asked = *swaps ? as_row(gemm) : *gemm;
  return are_rows(&asked, out) && mmci_cuda_product_seconds(device, out) * (1 + DOUBT) <
                                      mmci_cuda_way_of_batch(device, gemm).seconds;
}

void mmci_cuda_choose_way(const mmci_device *device, const mmci_gemm *gemm, mmci_way *out) {
  mmci_gemm rows;
  bool swaps = false;
  const bool as_rows = is_better_as_rows(device, gemm, &rows, &swaps);
  if (as_rows) gemm = &rows;
  const mmci_form c = {.ld = gemm->ldc};
  *out = (mmci_way){.gemm = *gemm, .swaps = as_rows && swaps};
  if (gemm->rule.semiring != MMC_PLUS_TIMES) {
    out->kind = is_nothing(gemm) ? MMCI_WAY_NOTHING : MMCI_WAY_SEMIRING;
    return;
  }
  if (mmci_dtype_is_integer(gemm->dtype)) {
    out->kind = kind_of_integers(device, gemm);
    return;
  }
  out->arithmetic = find_arithmetic(gemm);
  if (is_nothing(gemm))
    out->kind = MMCI_WAY_NOTHING;
  else if (gemm->k == 0)
    out->kind = MMCI_WAY_ZEROS;
  else if (mmci_gemm_is_whole(gemm))
    out->kind = mmci_dtype_is_complex(gemm->dtype) ? MMCI_WAY_FAITHFUL_COMPLEX : MMCI_WAY_RESIDUES;
  else if (gemm->sums == MMCI_SUMS_PIECES)
    out->kind = MMCI_WAY_IN_PIECES;
  else if (mmci_gemm_is_in_order(gemm))
    out->kind = kind_in_order(device, gemm);
  else if (gemm->a.gathered || gemm->b.gathered ||
           !mmci_stored_as(&gemm->a, gemm->m, gemm->k, gemm->dtype, &out->a) ||
           !mmci_stored_as(&gemm->b, gemm->k, gemm->n, gemm->dtype, &out->b) ||
           !mmci_stored_as(&c, gemm->m, gemm->n, gemm->dtype, &out->c))
    out->kind = MMCI_WAY_PLAIN;
  else
    out->kind = kind_of_variant(device, gemm);
  if ((out->kind == MMCI_WAY_THIN || out->kind == MMCI_WAY_CUBLAS) &&
      goes_by_rows(device, gemm, out->kind, &out->gemm))
    out->kind = MMCI_WAY_VECTORS;
}

/* Says whether there are kernels for the arithmetic. Logarithms depend on the order in which they
 * are summed up; the others have the same bits in any. */
static bool has_arithmetic(const mmci_gemm *gemm) {
  const mmc_dtype dtype = gemm->dtype;
  if (gemm->rule.semiring == MMC_PLUS_TIMES)
    return (unsigned)dtype <= MMC_BOOL && ((gemm->rule.modulus == 0 && !gemm->rule.checked) ||
                                           (mmci_dtype_is_integer(dtype) && dtype != MMC_BOOL));
  if (gemm->rule.semiring == MMC_LOG_SUM_EXP)
    return (dtype == MMC_F32 || dtype == MMC_F64) &&
           !mmci_precision_is_reproducible(gemm->precision);
  return dtype == MMC_F32 || dtype == MMC_F64 || dtype == MMC_I64;
}

bool mmci_cuda_has_whole(const mmci_device *device, const mmci_gemm *gemm) {
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  const mmci_gemm real = is_complex ? mmci_complex_by_real(gemm) : *gemm;
  return is_nothing(gemm) || gemm->k == 0 ||
         (mmci_residues_supports(&device->properties, &real) && !gemm->a.gathered &&
          !gemm->b.gathered && !(is_complex && gemm->turned && gemm->accumulate));
}

bool mmci_cuda_supports(const mmci_device *device, const mmci_gemm *gemm) {
  return has_arithmetic(gemm) && (!mmci_gemm_is_whole(gemm) || mmci_cuda_has_whole(device, gemm)) &&
         gemm->m >= 0 && gemm->k >= 0 && gemm->n >= 0 && gemm->a.ld >= 1 && gemm->b.ld >= 1 &&
         gemm->ldc >= 1 && gemm->batch >= 0 && gemm->a.stride >= 0 && gemm->b.stride >= 0;
}

const char *mmci_cuda_variant_name(mmc_dtype dtype, int variant) {
  const int tile = mmci_large_tile_of_variant(variant), slice = variant - MMCI_FIRST_SLICED_K;
  if (variant < MMCI_FIRST_LARGE_TILE) return VARIANT_NAMES[variant - 1];
  if (tile >= 0 && tile < mmci_large_tile_shapes(dtype)) return mmci_large_tile_name(dtype, tile);
  if (tile >= 0) return variant < MMCI_FIRST_SLICED_K ? "" : NULL;
  return slice < mmci_sliced_k_shapes(dtype) ? mmci_sliced_k_name(slice) : NULL;
}

const char *mmci_cuda_kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_way way;
  mmci_cuda_choose_way(device, gemm, &way);
  const char *name = gemm->variant > 0 ? mmci_cuda_variant_name(gemm->dtype, gemm->variant) : NULL;
  switch (way.kind) {
    case MMCI_WAY_NOTHING:
      return "nothing";
    case MMCI_WAY_SEMIRING:
      return mmc_semiring_name(gemm->rule.semiring);
    case MMCI_WAY_ZEROS:
      return "zeros";
    case MMCI_WAY_PLAIN:
      return "plain";
    case MMCI_WAY_MODULAR:
      return "modular";
    case MMCI_WAY_THIN:
      return "thin";
    case MMCI_WAY_OUTER:
      return "outer";
    case MMCI_WAY_VECTORS:
      return "vectors";
    case MMCI_WAY_CHECKED:
      return "checked";
    case MMCI_WAY_ORDERED:
    case MMCI_WAY_ORDERED_TILES:
    case MMCI_WAY_ORDERED_COMPLEX:
    case MMCI_WAY_ORDERED_HALF:
    case MMCI_WAY_IN_ORDER:
      return "in order";
    case MMCI_WAY_IN_PIECES:
      return "in pieces";
    case MMCI_WAY_GROUP: {
      mmci_cuda_alone x;
      mmci_cuda_make_alone(gemm, &x);
      return mmci_cuda_chain_name(device, &x.group);
    }
    case MMCI_WAY_EMULATED:
      return mmci_emulated_name(mmci_emulated_choose(&device->properties, gemm));
    case MMCI_WAY_RESIDUES:
      return mmci_residues_name(gemm->dtype);
    case MMCI_WAY_FAITHFUL_COMPLEX: {
      const mmci_gemm real = mmci_complex_by_real(gemm);
      return real.dtype == MMC_F32 && !mmci_gemm_is_whole(gemm)
                 ? mmci_emulated_name(mmci_emulated_choose(&device->properties, &real))
                 : mmci_residues_name(real.dtype);
    }
    case MMCI_WAY_CUBLASLT:
    case MMCI_WAY_LARGE_TILE:
    case MMCI_WAY_SLICED_K:
      if (name != NULL && name[0] != '\0') return name;
      break;
    case MMCI_WAY_CUBLAS:
    case MMCI_WAY_CUBLAS_BATCH:
      break;
  }
  return way.arithmetic->name;
}

double mmci_cuda_error_bound(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_way way;
  const bool loose = gemm->rule.tolerance > 0;
  mmci_cuda_choose_way(device, gemm, &way);
  if (loose && way.kind == MMCI_WAY_RESIDUES && gemm->dtype == MMC_F64)
    return mmci_residues_error_bound(gemm);
  if (loose && way.kind == MMCI_WAY_FAITHFUL_COMPLEX && gemm->dtype == MMC_C128) {
    const mmci_gemm real = mmci_complex_by_real(gemm);
    return sqrt(2) * mmci_residues_error_bound(&real);
  }
  return mmci_gemm_error_bound(gemm);
}
