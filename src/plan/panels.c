#include "plan/panels.h"

#include "order/workspace.h"

/* No edge is cut below so many elements, a GPU's tile. */
enum { SHORTEST = 64 };

uint64_t mmci_panels_bytes(const mmci_panels *p, size_t element_size) {
  uint64_t one = mmci_bytes_add(mmci_result_bytes(p->m, p->k, element_size),
                                mmci_bytes_add(mmci_result_bytes(p->k, p->n, element_size),
                                               mmci_result_bytes(p->m, p->n, element_size)));
  return mmci_bytes_add(one, one);
}

/* Returns half an edge, rounded up to whole tiles. */
static int64_t half(int64_t edge) {
  int64_t tiles = edge / 2 / SHORTEST + (edge / 2 % SHORTEST != 0);
  return tiles * SHORTEST;
}

static int64_t *longer_side(mmci_panels *p) {
  return p->m > p->n ? &p->m : &p->n;
}

static int64_t *longest_edge(mmci_panels *p) {
  int64_t *longest = &p->k;
  if (p->m / 2 > *longest) longest = &p->m;
  if (p->n > p->m && p->n / 2 > p->k) longest = &p->n;
  if (*longest <= SHORTEST) longest = longer_side(p);
  return *longest <= SHORTEST ? &p->k : longest;
}

bool mmci_panels_choose(int64_t m, int64_t k, int64_t n, size_t element_size, bool whole_k,
                        uint64_t budget_bytes, mmci_panels *out) {
  mmci_panels p = {.m = m, .k = k, .n = n};
  while (mmci_panels_bytes(&p, element_size) > budget_bytes) {
    int64_t *longest = whole_k ? longer_side(&p) : longest_edge(&p);
    if (*longest <= SHORTEST) {
      *out = p;
      return false;
    }
    *longest = half(*longest);
  }
  *out = p;
  return true;
}
