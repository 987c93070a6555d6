/* panels.c: lays chains out for panels.cu. */
#include <stdint.h>

#include "device/cuda/group/group.h"
#include "device/cuda/group/sides.h"

enum { LEAST_SIDE = 65, LEAST_ODD_SIDE = 49 };

#define SIZE(tile, down, units, ahead) {tile, down, units},
static const mmci_panels_size SIZES[] = {MMCI_ROWS(MMCI_PANELS_F32, SIZE)};
enum { COUNT = sizeof SIZES / sizeof *SIZES };

bool mmci_panels_size_of(int i, mmci_panels_size *out) {
  if (i < 0 || i >= COUNT) return false;
  *out = SIZES[i];
  return true;
}

bool mmci_panels_plan(const mmci_group_limits *limits, const mmci_group *chain, int i,
                      mmci_panels *out) {
  mmci_panels_size size;
  if (!limits->hopper || chain->dtype != MMC_F32 || !mmci_panels_size_of(i, &size)) return false;
  const int64_t side = chain->products[0].m, least = side % 2 == 1 ? LEAST_ODD_SIDE : LEAST_SIDE;
  if (side < least || side > size.tile * size.down || side <= (size.tile - 1) * size.down ||
      mmci_squares_side(chain) == 0)
    return false;
  out->side = (int32_t)side;
  out->size = (uint8_t)i;
  mmci_squares_fill(chain, &out->squares);
  return true;
}

void mmci_panels_bind(mmci_panels *panels, const void *const *operands, void *c) {
  for (int i = 0; i < panels->squares.n; i++) panels->squares.data[i] = operands[i];
  panels->squares.c = c;
}
