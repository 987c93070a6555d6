/* algorithms.c: the ways in which ranks multiply two matrices, by counting. */
#include "ranks/algorithms.h"

const char *mmci_algorithm_name(mmci_algorithm algorithm) {
  static const char *const names[] = {"row", "column", "inner", "grid", "all"};
  return names[algorithm];
}

/* Writes the grids of several rows and columns, those nearest to a square, and returns how many. */
static int grids(int32_t ranks, mmci_layout out[MMCI_GRIDS]) {
  int count = 0;
  int32_t rows = 1;
  while ((int64_t)(rows + 1) * (rows + 1) <= ranks) rows++;
  for (; rows > 1 && count < MMCI_GRIDS; rows--) {
    if (ranks % rows != 0) continue;
    out[count++] = mmci_layout_grid(rows, ranks / rows);
    if (rows != ranks / rows && count < MMCI_GRIDS)
      out[count++] = mmci_layout_grid(ranks / rows, rows);
  }
  return count;
}

int mmci_layouts(int32_t ranks, mmci_layout layouts[MMCI_LAYOUTS]) {
  layouts[0] = mmci_layout_rows(ranks);
  if (ranks == 1) return 1;
  layouts[1] = mmci_layout_cols(ranks);
  layouts[2] = mmci_layout_whole(ranks);
  return 3 + grids(ranks, layouts + 3);
}

int mmci_ways(int32_t ranks, mmci_way ways[MMCI_WAYS]) {
  const mmci_layout rows = mmci_layout_rows(ranks), cols = mmci_layout_cols(ranks);
  const mmci_layout whole = mmci_layout_whole(ranks);
  mmci_layout grid[MMCI_GRIDS];
  int count = 0;
  if (ranks == 1) {
    ways[0] = (mmci_way){MMCI_BY_ROW, rows, rows, rows};
    return 1;
  }
  ways[count++] = (mmci_way){MMCI_BY_ROW, rows, whole, rows};
  ways[count++] = (mmci_way){MMCI_BY_COLUMN, whole, cols, cols};
  ways[count++] = (mmci_way){MMCI_BY_ALL, whole, whole, whole};
  ways[count++] = (mmci_way){MMCI_BY_INNER, cols, rows, rows};
  ways[count++] = (mmci_way){MMCI_BY_INNER, cols, rows, cols};
  const int grid_count = grids(ranks, grid);
  for (int g = 0; g < grid_count; g++) {
    ways[count++] = (mmci_way){MMCI_BY_GRID, grid[g], grid[g], grid[g]};
    ways[count++] = (mmci_way){MMCI_BY_INNER, cols, rows, grid[g]};
  }
  return count;
}

/* Returns how many of so many parts are not empty. */
static int32_t filled(int64_t size, int32_t parts) {
  if (size == 0) return 0;
  return (int32_t)((size - 1) / mmci_layout_block(size, parts)) + 1;
}

static int64_t block(int64_t size, int32_t parts) {
  return size == 0 ? 0 : mmci_layout_block(size, parts);
}

mmci_u128 mmci_way_words(const mmci_way *way, int64_t m, int64_t k, int64_t n) {
  const mmci_layout *grid = &way->result;
  mmci_u128 words = 0;
  switch (way->algorithm) {
    case MMCI_BY_INNER:
      /* Every rank that has a part of k sends its partial product but for its own piece. */
      for (int32_t r = 0; r < filled(k, way->left.ranks); r++) {
        const mmci_piece own = mmci_layout_piece(&way->result, m, n, way->result.first + r);
        words = mmci_u128_add(words, (mmci_u128)(uint64_t)m * (uint64_t)n - mmci_piece_words(&own));
      }
      return words;
    case MMCI_BY_GRID:
      /* A goes along the rows of the grid to ranks that have part of C, B along its columns. */
      if (m == 0 || n == 0 || k == 0) return 0;
      words = mmci_u128_mul((mmci_u128)(uint64_t)m * (uint64_t)k, (uint64_t)(grid->grid_cols - 1));
      return mmci_u128_add(words, mmci_u128_mul((mmci_u128)(uint64_t)k * (uint64_t)n,
                                                (uint64_t)(grid->grid_rows - 1)));
    default:
      return 0;
  }
}

mmci_u128 mmci_way_multiplications(const mmci_way *way, int64_t m, int64_t k, int64_t n) {
  const mmci_layout *result = &way->result;
  switch (way->algorithm) {
    case MMCI_BY_INNER:
      return mmci_multiplications(m, block(k, way->left.ranks), n);
    case MMCI_BY_ALL:
      return mmci_multiplications(m, k, n);
    default:
      return mmci_multiplications(block(m, result->grid_rows), k, block(n, result->grid_cols));
  }
}

mmci_u128 mmci_way_total(const mmci_way *way, int64_t m, int64_t k, int64_t n) {
  const mmci_u128 once = mmci_multiplications(m, k, n);
  return way->algorithm == MMCI_BY_ALL ? mmci_u128_mul(once, (uint64_t)way->result.ranks) : once;
}

int64_t mmci_way_messages(const mmci_way *way, int64_t m, int64_t k, int64_t n) {
  if (m == 0 || k == 0 || n == 0) return 0;
  if (way->algorithm == MMCI_BY_INNER) return way->left.ranks - 1;
  if (way->algorithm == MMCI_BY_GRID) return way->result.grid_rows + way->result.grid_cols - 2;
  return 0;
}

mmci_u128 mmci_way_buffer_words(const mmci_way *way, int64_t m, int64_t k, int64_t n) {
  const mmci_layout *result = &way->result;
  if (way->algorithm == MMCI_BY_INNER) /* the partial product, and pieces that arrive */
    return mmci_u128_add(
        (mmci_u128)(uint64_t)m * (uint64_t)n,
        (mmci_u128)(uint64_t)block(m, result->grid_rows) * (uint64_t)block(n, result->grid_cols));
  if (way->algorithm == MMCI_BY_GRID) /* a row of blocks of A and a column of blocks of B */
    return mmci_u128_add((mmci_u128)(uint64_t)block(m, result->grid_rows) * (uint64_t)k,
                         (mmci_u128)(uint64_t)k * (uint64_t)block(n, result->grid_cols));
  return 0;
}

mmci_u128 mmci_way_held_words(const mmci_way *way, int64_t m, int64_t k, int64_t n) {
  const mmci_layout *result = &way->result;
  const mmci_u128 rows = (uint64_t)block(m, result->grid_rows);
  const mmci_u128 cols = (uint64_t)block(n, result->grid_cols);
  if (way->algorithm == MMCI_BY_INNER) /* a piece is packed, and one arrives */
    return mmci_u128_add((mmci_u128)(uint64_t)m * (uint64_t)n, 2 * rows * cols);
  if (way->algorithm != MMCI_BY_GRID) return 0;
  /* All that makes up a row of blocks of A is there twice for a while, then all of B's column. */
  const mmci_u128 a = rows * (uint64_t)k, b = cols * (uint64_t)k;
  return mmci_u128_add(a, a > mmci_u128_add(b, b) ? a : mmci_u128_add(b, b));
}
