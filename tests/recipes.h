/* recipes.h: random recipes for tests. */
#ifndef MMC_TEST_RECIPES_H
#define MMC_TEST_RECIPES_H

#include "cost/recipe.h"
#include "random.h"

/* A part of at most pieces calls. */
static inline mmci_recipe random_part(uint64_t *state, const mmci_gemm *gemm, int pieces,
                                      int variants) {
  mmci_recipe whole = mmci_recipe_whole((int)random_below(state, variants + 1));
  mmci_axis axis = (mmci_axis)(MMCI_AXIS_M + random_below(state, 3));
  int64_t size = mmci_gemm_size(gemm, axis);
  if (pieces < 2 || size < 2) return whole;
  int64_t first = 1 + random_below(state, size - 1), sizes[2] = {first, size - first};
  int share = 1 + (int)random_below(state, pieces - 1);
  mmci_gemm parts[2] = {mmci_gemm_resized(gemm, axis, sizes[0]),
                        mmci_gemm_resized(gemm, axis, sizes[1])};
  mmci_recipe a = random_part(state, &parts[0], share, variants);
  mmci_recipe b = random_part(state, &parts[1], pieces - share, variants);
  mmci_recipe made = whole;
  mmci_recipe_split(axis, sizes, &a, &b, &made);
  return made;
}

/* With queues and, every fourth time, with pad. */
static inline mmci_recipe random_recipe(uint64_t *state, const mmci_gemm *gemm, int variants) {
  int pieces = 1 + (int)random_below(state, MMCI_RECIPE_PIECES);
  mmci_recipe recipe = random_part(state, gemm, pieces, variants);
  recipe.queues = 1 + (int)random_below(state, mmci_recipe_count(&recipe));
  if (random_below(state, 4) == 0) recipe.pad = 2 + (int)random_below(state, 8);
  char text[MMCI_RECIPE_TEXT_SIZE];
  if (!mmci_recipe_format(&recipe, NULL, text)) recipe.pad = 0, recipe.queues = 1;
  return recipe;
}

#endif
