/* price.c: see price.h. */
#include "device/cuda/product/price.h"

#include <math.h>

#include "device/cuda/better.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_kernels.h"
#include "device/cuda/model.h"
#include "device/cuda/product/batch.h"
#include "device/cuda/product/complex_by_real.h"
#include "device/cuda/product/in_order.h"
#include "device/cuda/product/ordered_complex.h"
#include "device/cuda/product/pieces.h"
#include "device/cuda/product/thin.h"
#include "device/cuda/product/vectors.h"
#include "device/cuda/residues/residues.h"

/* Says whether cuBLASLt computes a product in order, as far as its operands tell. */
static bool goes_in_order(const mmci_gemm *gemm) {
  const int64_t places = gemm->a.ld | gemm->b.ld | gemm->ldc | gemm->a.stride | gemm->b.stride |
                         (gemm->batch > 1 ? gemm->c_stride : 0);
  const int64_t bytes = (int64_t)mmci_cuda_element_bytes(gemm->dtype);
  return mmci_in_order_pays(gemm) && (bytes > 2 || places * bytes % MMCI_LT_VECTOR_BYTES == 0);
}

double mmci_cuda_loops_seconds(const mmci_device *device, const mmci_gemm *gemm) {
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

double mmci_cuda_in_order_seconds(const mmci_device *device, const mmci_gemm *gemm,
                                  mmci_way_kind kind) {
  static const double LAUNCH_S = 2e-6, BYTES_PER_S = 4e12;
  if (kind == MMCI_WAY_ORDERED_COMPLEX) return (double)NAN;
  if (!goes_in_order(gemm)) return mmci_cuda_loops_seconds(device, gemm);
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
  const bool by_loops = gemm->batch > 1;
  const size_t size = mmci_cuda_element_bytes(gemm->dtype);
  const double bytes = (double)gemm->m * (double)gemm->n * (double)batch.batch *
                       (double)(size == 2 ? sizeof(float) : size);
  const double each_s = by_loops ? mmci_cuda_loops_seconds(device, &batch)
                                 : mmci_cuda_in_order_seconds(device, &batch, MMCI_WAY_ORDERED);
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
  mmci_way way;
  mmci_gemm plain = *gemm;
  plain.variant = 0;
  mmci_cuda_choose_way(device, &plain, &way);
  if (way.kind == MMCI_WAY_RESIDUES) return mmci_residues_seconds(&plain);
  if (way.kind == MMCI_WAY_FAITHFUL_COMPLEX &&
      (gemm->dtype == MMC_C128 || mmci_gemm_is_whole(gemm))) {
    const mmci_gemm real = mmci_complex_by_real(&plain);
    return mmci_residues_seconds(&real) * (gemm->batch > 1 ? (double)gemm->batch : 1);
  }
  if (way.kind == MMCI_WAY_IN_PIECES) return pieces_seconds(device, &plain);
  if (way.kind == MMCI_WAY_SEMIRING) {
    const mmci_cuda_semiring_room room = {.processors = device->properties.multiProcessorCount,
                                          .bytes = mmci_cuda_workspace_bytes(device)};
    return mmci_cuda_semiring_seconds(gemm, &room);
  }
  if (way.kind == MMCI_WAY_PLAIN && (gemm->a.gathered || gemm->b.gathered) &&
      !mmci_dtype_is_integer(gemm->dtype))
    return addresses_seconds(gemm);
  const bool is_small =
      way.kind == MMCI_WAY_GROUP || way.kind == MMCI_WAY_THIN || way.kind == MMCI_WAY_OUTER;
  plain = way.gemm;
  if (way.kind == MMCI_WAY_VECTORS) return 1e-6 * mmci_vectors_us(&plain);
  if (is_small && plain.batch > 1) return mmci_cuda_way_of_batch(device, &plain).seconds;
  if (way.kind == MMCI_WAY_OUTER) return mmci_cuda_outer_seconds(device, &plain);
  if (way.kind == MMCI_WAY_THIN) return 1e-6 * mmci_thin_us(&plain);
  if (way.kind == MMCI_WAY_CUBLAS && gemm->dtype == MMC_F32 && gemm->precision == MMCI_FAST)
    return 1e-6 *
           mmci_cuda_tf32_us(device->properties.name, device->properties.multiProcessorCount, gemm);
  if (mmci_way_is_ordered(way.kind)) {
    double doubt;
    const double group_s = mmci_cuda_alone_seconds(device, &plain, &doubt);
    return fmin(mmci_cuda_in_order_seconds(device, &plain, way.kind), group_s * (1 + doubt));
  }
  const bool known = (way.kind == MMCI_WAY_CUBLAS || way.kind == MMCI_WAY_CUBLAS_BATCH) &&
                     way.arithmetic == mmci_arithmetic_of(gemm->dtype);
  return known ? mmci_cuda_model_product_us(mmci_cuda_model_of(device->properties.name), &plain) *
                     1e-6
               : (double)NAN;
}

bool mmci_cuda_product_better(const mmci_device *device, const mmci_gemm *gemm, double least_s,
                              mmci_better *out) {
  mmci_way way;
  if (gemm->accumulate ||
      !mmci_cuda_better(device->properties.name, device->properties.multiProcessorCount,
                        MMCI_FIRST_LARGE_TILE, gemm, least_s, out))
    return false;
  mmci_cuda_choose_way(device, gemm, &way);
  mmci_gemm other = mmci_gemm_padded(out->pad > 0 ? out->pad : 1, gemm);
  other.variant = out->variant;
  return way.kind == MMCI_WAY_CUBLAS && mmci_cuda_supports(device, &other);
}
