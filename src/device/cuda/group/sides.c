/* sides.c: lays chains out for sides.cu, lanes.cu, strips.cu and strips_double.cu. */
#include "device/cuda/group/sides.h"

#include <stdint.h>

#include "device/cuda/group/group.h"

enum { VECTOR_BYTES = 16, WARP = 32 };

/* The fields of mmci_sides_size. */
#define BY_LANE(side, lanes, warps, apart)       \
  {side,         ((side) + (lanes)-1) / (lanes), \
   side,         1,                              \
   lanes,        MMCI_LANES_SLOTS,               \
   warps,        WARP / (lanes),                 \
   MMCI_BY_LANE, 0},
#define BY_STRIP(side, strips, slots, units)              \
  {side,                                                  \
   strips,                                                \
   side,                                                  \
   1,                                                     \
   WARP * ((((side) + 15) / 16 + (strips)-1) / (strips)), \
   slots,                                                 \
   units,                                                 \
   (side) % 4 == 0   ? 1                                  \
   : (side) % 2 == 0 ? 2                                  \
                     : 8,                                 \
   MMCI_BY_STRIP,                                         \
   0},
#define BY_STRIP_OF(side, slots, units, chains) \
  {side, 1, side, 1, (chains)*WARP * (((side) + 15) / 16), slots, units, chains, MMCI_BY_STRIP, 0},
#define BY_STRIP_F64(side, slots, units) BY_STRIP_OF(side, slots, units, (side) % 2 + 1)
#define BY_STRIP_C128(side, slots, units) BY_STRIP_OF(side, slots, units, 1)
#define CHAINS(side, lanes, word) ((side) % 2 == 1 ? (word) : (lanes) < WARP ? 2 : 1)
#define SIZE(word, side, height, width, piece, down, lanes, slots, units, terms, ahead) \
  {side, height, width, piece, lanes, slots, units, CHAINS(side, lanes, word), MMCI_BY_SIDE, 0},
#define SIZE_F32(...) SIZE(4, __VA_ARGS__)
#define SIZE_64(...) SIZE(2, __VA_ARGS__)
static const mmci_sides_size LANES_F32[] = {MMCI_ROWS(MMCI_LANES_F32, BY_LANE)},
                             LANES_F64[] = {MMCI_ROWS(MMCI_LANES_F64, BY_LANE)},
                             LANES_C64[] = {MMCI_ROWS(MMCI_LANES_C64, BY_LANE)},
                             LANES_C128[] = {MMCI_ROWS(MMCI_LANES_C128, BY_LANE)},
                             LANES_HALF[] = {MMCI_ROWS(MMCI_LANES_HALF, BY_LANE)},
                             SIDES_F32[] = {MMCI_ROWS(MMCI_SIDES_F32, SIZE_F32)},
                             SIDES_F64[] = {MMCI_ROWS(MMCI_SIDES_F64, SIZE_64)},
                             SIDES_C64[] = {MMCI_ROWS(MMCI_SIDES_C64, SIZE_64)},
                             STRIPS_F64[] = {MMCI_ROWS(MMCI_STRIPS_F64, BY_STRIP_F64)},
                             STRIPS_C128[] = {MMCI_ROWS(MMCI_STRIPS_C128, BY_STRIP_C128)},
                             STRIPS_HALF[] = {MMCI_ROWS(MMCI_STRIPS_HALF, BY_STRIP)};

/* What a dtype has: kernels by lane, by side and by strip, which are numbered in this order. */
enum { WAYS = MMCI_BY_STRIP + 1 };
typedef struct sizes {
  const mmci_sides_size *of[WAYS];
  int count[WAYS];
} sizes;

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
static const sizes SIZES[] = {
    [MMC_F32] = {{LANES_F32, SIDES_F32, NULL}, {COUNT(LANES_F32), COUNT(SIDES_F32), 0}},
    [MMC_F64] = {{LANES_F64, SIDES_F64, STRIPS_F64},
                 {COUNT(LANES_F64), COUNT(SIDES_F64), COUNT(STRIPS_F64)}},
    [MMC_C64] = {{LANES_C64, SIDES_C64, NULL}, {COUNT(LANES_C64), COUNT(SIDES_C64), 0}},
    [MMC_C128] = {{LANES_C128, NULL, STRIPS_C128}, {COUNT(LANES_C128), 0, COUNT(STRIPS_C128)}},
    [MMC_F16] = {{LANES_HALF, NULL, STRIPS_HALF}, {COUNT(LANES_HALF), 0, COUNT(STRIPS_HALF)}},
    [MMC_BF16] = {{LANES_HALF, NULL, STRIPS_HALF}, {COUNT(LANES_HALF), 0, COUNT(STRIPS_HALF)}},
};

bool mmci_sides_size_of(mmc_dtype dtype, int i, mmci_sides_size *out) {
  if ((unsigned)dtype >= COUNT(SIZES) || i < 0) return false;
  const sizes *all = &SIZES[dtype];
  int way = 0;
  while (way < WAYS && i >= all->count[way]) i -= all->count[way++];
  if (way == WAYS) return false;
  *out = all->of[way][i];
  out->number = i;
  return true;
}

/* Returns the number of the size of a side that a way has, or -1. Where it has two, the second one
 * is for batches that leave half of the units without a chain: a chain takes less time by it, many
 * chains more. */
static int find_side(const mmci_group_limits *limits, const mmci_group *chain, int way,
                     int64_t side) {
  const sizes *all = &SIZES[chain->dtype];
  const int count = all->count[way];
  const mmci_sides_size *of = all->of[way];
  int i = 0, before = 0;
  for (int w = 0; w < way; w++) before += all->count[w];
  while (i < count && of[i].side != side) i++;
  if (i == count) return -1;
  if (i + 1 < count && of[i + 1].side == side) {
    const int64_t units = (int64_t)of[i + 1].units * limits->multiprocessors;
    if (2 * chain->batch <= units * of[i + 1].chains) i++;
  }
  return before + i;
}

/* Reproducible sums are of one product at a time, those of 16 bits of 16, from the first k to the
 * last: lanes have others of 16 bits, and strips are given columns in another order. */
static bool has_way(const mmci_group *chain, int way) {
  return !mmci_precision_is_reproducible(chain->precision) ||
         (way != MMCI_BY_STRIP && mmc_dtype_size(chain->dtype) != 2);
}

/* Finds the size of a side, or -1; tensor cores are the fastest way. */
static int find_size(const mmci_group_limits *limits, const mmci_group *chain, int64_t side,
                     mmci_sides_size *out) {
  static const int ORDER[WAYS] = {MMCI_BY_LANE, MMCI_BY_STRIP, MMCI_BY_SIDE};
  int i = -1;
  if ((unsigned)chain->dtype >= COUNT(SIZES)) return -1;
  for (int o = 0; o < WAYS && i < 0; o++)
    if (has_way(chain, ORDER[o])) i = find_side(limits, chain, ORDER[o], side);
  return mmci_sides_size_of(chain->dtype, i, out) ? i : -1;
}

/* Matrices that begin at no whole word alone, and all that go by lane, are copied several at once;
 * but by side, chains may share a factor. */
static bool is_word_stride(mmc_dtype dtype, int64_t stride, const mmci_sides_size *size) {
  const int64_t word = VECTOR_BYTES / (int64_t)mmc_dtype_size(dtype), side = size->side,
                area = side * side;
  if (stride == 0 && size->way != MMCI_BY_SIDE) return true;
  return size->way == MMCI_BY_LANE || area % word != 0 ? stride == area : stride % word == 0;
}

/* Says whether matrices lie as the kernel takes them. A plan asks before it is known where they
 * lie: its strides are 0, and they are thought to lie one behind the other. */
static bool has_word_strides(const mmci_group *chain, const mmci_sides_size *size) {
  if (chain->c_stride == 0) return true;
  bool all = is_word_stride(chain->dtype, chain->c_stride, size);
  for (int i = 0; i < chain->n; i++)
    all = all && is_word_stride(chain->dtype, chain->forms[i].stride, size);
  return all;
}

bool mmci_sides_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_sides *out) {
  const int64_t side = limits->hopper ? mmci_squares_side(chain) : 0;
  mmci_sides_size size;
  const int number = side > 0 ? find_size(limits, chain, side, &size) : -1;
  if (number < 0 || !has_word_strides(chain, &size)) return false;
  out->dtype = chain->dtype;
  out->size = (uint8_t)number;
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
