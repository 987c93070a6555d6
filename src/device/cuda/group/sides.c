/* sides.c: lays chains out for sides.cu. */
#include "device/cuda/group/sides.h"

#include <stdint.h>

#include "device/cuda/group/group.h"

enum { VECTOR_BYTES = 16, WORD = VECTOR_BYTES / (int)sizeof(float), WARP = 32 };

#define CHAINS(side, lanes) ((side) % 2 == 1 ? 4 : (lanes) < WARP ? 2 : 1)
#define SIZE(side, height, width, piece, lanes, slots, units, first, terms) \
  {side, height, width, piece, lanes, slots, units, first, CHAINS(side, lanes)},
static const mmci_sides_size SIZES[] = {MMCI_SIDES(SIZE)};

bool mmci_sides_size_of(int i, mmci_sides_size *out) {
  if (i < 0 || i >= (int)(sizeof SIZES / sizeof *SIZES)) return false;
  *out = SIZES[i];
  return true;
}

static int find_size(int64_t side) {
  for (int i = 0; i < (int)(sizeof SIZES / sizeof *SIZES); i++)
    if (SIZES[i].side == side) return i;
  return -1;
}

/* Matrices of odd sides are copied four at once. */
static bool is_word_stride(int64_t stride, int64_t side) {
  return side % 2 == 1 ? stride == side * side : stride % WORD == 0;
}

bool mmci_sides_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_sides *out) {
  const int64_t side = limits->hopper && chain->batch > 1 ? mmci_squares_side(chain) : 0;
  const int size = side > 0 ? find_size(side) : -1;
  if (size < 0 || !is_word_stride(chain->c_stride, side)) return false;
  for (int i = 0; i < chain->n; i++)
    if (!is_word_stride(chain->forms[i].stride, side)) return false;
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
