/* product.c: products on a CUDA device.
 *
 * cuBLAS does them, for which a row-major matrix is a transposed column-major one: it is asked for
 * C^T = B^T A^T, and nothing is ever copied. Variant 0 is what cublasGemmEx chooses; the others are
 * the algorithms that cuBLASLt proposes, 1 to 24, the shapes of large_tile.h, from 25 on, those of
 * sliced_k.h, from 31 on, and more of large_tile.h, from 36 on. A batch is one strided call,
 * without variants, or where its products are small one launch of a kernel for groups. Faithful f32
 * products that are large enough go to emulated.c as variant 0, f64 ones and integers to
 * residues.c, reproducible ones to ordered.cu and ordered_complex.cu, or where they are large to
 * whole tiles of large_tile.h, which add up in the same order, as kernels for groups do, those of
 * few elements, batches too, to thin.cu, those of 16 bits and few terms to outer.cu, and batches of
 * vectors to vectors.cu. Long reproducible products go to pieces.c. Products over semirings go to
 * semiring.cu. What cuBLAS cannot say goes to plain.cu.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "device/cuda/better.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/emulated/emulated.h"
#include "device/cuda/model.h"
#include "device/cuda/product/batch.h"
#include "device/cuda/product/complex_by_real.h"
#include "device/cuda/product/in_order.h"
#include "device/cuda/product/large_tile.h"
#include "device/cuda/product/lt.h"
#include "device/cuda/product/ordered_complex.h"
#include "device/cuda/product/pieces.h"
#include "device/cuda/product/sliced_k.h"
#include "device/cuda/product/thin.h"
#include "device/cuda/residues/residues.h"

enum {
  VARIANTS_MAX = MMCI_LT_PROPOSALS,
  FIRST_LARGE_TILE = VARIANTS_MAX + 1, /* variants are numbers that old records keep */
  LARGE_TILES_BELOW = 6, /* shapes of large_tile.h with numbers below those of sliced_k.h */
  FIRST_SLICED_K = FIRST_LARGE_TILE + LARGE_TILES_BELOW,
  LATER_LARGE_TILE = FIRST_SLICED_K + 5,
  AMPERE = 8,
  HOPPER = 9,
};

typedef enum kind {
  NOTHING,
  SEMIRING,
  ZEROS,
  PLAIN,
  MODULAR,
  CHECKED,
  ORDERED,
  ORDERED_TILES,
  ORDERED_COMPLEX,
  ORDERED_HALF,
  IN_ORDER,
  IN_PIECES,
  GROUP,
  CUBLAS_BATCH,
  CUBLAS,
  THIN,
  OUTER,
  VECTORS,
  CUBLASLT,
  EMULATED,
  RESIDUES,
  FAITHFUL_COMPLEX,
  LARGE_TILE,
  SLICED_K
} kind;

static const mmci_arithmetic TF32 = {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                     "cublas tf32"};
static const mmci_arithmetic TF32_COMPLEX = {CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                                             "cublas tf32 complex"};
static const char *const VARIANT_NAMES[] = {
    "cublaslt 1",  "cublaslt 2",  "cublaslt 3",  "cublaslt 4",  "cublaslt 5",  "cublaslt 6",
    "cublaslt 7",  "cublaslt 8",  "cublaslt 9",  "cublaslt 10", "cublaslt 11", "cublaslt 12",
    "cublaslt 13", "cublaslt 14", "cublaslt 15", "cublaslt 16", "cublaslt 17", "cublaslt 18",
    "cublaslt 19", "cublaslt 20", "cublaslt 21", "cublaslt 22", "cublaslt 23", "cublaslt 24"};

static const float ONE_F32[2] = {1, 0}, ZERO_F32[2] = {0, 0};
static const double ONE_F64[2] = {1, 0}, ZERO_F64[2] = {0, 0};

struct mmci_kernel {
  mmci_device *device;
  mmci_gemm gemm;
  kind kind;
  const mmci_arithmetic *arithmetic;
  const void *one, *beta;
  mmci_stored a, b, c;
  mmci_lt_product lt;                    /* CUBLASLT */
  mmci_emulated *emulated;               /* EMULATED */
  mmci_residues *residues;               /* RESIDUES, and CHECKED where it is worth it */
  int32_t *exceeds;                      /* CHECKED, in memory of the device */
  mmci_large_tile *large_tile;           /* LARGE_TILE, ORDERED_TILES */
  mmci_sliced_k sliced_k;                /* SLICED_K */
  mmci_in_order *in_order;               /* IN_ORDER */
  mmci_long_product *long_product;       /* IN_PIECES */
  mmci_group_kernel *group;              /* GROUP */
  mmci_complex_product *complex_product; /* ORDERED_COMPLEX, FAITHFUL_COMPLEX */
};

/* ---- what is asked --------------------------------------------------------------------------- */

static const mmci_arithmetic *find_arithmetic(const mmci_gemm *gemm) {
  if (gemm->precision == MMCI_FAST && gemm->dtype == MMC_F32) return &TF32;
  if (gemm->precision == MMCI_FAST && gemm->dtype == MMC_C64) return &TF32_COMPLEX;
  return mmci_arithmetic_of(gemm->dtype);
}

static bool is_batch(const mmci_gemm *gemm) {
  return gemm->batch > 1;
}

static bool goes_by_residues(const mmci_device *device, const mmci_gemm *gemm) {
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
  return real.dtype == MMC_F32 ? goes_emulated(device, &real) : goes_by_residues(device, &real);
}

static bool has_native_sums(const mmci_gemm *gemm) {
  return gemm->precision != MMCI_FAITHFUL &&
         find_arithmetic(gemm) == mmci_arithmetic_of(gemm->dtype);
}

static kind kind_of_batch(const mmci_device *device, const mmci_gemm *gemm) {
  static const kind KINDS[] = {[MMCI_BATCH_CUBLAS] = CUBLAS_BATCH,
                               [MMCI_BATCH_GROUP] = GROUP,
                               [MMCI_BATCH_THIN] = THIN,
                               [MMCI_BATCH_OUTER] = OUTER,
                               [MMCI_BATCH_VECTORS] = VECTORS};
  return has_native_sums(gemm) ? KINDS[mmci_cuda_way_of_batch(device, gemm).kind] : CUBLAS_BATCH;
}

static int variant_of_tile(int shape) {
  return shape < LARGE_TILES_BELOW ? FIRST_LARGE_TILE + shape
                                   : LATER_LARGE_TILE + shape - LARGE_TILES_BELOW;
}

/* Returns the shape of large_tile.h that a variant stands for, or -1. */
static int tile_of_variant(int variant) {
  if (variant >= LATER_LARGE_TILE) return variant - LATER_LARGE_TILE + LARGE_TILES_BELOW;
  return variant >= FIRST_LARGE_TILE && variant < FIRST_SLICED_K ? variant - FIRST_LARGE_TILE : -1;
}

static kind kind_of_variant(const mmci_device *device, const mmci_gemm *gemm) {
  if (gemm->precision == MMCI_FAITHFUL && goes_by_residues(device, gemm)) return RESIDUES;
  if (gemm->precision == MMCI_FAITHFUL && is_emulated_complex(device, gemm))
    return FAITHFUL_COMPLEX;
  if (gemm->precision == MMCI_FAITHFUL && gemm->variant == 0 && goes_emulated(device, gemm))
    return EMULATED;
  if (is_batch(gemm)) return kind_of_batch(device, gemm);
  if (gemm->variant != 0)
    return gemm->variant < FIRST_LARGE_TILE      ? CUBLASLT
           : tile_of_variant(gemm->variant) >= 0 ? LARGE_TILE
                                                 : SLICED_K;
  if (mmci_thin_pays(gemm)) return THIN;
  return has_native_sums(gemm) && mmci_cuda_goes_to_outer(device, gemm) ? OUTER : CUBLAS;
}

/* The shape of large_tile.h for reproducible products: 256 x 128 of f32, 128 x 128 of f64. */
static int ordered_shape(mmc_dtype dtype) {
  return dtype == MMC_F32 || dtype == MMC_C64 ? 2 : 0;
}

/* Large tiles are faster where there is one for every multiprocessor. They add to C what they
 * have summed up, so products that accumulate are not for them. */
static kind kind_in_order(const mmci_device *device, const mmci_gemm *gemm) {
  enum { TILE = 256 * 128, ROUNDS = 1 };
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  if (mmci_cuda_element_bytes(gemm->dtype) == 2 && device->properties.major >= AMPERE)
    return ORDERED_HALF;
  const mmci_gemm real = is_complex ? mmci_complex_by_real(gemm) : *gemm;
  const double tiles = (double)real.m * (double)real.n / TILE;
  const bool is_large = tiles >= ROUNDS * (double)device->properties.multiProcessorCount &&
                        real.k >= TILE / 256 && !gemm->accumulate && !is_batch(gemm) &&
                        !gemm->a.gathered && !gemm->b.gathered;
  if (!is_large || (is_complex && gemm->turned) ||
      (real.dtype != MMC_F32 && real.dtype != MMC_F64) ||
      !mmci_large_tile_supports(&device->properties, &real, ordered_shape(real.dtype)))
    return ORDERED;
  return is_complex ? ORDERED_COMPLEX : ORDERED_TILES;
}

static bool is_nothing(const mmci_gemm *gemm) {
  return gemm->m == 0 || gemm->n == 0 || (gemm->k == 0 && gemm->accumulate);
}

static kind kind_of_integers(const mmci_device *device, const mmci_gemm *gemm) {
  if (is_nothing(gemm)) return NOTHING;
  if (gemm->k == 0) return ZEROS;
  if (gemm->rule.checked) return CHECKED;
  return goes_by_residues(device, gemm) ? RESIDUES : gemm->rule.modulus != 0 ? MODULAR : PLAIN;
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

/* Fills the kernel with all but what is prepared. */
static void choose_kind(const mmci_device *device, const mmci_gemm *gemm, mmci_kernel *kernel) {
  mmci_gemm rows;
  if (gemm->rule.semiring == MMC_PLUS_TIMES && !mmci_dtype_is_integer(gemm->dtype) &&
      gemm->sums == MMCI_SUMS_CHAIN && !mmci_gemm_is_in_order(gemm) && has_native_sums(gemm) &&
      are_rows(gemm, &rows) &&
      mmci_cuda_product_seconds(device, &rows) < mmci_cuda_way_of_batch(device, gemm).seconds)
    gemm = &rows;
  const mmci_form c = {.ld = gemm->ldc};
  kernel->gemm = *gemm;
  if (gemm->rule.semiring != MMC_PLUS_TIMES) {
    kernel->kind = is_nothing(gemm) ? NOTHING : SEMIRING;
    return;
  }
  if (mmci_dtype_is_integer(gemm->dtype)) {
    kernel->kind = kind_of_integers(device, gemm);
    return;
  }
  kernel->arithmetic = find_arithmetic(gemm);
  bool in_f64 = kernel->arithmetic->compute == CUBLAS_COMPUTE_64F;
  const void *zero = in_f64 ? (const void *)ZERO_F64 : ZERO_F32;
  kernel->one = in_f64 ? (const void *)ONE_F64 : ONE_F32;
  kernel->beta = gemm->accumulate ? kernel->one : zero;
  if (is_nothing(gemm))
    kernel->kind = NOTHING;
  else if (gemm->k == 0)
    kernel->kind = ZEROS;
  else if (mmci_gemm_is_whole(gemm))
    kernel->kind = mmci_dtype_is_complex(gemm->dtype) ? FAITHFUL_COMPLEX : RESIDUES;
  else if (gemm->sums == MMCI_SUMS_PIECES)
    kernel->kind = IN_PIECES;
  else if (mmci_gemm_is_in_order(gemm))
    kernel->kind = kind_in_order(device, gemm);
  else if (gemm->a.gathered || gemm->b.gathered ||
           !mmci_stored_as(&gemm->a, gemm->m, gemm->k, gemm->dtype, &kernel->a) ||
           !mmci_stored_as(&gemm->b, gemm->k, gemm->n, gemm->dtype, &kernel->b) ||
           !mmci_stored_as(&c, gemm->m, gemm->n, gemm->dtype, &kernel->c))
    kernel->kind = PLAIN;
  else
    kernel->kind = kind_of_variant(device, gemm);
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

/* Says whether there are kernels for sums of whole numbers: on Hopper, but for turned complex
 * products that are added to. */
static bool has_whole(const mmci_device *device, const mmci_gemm *gemm) {
  const bool is_complex = mmci_dtype_is_complex(gemm->dtype);
  const mmci_gemm real = is_complex ? mmci_complex_by_real(gemm) : *gemm;
  return is_nothing(gemm) || gemm->k == 0 ||
         (mmci_residues_supports(&device->properties, &real) && !gemm->a.gathered &&
          !gemm->b.gathered && !(is_complex && gemm->turned && gemm->accumulate));
}

bool mmci_cuda_supports(const mmci_device *device, const mmci_gemm *gemm) {
  return has_arithmetic(gemm) && (!mmci_gemm_is_whole(gemm) || has_whole(device, gemm)) &&
         gemm->m >= 0 && gemm->k >= 0 && gemm->n >= 0 && gemm->a.ld >= 1 && gemm->b.ld >= 1 &&
         gemm->ldc >= 1 && gemm->batch >= 0 && gemm->a.stride >= 0 && gemm->b.stride >= 0;
}

const char *mmci_cuda_variant_name(mmc_dtype dtype, int variant) {
  const int tile = tile_of_variant(variant), slice = variant - FIRST_SLICED_K;
  if (variant < FIRST_LARGE_TILE) return VARIANT_NAMES[variant - 1];
  if (tile >= 0 && tile < mmci_large_tile_shapes(dtype)) return mmci_large_tile_name(dtype, tile);
  if (tile >= 0) return variant < FIRST_SLICED_K ? "" : NULL;
  return slice < mmci_sliced_k_shapes(dtype) ? mmci_sliced_k_name(slice) : NULL;
}

const char *mmci_cuda_kernel_name(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_kernel kernel = {0};
  choose_kind(device, gemm, &kernel);
  const char *name = gemm->variant > 0 ? mmci_cuda_variant_name(gemm->dtype, gemm->variant) : NULL;
  switch (kernel.kind) {
    case NOTHING:
      return "nothing";
    case SEMIRING:
      return mmc_semiring_name(gemm->rule.semiring);
    case ZEROS:
      return "zeros";
    case PLAIN:
      return "plain";
    case MODULAR:
      return "modular";
    case THIN:
      return "thin";
    case OUTER:
      return "outer";
    case VECTORS:
      return "vectors";
    case CHECKED:
      return "checked";
    case ORDERED:
    case ORDERED_TILES:
    case ORDERED_COMPLEX:
    case ORDERED_HALF:
    case IN_ORDER:
      return "in order";
    case IN_PIECES:
      return "in pieces";
    case GROUP: {
      mmci_cuda_alone x;
      mmci_cuda_make_alone(gemm, &x);
      return mmci_cuda_chain_name(device, &x.group);
    }
    case EMULATED:
      return mmci_emulated_name(mmci_emulated_choose(&device->properties, gemm));
    case RESIDUES:
      return mmci_residues_name(gemm->dtype);
    case FAITHFUL_COMPLEX: {
      const mmci_gemm real = mmci_complex_by_real(gemm);
      return real.dtype == MMC_F32 && !mmci_gemm_is_whole(gemm)
                 ? mmci_emulated_name(mmci_emulated_choose(&device->properties, &real))
                 : mmci_residues_name(real.dtype);
    }
    case CUBLASLT:
    case LARGE_TILE:
    case SLICED_K:
      if (name != NULL && name[0] != '\0') return name;
      break;
    case CUBLAS:
    case CUBLAS_BATCH:
      break;
  }
  return kernel.arithmetic->name;
}

double mmci_cuda_error_bound(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_kernel kernel = {0};
  const bool loose = gemm->rule.tolerance > 0;
  choose_kind(device, gemm, &kernel);
  if (loose && kernel.kind == RESIDUES && gemm->dtype == MMC_F64)
    return mmci_residues_error_bound(gemm);
  if (loose && kernel.kind == FAITHFUL_COMPLEX && gemm->dtype == MMC_C128) {
    const mmci_gemm real = mmci_complex_by_real(gemm);
    return sqrt(2) * mmci_residues_error_bound(&real);
  }
  return mmci_gemm_error_bound(gemm);
}

static bool is_ordered(kind kind) {
  return kind == ORDERED || kind == ORDERED_TILES || kind == ORDERED_COMPLEX ||
         kind == ORDERED_HALF;
}

/* Says whether cuBLASLt computes a product in order, as far as its operands tell. */
static bool goes_in_order(const mmci_gemm *gemm) {
  const int64_t places = gemm->a.ld | gemm->b.ld | gemm->ldc | gemm->a.stride | gemm->b.stride |
                         (gemm->batch > 1 ? gemm->c_stride : 0);
  const int64_t bytes = (int64_t)mmci_cuda_element_bytes(gemm->dtype);
  return mmci_in_order_pays(gemm) && (bytes > 2 || places * bytes % MMCI_LT_VECTOR_BYTES == 0);
}

/* Returns the seconds of the loops of ordered.cu, ordered_complex.cu and ordered_half.cu, which
 * compute whole tiles, at rates that were measured on an H200. */
static double loops_seconds(const mmci_device *device, const mmci_gemm *gemm) {
  enum { LARGE = 128, SMALL = 64, DEPTH = 16, MANY = 1 << 21 };
  static const double LAUNCH_S = 3e-6;
  static const double RATES[] = {
      [MMC_F32] = 2.5e13, [MMC_F64] = 1.2e13, [MMC_F16] = 2.2e13, [MMC_BF16] = 2.2e13};
  if (mmci_dtype_is_complex(gemm->dtype))
    return mmci_ordered_complex_seconds(gemm, device->properties.multiProcessorCount);
  const double m = (double)gemm->m, n = (double)gemm->n,
               batch = gemm->batch > 1 ? (double)gemm->batch : 1;
  const double side = gemm->dtype == MMC_F32 && batch * m * n >= MANY ? LARGE : SMALL,
               deep = ceil((double)gemm->k / DEPTH) * DEPTH,
               elements = batch * ceil(m / side) * ceil(n / side) * side * side;
  return LAUNCH_S + 2 * elements * deep / RATES[gemm->dtype];
}

/* Returns the seconds of a reproducible product by cuBLAS and a passage over its result, or by
 * loops; NAN for large complex ones, which are real ones. */
static double in_order_seconds(const mmci_device *device, const mmci_gemm *gemm, kind kind) {
  static const double LAUNCH_S = 2e-6, BYTES_PER_S = 4e12;
  if (kind == ORDERED_COMPLEX) return (double)NAN;
  if (!goes_in_order(gemm)) return loops_seconds(device, gemm);
  const double bytes = (double)gemm->m * (double)gemm->n *
                       (gemm->batch > 1 ? (double)gemm->batch : 1) *
                       (double)mmci_cuda_element_bytes(gemm->dtype);
  return mmci_cuda_model_product_us(mmci_cuda_model_of(device->properties.name), gemm) * 1e-6 +
         LAUNCH_S + bytes / BYTES_PER_S;
}

/* Returns the seconds of a long product: those of its pieces, as a batch, and of adding them. */
static double pieces_seconds(const mmci_device *device, const mmci_gemm *gemm) {
  static const double LAUNCH_S = 3e-6, BYTES_PER_S = 3e12;
  const double pieces = ceil((double)gemm->k / MMCI_PIECE_TERMS);
  const mmci_gemm batch = mmci_pieces_as_batch(gemm, MMCI_PIECE_TERMS, (int64_t)pieces);
  const bool by_loops = is_batch(gemm);
  const size_t size = mmci_cuda_element_bytes(gemm->dtype);
  const double bytes = (double)gemm->m * (double)gemm->n * (double)batch.batch *
                       (double)(size == 2 ? sizeof(float) : size);
  const double each_s =
      by_loops ? loops_seconds(device, &batch) : in_order_seconds(device, &batch, ORDERED);
  return each_s + LAUNCH_S + bytes / BYTES_PER_S;
}

/* Returns the seconds of plain.cu's loops for matrices at addresses, which compute whole tiles, by
 * rates that were measured on an H200. */
static double addresses_seconds(const mmci_gemm *gemm) {
  enum { TILE = 64 };
  static const double LAUNCH_S = 4e-6;
  static const double RATES[] = {[MMC_F32] = 1.5e13,  [MMC_F64] = 1e13,   [MMC_C64] = 2.8e13,
                                 [MMC_C128] = 1.3e13, [MMC_F16] = 1.2e13, [MMC_BF16] = 1.2e13};
  mmci_gemm tiles = *gemm;
  tiles.m = (gemm->m + TILE - 1) / TILE * TILE;
  tiles.n = (gemm->n + TILE - 1) / TILE * TILE;
  return LAUNCH_S + mmci_gemm_flops(&tiles) / RATES[gemm->dtype];
}

double mmci_cuda_product_seconds(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_kernel kernel = {0};
  mmci_gemm plain = *gemm;
  plain.variant = 0;
  choose_kind(device, &plain, &kernel);
  if (kernel.kind == RESIDUES) return mmci_residues_seconds(&plain);
  if (kernel.kind == FAITHFUL_COMPLEX && (gemm->dtype == MMC_C128 || mmci_gemm_is_whole(gemm))) {
    const mmci_gemm real = mmci_complex_by_real(&plain);
    return mmci_residues_seconds(&real) * (is_batch(gemm) ? (double)gemm->batch : 1);
  }
  if (kernel.kind == IN_PIECES) return pieces_seconds(device, &plain);
  if (kernel.kind == SEMIRING) {
    const mmci_cuda_semiring_room room = {.processors = device->properties.multiProcessorCount,
                                          .bytes = mmci_cuda_workspace_bytes(device)};
    return mmci_cuda_semiring_seconds(gemm, &room);
  }
  if (kernel.kind == PLAIN && (gemm->a.gathered || gemm->b.gathered) &&
      !mmci_dtype_is_integer(gemm->dtype))
    return addresses_seconds(gemm);
  const bool is_small =
      kernel.kind == GROUP || kernel.kind == THIN || kernel.kind == OUTER || kernel.kind == VECTORS;
  plain = kernel.gemm;
  if (is_small && is_batch(&plain)) return mmci_cuda_way_of_batch(device, &plain).seconds;
  if (kernel.kind == OUTER) return mmci_cuda_outer_seconds(device, &plain);
  if (kernel.kind == THIN) return 1e-6 * mmci_thin_us(&plain);
  if (kernel.kind == CUBLAS && gemm->dtype == MMC_F32 && gemm->precision == MMCI_FAST)
    return 1e-6 *
           mmci_cuda_tf32_us(device->properties.name, device->properties.multiProcessorCount, gemm);
  if (is_ordered(kernel.kind)) {
    double doubt;
    const double group_s = mmci_cuda_alone_seconds(device, &plain, &doubt);
    return fmin(in_order_seconds(device, &plain, kernel.kind), group_s * (1 + doubt));
  }
  const bool known = (kernel.kind == CUBLAS || kernel.kind == CUBLAS_BATCH) &&
                     kernel.arithmetic == mmci_arithmetic_of(gemm->dtype);
  return known ? mmci_cuda_model_product_us(mmci_cuda_model_of(device->properties.name), &plain) *
                     1e-6
               : (double)NAN;
}

bool mmci_cuda_product_better(const mmci_device *device, const mmci_gemm *gemm, double least_s,
                              mmci_better *out) {
  mmci_kernel kernel = {0};
  if (gemm->accumulate ||
      !mmci_cuda_better(device->properties.name, device->properties.multiProcessorCount,
                        FIRST_LARGE_TILE, gemm, least_s, out))
    return false;
  choose_kind(device, gemm, &kernel);
  mmci_gemm other = mmci_gemm_padded(out->pad > 0 ? out->pad : 1, gemm);
  other.variant = out->variant;
  return kernel.kind == CUBLAS && mmci_cuda_supports(device, &other);
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

size_t mmci_cuda_workspace_bytes(const mmci_device *device) {
  /* Hopper's algorithms need more; these are PyTorch's numbers, so that both choose alike. */
  return (size_t)(device->properties.major >= HOPPER ? 32 : 8) << 20;
}

mmc_status mmci_cuda_find_cublas(mmci_device *device, mmci_error *error) {
  pthread_mutex_lock(&device->lock);
  mmc_status status = device->cublas != NULL ? MMC_OK : mmci_cublas_load(&device->cublas, error);
  pthread_mutex_unlock(&device->lock);
  return status;
}

static mmc_status lt_find(const mmci_cublas *cublas, mmci_kernel *kernel, int *count,
                          mmci_error *error) {
  cublasLtMatmulHeuristicResult_t results[VARIANTS_MAX];
  const int variant = kernel->gemm.variant;
  /* Partial sums of 16-bit types are not to be in the type of C. */
  const mmci_lt_terms terms = {.workspace_bytes = mmci_cuda_workspace_bytes(kernel->device),
                               .reductions = mmci_cuda_element_bytes(kernel->gemm.dtype) == 2
                                                 ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                 : (uint32_t)CUBLASLT_REDUCTION_SCHEME_MASK};
  mmc_status status =
      mmci_lt_describe(cublas, kernel->arithmetic, &kernel->gemm, &kernel->a, &kernel->b,
                       &kernel->c, kernel->arithmetic->type, &kernel->lt, error);
  if (status == MMC_OK)
    status = mmci_lt_propose(cublas, &kernel->lt, &terms, results, count, error);
  if (status == MMC_OK && variant > 0 && variant <= *count)
    kernel->lt.algorithm = results[variant - 1].algo;
  return status;
}

int mmci_cuda_variants(mmci_device *device, const mmci_gemm *gemm) {
  int count = 0;
  mmci_kernel kernel = {.device = device};
  MMCI_CUDA_ON_ANYHOW(device);
  choose_kind(device, gemm, &kernel);
  if (is_batch(gemm) || mmci_gemm_is_whole(gemm) || kernel.kind < CUBLAS ||
      kernel.arithmetic == NULL || mmci_cuda_find_cublas(device, NULL) != MMC_OK)
    return 0;
  if (lt_find(device->cublas, &kernel, &count, NULL) != MMC_OK) count = 0;
  mmci_lt_destroy(device->cublas, &kernel.lt);
  for (int s = 0; s < mmci_sliced_k_shapes(gemm->dtype); s++)
    if (mmci_sliced_k_supports(&device->properties, gemm, s)) count = FIRST_SLICED_K + s;
  for (int s = 0; s < mmci_large_tile_shapes(gemm->dtype); s++)
    if (mmci_large_tile_supports(&device->properties, gemm, s) && count < variant_of_tile(s))
      count = variant_of_tile(s);
  return count;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static mmc_status prepare_lt(mmci_kernel *kernel, mmci_error *error) {
  int count = 0;
  mmc_status status = lt_find(kernel->device->cublas, kernel, &count, error);
  if (status == MMC_OK && (kernel->gemm.variant < 0 || kernel->gemm.variant > count))
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0 to %d, got %d", count,
                       kernel->gemm.variant);
  return status;
}

/* Prepares an emulated product. Faithful arithmetic is allowed, never demanded: without memory for
 * its parts, cuBLAS computes the product. */
static mmc_status prepare_emulated(mmci_kernel *kernel, mmci_error *error) {
  mmc_status status = mmci_emulated_prepare(
      &kernel->gemm, mmci_emulated_choose(&kernel->device->properties, &kernel->gemm),
      kernel->device->properties.multiProcessorCount, &kernel->emulated, error);
  if (status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) return status;
  kernel->kind = is_batch(&kernel->gemm) ? CUBLAS_BATCH : CUBLAS;
  return MMC_OK;
}

/* Without memory for residues, FP64 is cuBLAS's, and integers are multiplied by loops; sums of
 * whole numbers cannot be computed. */
static mmc_status prepare_residues(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm *gemm = &kernel->gemm;
  mmc_status status = mmci_residues_prepare(gemm, 0, kernel->device->properties.multiProcessorCount,
                                            &kernel->residues, error);
  if ((status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) || mmci_gemm_is_whole(gemm))
    return status;
  if (gemm->dtype != MMC_F64)
    kernel->kind = gemm->rule.modulus != 0 ? MODULAR : PLAIN;
  else
    kernel->kind = is_batch(gemm) ? CUBLAS_BATCH : CUBLAS;
  return MMC_OK;
}

/* Returns the product whose elements wrap around where those of a checked one would be told. */
static mmci_gemm wrapping(const mmci_gemm *gemm) {
  mmci_gemm to = *gemm;
  to.rule.checked = false;
  return to;
}

/* A large product is computed by residues first, which say whether an element may exceed its dtype;
 * without memory for them, or where C is added to, by loops alone. */
static mmc_status prepare_checked(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm bytes = wrapping(&kernel->gemm);
  MMCI_CUDA_TRY(cudaMalloc((void **)&kernel->exceeds, sizeof *kernel->exceeds));
  if (bytes.accumulate || is_batch(&bytes) || !mmci_residues_ranges(&bytes) ||
      !goes_by_residues(kernel->device, &bytes))
    return MMC_OK;
  mmc_status status = mmci_residues_prepare(
      &bytes, 0, kernel->device->properties.multiProcessorCount, &kernel->residues, error);
  return status == MMC_E_NOMEM || status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

/* Without memory for it, a faithful complex product is cuBLAS's, unless its sums are of whole
 * numbers. */
static mmc_status prepare_faithful_complex(mmci_kernel *kernel, mmci_error *error) {
  mmc_status status = mmci_complex_product_prepare(kernel->device, &kernel->gemm, 0,
                                                   &kernel->complex_product, error);
  if ((status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) || mmci_gemm_is_whole(&kernel->gemm))
    return status;
  kernel->kind = is_batch(&kernel->gemm) ? CUBLAS_BATCH : CUBLAS;
  return MMC_OK;
}

/* Takes an algorithm of cuBLASLt for a reproducible product where one has its bits; without one, or
 * without memory to find out, the kernel stays as it is. */
static mmc_status prepare_by_cublas(mmci_kernel *kernel, mmci_error *error) {
  mmc_status status =
      mmci_in_order_prepare(kernel->device, &kernel->gemm, false, &kernel->in_order, error);
  if (status == MMC_OK) kernel->kind = IN_ORDER;
  return status == MMC_E_NOMEM || status == MMC_E_UNSUPPORTED ? MMC_OK : status;
}

static mmc_status prepare_group(mmci_kernel *kernel, mmci_error *error) {
  mmci_cuda_alone x;
  mmci_cuda_make_alone(&kernel->gemm, &x);
  return mmci_cuda_chain_prepare(kernel->device, &x.group, &kernel->group, error);
}

/* Takes a kernel for groups for a batch of reproducible products where that is predicted to take
 * less than so many seconds. */
static mmc_status take_group(mmci_kernel *kernel, double than_s, mmci_error *error) {
  double doubt;
  const double group_s = mmci_cuda_alone_seconds(kernel->device, &kernel->gemm, &doubt);
  if (!(group_s * (1 + doubt) < than_s)) return MMC_OK;
  mmc_status status = prepare_group(kernel, error);
  if (status == MMC_OK) kernel->kind = GROUP;
  return status;
}

/* Takes what is predicted to be faster, a kernel for groups or cuBLASLt; where that has no
 * algorithm with these bits, loops or the kernel for groups. */
static mmc_status prepare_in_order(mmci_kernel *kernel, mmci_error *error) {
  const mmci_gemm *gemm = &kernel->gemm;
  mmc_status status =
      take_group(kernel, in_order_seconds(kernel->device, gemm, kernel->kind), error);
  if (status != MMC_OK || kernel->kind == GROUP || kernel->kind == ORDERED_COMPLEX ||
      !mmci_in_order_pays(gemm))
    return status;
  status = prepare_by_cublas(kernel, error);
  return status == MMC_OK && is_ordered(kernel->kind)
             ? take_group(kernel, loops_seconds(kernel->device, gemm), error)
             : status;
}

/* Without memory for copies of its operands, a large reproducible product is one of ordered.cu. */
static mmc_status prepare_ordered_tiles(mmci_kernel *kernel, mmci_error *error) {
  const struct cudaDeviceProp *device = &kernel->device->properties;
  const int shape = ordered_shape(kernel->gemm.dtype);
  mmc_status status =
      kernel->kind == ORDERED_COMPLEX
          ? mmci_complex_product_prepare(kernel->device, &kernel->gemm, shape,
                                         &kernel->complex_product, error)
          : mmci_large_tile_prepare(device, &kernel->gemm, shape, &kernel->large_tile, error);
  if (status != MMC_E_NOMEM && status != MMC_E_UNSUPPORTED) return status;
  kernel->kind = ORDERED;
  return MMC_OK;
}

mmc_status mmci_cuda_prepare(mmci_device *device, const mmci_gemm *gemm, mmci_kernel **out,
                             mmci_error *error) {
  MMCI_CUDA_ON(device);
  const bool by_cublas = gemm->rule.semiring == MMC_PLUS_TIMES;
  mmc_status status = by_cublas ? mmci_cuda_find_cublas(device, error) : MMC_OK;
  if (status != MMC_OK) return status;
  mmci_kernel *kernel = mmci_alloc_zeroed(1, sizeof *kernel);
  if (kernel == NULL) return mmci_fail_nomem(error, sizeof *kernel);
  kernel->device = device;
  choose_kind(device, gemm, kernel);
  if (mmci_gemm_is_whole(gemm) && !has_whole(device, gemm))
    status = mmci_fail(error, MMC_E_UNSUPPORTED,
                       "sums of whole numbers: expected a GPU of compute capability 9.0");
  if (status != MMC_OK) {
    free(kernel);
    return status;
  }
  if (kernel->kind == CUBLASLT) status = prepare_lt(kernel, error);
  if (kernel->kind == EMULATED) status = prepare_emulated(kernel, error);
  if (kernel->kind == RESIDUES) status = prepare_residues(kernel, error);
  if (kernel->kind == CHECKED) status = prepare_checked(kernel, error);
  if (kernel->kind == GROUP) status = prepare_group(kernel, error);
  if (kernel->kind == IN_PIECES)
    status = mmci_long_product_prepare(device, gemm, mmci_cuda_workspace_bytes(device),
                                       &kernel->long_product, error);
  if (kernel->kind == FAITHFUL_COMPLEX) status = prepare_faithful_complex(kernel, error);
  if (is_ordered(kernel->kind)) status = prepare_in_order(kernel, error);
  if (status == MMC_OK && (kernel->kind == ORDERED_TILES || kernel->kind == ORDERED_COMPLEX))
    status = prepare_ordered_tiles(kernel, error);
  if ((is_batch(gemm) || !by_cublas) && gemm->variant != 0)
    status = mmci_fail(error, MMC_E_UNSUPPORTED, "variant: expected 0 for a %s, got %d",
                       by_cublas ? "batch" : "semiring", gemm->variant);
  else if (kernel->kind == LARGE_TILE)
    status = mmci_large_tile_prepare(&device->properties, gemm, tile_of_variant(gemm->variant),
                                     &kernel->large_tile, error);
  else if (kernel->kind == SLICED_K)
    status = mmci_sliced_k_prepare(&device->properties, gemm, gemm->variant - FIRST_SLICED_K,
                                   &kernel->sliced_k, error);
  if (status == MMC_OK)
    *out = kernel;
  else
    mmci_cuda_release(kernel);
  return status;
}

void mmci_cuda_release(mmci_kernel *kernel) {
  if (kernel == NULL) return;
  MMCI_CUDA_ON_ANYHOW(kernel->device);
  mmci_large_tile_release(kernel->large_tile);
  mmci_in_order_release(kernel->in_order);
  mmci_long_product_release(kernel->long_product);
  mmci_cuda_chain_release(kernel->group);
  mmci_complex_product_release(kernel->complex_product);
  mmci_lt_destroy(kernel->device->cublas, &kernel->lt);
  mmci_emulated_release(kernel->emulated);
  mmci_residues_release(kernel->residues);
  if (kernel->exceeds != NULL) mmci_cuda_ignore(cudaFree(kernel->exceeds));
  free(kernel);
}

uint64_t mmci_cuda_scratch_bytes(const mmci_device *device, const mmci_gemm *gemm) {
  mmci_kernel kernel = {0};
  choose_kind(device, gemm, &kernel);
  if (kernel.kind == EMULATED) return mmci_emulated_bytes(gemm);
  if (kernel.kind == RESIDUES) return mmci_residues_bytes(gemm);
  if (kernel.kind == CHECKED) {
    const mmci_gemm bytes = wrapping(gemm);
    return goes_by_residues(device, &bytes) ? mmci_residues_bytes(&bytes) : 0;
  }
  if (kernel.kind == ORDERED_TILES)
    return mmci_large_tile_bytes(&device->properties, gemm, ordered_shape(gemm->dtype));
  if (kernel.kind == ORDERED_COMPLEX || kernel.kind == FAITHFUL_COMPLEX)
    return mmci_complex_product_bytes(&device->properties, gemm, ordered_shape(gemm->dtype));
  return kernel.kind == LARGE_TILE
             ? mmci_large_tile_bytes(&device->properties, gemm, tile_of_variant(gemm->variant))
             : 0;
}

bool mmci_cuda_share(mmci_kernel *kernel, int which, const mmci_kernel *from, int of) {
  if (kernel->kind == EMULATED)
    return which == 1 && mmci_emulated_share_own(kernel->emulated, from == kernel && of == 0);
  if (kernel->kind != RESIDUES || (from != NULL && from->kind != RESIDUES)) return false;
  return mmci_residues_share(kernel->residues, which, from != NULL ? from->residues : NULL, of);
}

/* cuBLAS needs whole elements aligned, where memory may be aligned to their real type only. */
static kind kind_of_addresses(const mmci_kernel *kernel, const void *a, const void *b,
                              const void *c) {
  uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
  if (kernel->kind == ORDERED_TILES)
    return mmci_large_tile_takes(kernel->large_tile, a, b) ? ORDERED_TILES : ORDERED;
  if (kernel->kind == IN_ORDER && !mmci_in_order_takes(a, b, c))
    return mmci_cuda_element_bytes(kernel->gemm.dtype) == 2 ? ORDERED_HALF : ORDERED;
  if (kernel->kind < CUBLAS_BATCH || mmci_gemm_is_whole(&kernel->gemm)) return kernel->kind;
  if (bits % mmci_cuda_element_bytes(kernel->gemm.dtype) != 0) return PLAIN;
  if (kernel->kind == LARGE_TILE)
    return mmci_large_tile_takes(kernel->large_tile, a, b) ? LARGE_TILE : CUBLAS;
  return kernel->kind == CUBLASLT && bits % MMCI_LT_VECTOR_BYTES != 0 ? CUBLAS : kernel->kind;
}

/* Waits for the product, because what it finds decides whether another one may follow. */
static mmc_status enqueue_checked(const mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                                  const void *b, void *c, mmci_error *error) {
  cudaStream_t stream = queue->stream;
  enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  MMCI_CUDA_TRY(cudaStreamIsCapturing(stream, &capture));
  if (capture != cudaStreamCaptureStatusNone)
    return mmci_fail(
        error, MMC_E_UNSUPPORTED,
        "checked: a stream that is being captured cannot wait for what a product finds");
  int32_t exceeds = 0;
  const uint64_t *most = NULL;
  mmc_status status = MMC_OK;
  MMCI_CUDA_TRY(cudaMemsetAsync(kernel->exceeds, 0, sizeof *kernel->exceeds, stream));
  if (kernel->residues != NULL) {
    most = mmci_residues_most(kernel->residues);
    status = mmci_residues_enqueue(stream, kernel->residues, a, b, c, error);
  }
  if (status == MMC_OK)
    status =
        mmci_cuda_checked_product(stream, &kernel->gemm, most, kernel->exceeds, a, b, c, error);
  if (status != MMC_OK) return status;
  MMCI_CUDA_TRY(
      cudaMemcpyAsync(&exceeds, kernel->exceeds, sizeof exceeds, cudaMemcpyDeviceToHost, stream));
  MMCI_CUDA_TRY(cudaStreamSynchronize(stream));
  const mmci_gemm *g = &kernel->gemm;
  return exceeds == 0 ? MMC_OK
                      : mmci_fail(error, MMC_E_OVERFLOW,
                                  "%" PRId64 "x%" PRId64 " by %" PRId64 "x%" PRId64
                                  " has elements that %s does not hold",
                                  g->m, g->k, g->k, g->n, mmc_dtype_name(g->dtype));
}

mmc_status mmci_cuda_enqueue(mmci_queue *queue, const mmci_kernel *kernel, const void *a,
                             const void *b, void *c, mmci_error *error) {
  queue->has_products = true;
  const mmci_cublas *cublas = queue->cublas;
  const mmci_arithmetic *as = kernel->arithmetic;
  const mmci_stored *left = &kernel->b, *right = &kernel->a;
  MMCI_CUDA_ON(queue->device);
  switch (kind_of_addresses(kernel, a, b, c)) {
    case NOTHING:
      break;
    case SEMIRING: {
      const mmci_cuda_semiring_room room = {
          .processors = queue->device->properties.multiProcessorCount,
          .memory = queue->workspace,
          .bytes = queue->workspace_bytes};
      return mmci_cuda_semiring_product(queue->stream, &kernel->gemm, &room, a, b, c, error);
    }
    case THIN:
      return mmci_cuda_thin_product(queue->stream, &kernel->gemm, a, b, c, error);
    case OUTER:
      return mmci_cuda_outer_product(queue->stream, &kernel->gemm, a, b, c, error);
    case VECTORS:
      return mmci_cuda_vectors_product(queue->stream, &kernel->gemm, a, b, c, error);
    case ZEROS:
    case PLAIN:
      return mmci_cuda_plain_product(queue->stream, &kernel->gemm, a, b, c, error);
    case MODULAR:
      return mmci_cuda_modular_product(queue->stream, &kernel->gemm, a, b, c, error);
    case CHECKED:
      return enqueue_checked(queue, kernel, a, b, c, error);
    case ORDERED:
      return mmci_cuda_ordered_product(queue->stream, &kernel->gemm, a, b, c, error);
    case ORDERED_HALF:
      return mmci_cuda_ordered_half(queue->stream, &kernel->gemm, a, b, c, error);
    case GROUP: {
      const void *const operands[] = {a, b};
      return mmci_cuda_chain_enqueue(queue, kernel->group, operands, c, error);
    }
    case IN_ORDER:
      return mmci_in_order_enqueue(queue->stream, kernel->in_order, a, b, c, error);
    case IN_PIECES: {
      const mmci_piece_room room = {queue->workspace, queue->workspace_bytes};
      return mmci_long_product_enqueue(kernel->long_product, queue->stream, &room, a, b, c, error);
    }
    case ORDERED_COMPLEX:
    case FAITHFUL_COMPLEX:
      return mmci_complex_product_enqueue(kernel->complex_product, queue->stream, a, b, c, error);
    case ORDERED_TILES: {
      mmc_status status =
          mmci_large_tile_enqueue(kernel->large_tile, queue->stream, a, b, c, error);
      return status == MMC_OK ? mmci_cuda_settle(queue->stream, &kernel->gemm, c, error) : status;
    }
    case CUBLAS_BATCH: {
      const mmci_gemm *g = &kernel->gemm;
      mmc_status status = mmci_cuda_bind_handle(queue, error);
      if (status != MMC_OK) return status;
      MMCI_CUBLAS_TRY(
          cublas, cublasGemmStridedBatchedEx_64,
          (queue->handle, left->op, right->op, g->n, g->m, g->k, kernel->one, b, as->type, left->ld,
           g->b.stride, a, as->type, right->ld, g->a.stride, kernel->beta, c, as->type,
           kernel->c.ld, g->c_stride, g->batch, as->compute, CUBLAS_GEMM_DEFAULT));
      break;
    }
    case CUBLAS: {
      mmc_status status = mmci_cuda_bind_handle(queue, error);
      if (status != MMC_OK) return status;
      MMCI_CUBLAS_TRY(cublas, cublasGemmEx_64,
                      (queue->handle, left->op, right->op, kernel->gemm.n, kernel->gemm.m,
                       kernel->gemm.k, kernel->one, b, as->type, left->ld, a, as->type, right->ld,
                       kernel->beta, c, as->type, kernel->c.ld, as->compute, CUBLAS_GEMM_DEFAULT));
      break;
    }
    case CUBLASLT:
      MMCI_CUBLAS_TRY(
          cublas, cublasLtMatmul,
          (cublas->lt, kernel->lt.product, kernel->one, b, kernel->lt.b, a, kernel->lt.a,
           kernel->beta, c, kernel->lt.c, c, kernel->lt.c, &kernel->lt.algorithm, queue->workspace,
           queue->workspace_bytes, queue->stream));
      break;
    case EMULATED:
      return mmci_emulated_enqueue(queue->stream, kernel->emulated, a, b, c, error);
    case RESIDUES:
      return mmci_residues_enqueue(queue->stream, kernel->residues, a, b, c, error);
    case LARGE_TILE:
      return mmci_large_tile_enqueue(kernel->large_tile, queue->stream, a, b, c, error);
    case SLICED_K:
      return mmci_sliced_k_enqueue(&kernel->sliced_k, queue->stream, a, b, c, error);
  }
  return MMC_OK;
}
