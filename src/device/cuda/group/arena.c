#include "device/cuda/group/arena.h"

#include "device/cuda/group/group.h"

bool mmci_arena_is_small(const mmci_group *chain) {
  const int64_t side = mmci_precision_is_reproducible(chain->precision) && chain->count == 1
                           ? MMCI_GROUP_ALONE_SIDE
                           : MMCI_GROUP_SIDE;
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *x = &chain->products[s];
    if (x->m > side || x->k > side || x->n > side) return false;
  }
  return true;
}

bool mmci_arena_takes(const mmci_group *chain, int most) {
  return chain->count >= 1 && chain->count <= most && chain->n <= most + 1 &&
         mmci_arena_is_small(chain);
}

void mmci_arena_find_lives(const mmci_group *chain, mmci_hurry when, mmci_place *places) {
  for (int i = 0; i < chain->n + chain->count; i++)
    places[i] = (mmci_place){.first = i < chain->n ? chain->count : i - chain->n,
                             .last = i < chain->n ? -1 : i - chain->n};
  for (int s = 0; s < chain->count; s++) {
    const mmci_group_product *step = &chain->products[s];
    mmci_place *left = &places[step->left], *right = &places[step->right],
               *result = &places[chain->n + s];
    left->rows = step->m;
    left->cols = right->rows = step->k;
    right->cols = result->cols = step->n;
    result->rows = step->m;
    mmci_place *both[] = {left, right};
    for (int t = 0; t < 2; t++) {
      both[t]->last = s;
      if (both[t] < places + chain->n && both[t]->first == chain->count)
        both[t]->first = when == MMCI_EAGER ? -1 : when == MMCI_AHEAD ? s - 1 : s;
    }
  }
}

static bool meet(const mmci_place *a, const mmci_place *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* Places matrix i, when those before it have their places. */
static void find_place(mmci_place *places, int i) {
  mmci_place *p = &places[i];
  p->at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int j = 0; j < i; j++) {
      const mmci_place *other = &places[j];
      if (other->size == 0 || !meet(p, other) || p->at + p->size <= other->at ||
          other->at + other->size <= p->at)
        continue;
      p->at = other->at + other->size;
      moved = true;
    }
  }
}

uint32_t mmci_arena_lay_out(int count, mmci_place *places) {
  uint32_t size = 0;
  for (int i = 0; i < count; i++) {
    find_place(places, i);
    if (places[i].at + places[i].size > size) size = places[i].at + places[i].size;
  }
  return size;
}
