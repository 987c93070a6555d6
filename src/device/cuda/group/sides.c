/* sides.c: lays chains out for sides.cu. */
#include "device/cuda/group/sides.h"

#include <stdint.h>

#include "device/cuda/group/group.h"

enum { VECTOR_BYTES = 16, WARP = 32 };

#define CHAINS(side, lanes, word) ((side) % 2 == 1 ? (word) : (lanes) < WARP ? 2 : 1)
#define SIZE(word, side, height, width, piece, lanes, slots, units, first, terms) \
  {side, height, width, piece, lanes, slots, units, first, CHAINS(side, lanes, word)},
#define SIZE_F32(...) SIZE(4, __VA_ARGS__)
#define SIZE_F64(...) SIZE(2, __VA_ARGS__)
static const mmci_sides_size SIZES_F32[] = {MMCI_SIDES_F32(SIZE_F32)},
                             SIZES_F64[] = {MMCI_SIDES_F64(SIZE_F64)};

bool mmci_sides_size_of(mmc_dtype dtype, int i, mmci_sides_size *out) {
  const bool is_f32 = dtype == MMC_F32;
  const int count = is_f32             ? (int)(sizeof SIZES_F32 / sizeof *SIZES_F32)
                    : dtype == MMC_F64 ? (int)(sizeof SIZES_F64 / sizeof *SIZES_F64)
                                       : 0;
  if (i < 0 || i >= count) return false;
  *out = is_f32 ? SIZES_F32[i] : SIZES_F64[i];
  return true;
}

static int find_size(mmc_dtype dtype, int64_t side) {
  mmci_sides_size size;
  for (int i = 0; mmci_sides_size_of(dtype, i, &size); i++)
    if (size.side == side) return i;
  return -1;
}

/* Matrices of odd sides are copied several at once. */
static bool is_word_stride(mmc_dtype dtype, int64_t stride, int64_t side) {
  const int64_t word = VECTOR_BYTES / (int64_t)mmc_dtype_size(dtype);
  return side % 2 == 1 ? stride == side * side : stride % word == 0;
}

/* Says whether matrices lie as the kernel takes them. A plan asks before it is known where they
 * lie: its strides are 0, and they are thought to lie one behind the other. */
static bool has_word_strides(const mmci_group *chain, int64_t side) {
  if (chain->c_stride == 0) return true;
  bool all = is_word_stride(chain->dtype, chain->c_stride, side);
  for (int i = 0; i < chain->n; i++)
    all = all && is_word_stride(chain->dtype, chain->forms[i].stride, side);
  return all;
}

bool mmci_sides_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_sides *out) {
  const int64_t side = limits->hopper ? mmci_squares_side(chain) : 0;
  const int size = side > 0 ? find_size(chain->dtype, side) : -1;
  if (size < 0 || !has_word_strides(chain, side)) return false;
  out->dtype = chain->dtype;
  out->size = (uint8_t)size;
  mmci_squares_fill(chain, &out->squares);
  return true;
}

bool mmci_sides_bind(mmci_sides *sides, const void *const *operands, void *c) {
  uintptr_t bits = (uintptr_t)c;
  for (int i = 0; i < sides->squares.n; i++) {
    sides->squares.data[i] = operands[i];
    bits |= (uintptr_t)operands[i];
  }
  sides->squares.c = c;
  return bits % VECTOR_BYTES == 0;
}
