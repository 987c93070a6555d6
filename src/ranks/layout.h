/* layout.h: how a matrix lies on several ranks, and the words that changing it takes.
 *
 * A rank is whatever holds memory of its own: a process, a GPU. A layout cuts a matrix into a grid
 * of blocks and gives the r-th of its ranks the block (r / cols, r % cols) of the grid, or gives
 * every one of them the whole matrix. Its ranks are all of the plan's, or a part of them. Blocks
 * are as high and as wide as the matrix divided by the grid, rounded up, so the last ones may be
 * smaller or empty. How a piece lies in memory, row-major or column-major, is not the layout's: the
 * row blocks of a matrix are the column blocks of its transpose, and no word travels for it. */
#ifndef MMCI_RANKS_LAYOUT_H
#define MMCI_RANKS_LAYOUT_H

#include "base/wide.h"

typedef enum mmci_layout_kind {
  MMCI_ROWS, /* a block of rows a rank */
  MMCI_COLS, /* a block of columns a rank */
  MMCI_GRID, /* a block of a grid that has several rows and several columns */
  MMCI_WHOLE /* every rank has all */
} mmci_layout_kind;

typedef struct mmci_layout {
  mmci_layout_kind kind;
  int32_t grid_rows, grid_cols; /* blocks along the rows and along the columns; 1 x 1 for whole */
  int32_t ranks, first;         /* ranks first to first+ranks-1 hold pieces */
} mmci_layout;

/* Rows row to row+rows-1 and columns col to col+cols-1 of a matrix. */
typedef struct mmci_piece {
  int64_t row, col, rows, cols;
} mmci_piece;

static inline mmci_layout mmci_layout_rows(int32_t ranks) {
  return (mmci_layout){MMCI_ROWS, ranks, 1, ranks, 0};
}
static inline mmci_layout mmci_layout_cols(int32_t ranks) {
  return (mmci_layout){MMCI_COLS, 1, ranks, ranks, 0};
}
static inline mmci_layout mmci_layout_grid(int32_t grid_rows, int32_t grid_cols) {
  return (mmci_layout){MMCI_GRID, grid_rows, grid_cols, grid_rows * grid_cols, 0};
}
static inline mmci_layout mmci_layout_whole(int32_t ranks) {
  return (mmci_layout){MMCI_WHOLE, 1, 1, ranks, 0};
}
/* Returns the layout on ranks that come so many later. */
static inline mmci_layout mmci_layout_later(mmci_layout layout, int32_t ranks) {
  layout.first += ranks;
  return layout;
}

bool mmci_layout_same(const mmci_layout *a, const mmci_layout *b);

/* Writes "rows", "columns", "grid 2x2" or "whole" to text, and returns it. */
enum { MMCI_LAYOUT_TEXT_SIZE = 40 };
char *mmci_layout_text(const mmci_layout *layout, char text[MMCI_LAYOUT_TEXT_SIZE]);

/* Returns the height of a block of size rows (or the width of one of columns) cut into parts: size
 * / parts rounded up, and at least 1. */
int64_t mmci_layout_block(int64_t size, int32_t parts);

/* Returns what rank has of a rows x cols matrix; an empty piece for ranks that have nothing. */
mmci_piece mmci_layout_piece(const mmci_layout *layout, int64_t rows, int64_t cols, int32_t rank);
/* Returns what two pieces share. */
mmci_piece mmci_piece_common(const mmci_piece *a, const mmci_piece *b);
static inline mmci_u128 mmci_piece_words(const mmci_piece *piece) {
  return (mmci_u128)(uint64_t)piece->rows * (uint64_t)piece->cols;
}

/* Returns the piece that rank `to` gets from rank `from` when a matrix changes its layout: of what
 * `to` lacks, each element comes from one rank, the first that has it but for matrices that are
 * whole, which nobody has to ask for. It is empty where nothing is sent. */
mmci_piece mmci_layout_sent(const mmci_layout *before, const mmci_layout *after, int64_t rows,
                            int64_t cols, int32_t from, int32_t to);

/* Returns the words that all ranks send together to change the layout of a rows x cols matrix. */
mmci_u128 mmci_layout_change_words(const mmci_layout *before, const mmci_layout *after,
                                   int64_t rows, int64_t cols);
/* Estimates, from three ranks, the most words that one rank sends or receives in that, and writes
 * to *messages, unless NULL, how many messages that takes. */
mmci_u128 mmci_layout_change_most(const mmci_layout *before, const mmci_layout *after, int64_t rows,
                                  int64_t cols, int64_t *messages);

#endif
