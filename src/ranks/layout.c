/* layout.c: pieces of a matrix on several ranks, and what changing them sends. */
#include "ranks/layout.h"

#include <stdio.h>

#include "base/sizes.h"

bool mmci_layout_same(const mmci_layout *a, const mmci_layout *b) {
  return a->kind == b->kind && a->grid_rows == b->grid_rows && a->grid_cols == b->grid_cols &&
         a->ranks == b->ranks && a->first == b->first;
}

char *mmci_layout_text(const mmci_layout *layout, char text[MMCI_LAYOUT_TEXT_SIZE]) {
  static const char *const names[] = {"rows", "columns", "grid", "whole"};
  if (layout->kind == MMCI_GRID)
    snprintf(text, MMCI_LAYOUT_TEXT_SIZE, "grid %dx%d", (int)layout->grid_rows,
             (int)layout->grid_cols);
  else
    snprintf(text, MMCI_LAYOUT_TEXT_SIZE, "%s", names[layout->kind]);
  return text;
}

int64_t mmci_layout_block(int64_t size, int32_t parts) {
  int64_t block = size / parts + (size % parts != 0);
  return block > 0 ? block : 1;
}

/* Cuts size into parts, and writes where part number i begins and how long it is. */
static void cut(int64_t size, int32_t parts, int32_t i, int64_t *first, int64_t *count) {
  const int64_t block = mmci_layout_block(size, parts);
  /* The first part past the end may begin beyond 64 bits, so it is not computed. */
  if (i > (size - 1) / block || size == 0) {
    *first = size;
    *count = 0;
    return;
  }
  *first = i * block;
  *count = size - *first < block ? size - *first : block;
}

mmci_piece mmci_layout_piece(const mmci_layout *layout, int64_t rows, int64_t cols, int32_t rank) {
  mmci_piece piece = {0};
  const int32_t number = rank - layout->first;
  if (number < 0 || number >= layout->ranks) return piece;
  if (layout->kind == MMCI_WHOLE) return (mmci_piece){.rows = rows, .cols = cols};
  cut(rows, layout->grid_rows, number / layout->grid_cols, &piece.row, &piece.rows);
  cut(cols, layout->grid_cols, number % layout->grid_cols, &piece.col, &piece.cols);
  if (piece.rows == 0 || piece.cols == 0) piece = (mmci_piece){0};
  return piece;
}

mmci_piece mmci_piece_common(const mmci_piece *a, const mmci_piece *b) {
  const int64_t row = mmci_larger(a->row, b->row), col = mmci_larger(a->col, b->col);
  const int64_t rows = mmci_smaller(a->row + a->rows, b->row + b->rows) - row;
  const int64_t cols = mmci_smaller(a->col + a->cols, b->col + b->cols) - col;
  if (rows <= 0 || cols <= 0) return (mmci_piece){0};
  return (mmci_piece){row, col, rows, cols};
}

mmci_piece mmci_layout_sent(const mmci_layout *before, const mmci_layout *after, int64_t rows,
                            int64_t cols, int32_t from, int32_t to) {
  /* Of a matrix that is whole, its first rank serves those that have none of it. */
  const bool is_whole = before->kind == MMCI_WHOLE;
  const bool has_all = to >= before->first && to < before->first + before->ranks;
  if (from == to || (is_whole && (from != before->first || has_all))) return (mmci_piece){0};
  const mmci_piece has = mmci_layout_piece(before, rows, cols, from);
  const mmci_piece wants = mmci_layout_piece(after, rows, cols, to);
  return mmci_piece_common(&has, &wants);
}

mmci_u128 mmci_layout_change_words(const mmci_layout *before, const mmci_layout *after,
                                   int64_t rows, int64_t cols) {
  mmci_u128 words = 0;
  for (int32_t r = after->first; r < after->first + after->ranks; r++) {
    const mmci_piece has = mmci_layout_piece(before, rows, cols, r);
    const mmci_piece wants = mmci_layout_piece(after, rows, cols, r);
    const mmci_piece common = mmci_piece_common(&has, &wants);
    words = mmci_u128_add(words, mmci_piece_words(&wants) - mmci_piece_words(&common));
  }
  return words;
}

mmci_u128 mmci_layout_change_most(const mmci_layout *before, const mmci_layout *after, int64_t rows,
                                  int64_t cols, int64_t *messages) {
  const int32_t ranks = before->ranks > after->ranks ? before->ranks : after->ranks;
  const int32_t first = before->first < after->first ? before->first : after->first;
  mmci_u128 most = 0;
  int64_t most_messages = 0;
  if (!mmci_layout_same(before, after)) {
    const int32_t some[] = {first, first + 1, first + ranks / 2};
    for (int i = 0; i < 3; i++) {
      const mmci_piece has = mmci_layout_piece(before, rows, cols, some[i]);
      const mmci_piece wants = mmci_layout_piece(after, rows, cols, some[i]);
      const mmci_piece common = mmci_piece_common(&has, &wants);
      const mmci_u128 gets = mmci_piece_words(&wants) - mmci_piece_words(&common);
      mmci_u128 gives = mmci_piece_words(&has) - mmci_piece_words(&common);
      if (after->kind == MMCI_WHOLE)
        gives = mmci_u128_mul(mmci_piece_words(&has), (uint64_t)(after->ranks - 1));
      if (before->kind == MMCI_WHOLE) gives = 0;
      if (gets > most) most = gets;
      if (gives > most) most = gives;
    }
    if (before->kind == MMCI_WHOLE && after->ranks > before->ranks)
      most = mmci_layout_change_words(before, after, rows, cols);
    most_messages = most > 0 ? ranks - 1 : 0;
  }
  if (messages != NULL) *messages = most_messages;
  return most;
}
