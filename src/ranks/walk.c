/* walk.c: one step after the other: operands change their layouts, ranks multiply what they have,
 * and sums of partial products go to those who keep them. */
#include "ranks/walk.h"

#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "ranks/agree.h"

/* A block of a matrix in this rank's memory: element (r, c) of the whole matrix, of piece, is at
 * data + (r * row_step + c * col_step) * size after first was subtracted. */
typedef struct view {
  const char *data; /* element (row, col) */
  int64_t row, col;
  int64_t row_step, col_step;
  bool conjugated;
} view;

/* A result, or an operand in the layout that a step takes it in. */
typedef struct block {
  char *data; /* owned; row-major without gaps; NULL when empty */
  mmci_piece piece;
} block;

typedef struct walker {
  const mmci_walk *walk;
  int32_t rank, count;
  mmc_dtype dtype;
  size_t size; /* bytes of an element */
  block *results;
  int64_t *last_read;
  /* A rehearsal takes and gives all memory of a run, and does nothing that other ranks would have
   * to do as well: one that failed would be waited for. After one that went well on all ranks
   * nothing can fail on one alone, and ranks need not agree any more, unless products need memory
   * of their own, as reproducible ones do. */
  bool rehearses, agrees;
  char *out; /* the caller's memory, where the piece may be written directly; else NULL */
} walker;

/* ---- memory ---------------------------------------------------------------------------------- */

enum { POOLED = 256 };

/* Blocks that are in use, or were. */
struct mmci_pool {
  bool keeps; /* false: blocks are released at once */
  int count;
  struct {
    void *bytes;
    size_t size;
    bool is_used;
  } blocks[POOLED];
};

mmci_pool *mmci_pool_create(bool keeps) {
  mmci_pool *pool = mmci_alloc_zeroed(1, sizeof *pool);
  if (pool != NULL) pool->keeps = keeps;
  return pool;
}

void mmci_pool_destroy(mmci_pool *pool) {
  if (pool == NULL) return;
  for (int b = 0; b < pool->count; b++) free(pool->blocks[b].bytes);
  free(pool);
}

/* Returns a block of at least size bytes: the smallest that is free and no larger than twice that,
 * else a new one. NULL when memory is short. */
static void *take_bytes(mmci_pool *pool, size_t size) {
  int best = -1;
  for (int b = 0; b < pool->count; b++) {
    const size_t has = pool->blocks[b].size;
    if (pool->blocks[b].is_used || has < size || has / 2 > size) continue;
    if (best < 0 || has < pool->blocks[best].size) best = b;
  }
  if (best >= 0) {
    pool->blocks[best].is_used = true;
    return pool->blocks[best].bytes;
  }
  /* A block that nobody uses makes room for the new one. */
  int at = pool->count;
  for (int b = 0; b < pool->count && at == POOLED; b++)
    if (!pool->blocks[b].is_used) at = b;
  void *bytes = mmci_alloc_aligned(size, 1);
  if (bytes == NULL || at == POOLED || !pool->keeps) return bytes;
  if (at < pool->count)
    free(pool->blocks[at].bytes);
  else
    pool->count++;
  pool->blocks[at].bytes = bytes;
  pool->blocks[at].size = size;
  pool->blocks[at].is_used = true;
  return bytes;
}

static void give_bytes(mmci_pool *pool, void *bytes) {
  if (bytes == NULL) return;
  for (int b = 0; b < pool->count; b++)
    if (pool->blocks[b].bytes == bytes) {
      pool->blocks[b].is_used = false;
      return;
    }
  free(bytes);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void conjugate(mmc_dtype dtype, void *data, int64_t count) {
  if (dtype == MMC_C64)
    for (int64_t e = 0; e < count; e++) ((float *)data)[2 * e + 1] = -((float *)data)[2 * e + 1];
  else if (dtype == MMC_C128)
    for (int64_t e = 0; e < count; e++) ((double *)data)[2 * e + 1] = -((double *)data)[2 * e + 1];
}

/* Copies a row of elements that lie step elements apart. */
static void gather_row(char *to, const char *from, int64_t count, int64_t step, size_t size) {
  if (step == 1) {
    memcpy(to, from, (size_t)count * size);
    return;
  }
  const size_t stride = (size_t)step * size;
  switch (size) {
    case 4:
      for (int64_t e = 0; e < count; e++) memcpy(to + 4 * e, from + (size_t)e * stride, 4);
      break;
    case 8:
      for (int64_t e = 0; e < count; e++) memcpy(to + 8 * e, from + (size_t)e * stride, 8);
      break;
    default:
      for (int64_t e = 0; e < count; e++)
        memcpy(to + (size_t)e * size, from + (size_t)e * stride, size);
  }
}

/* Copies a piece out of a view into a row-major array of leading dimension ld. Where the columns of
 * the view lie together it goes by tiles, so that lines of the cache are used whole. */
static void copy_out(const walker *w, const view *from, const mmci_piece *piece, char *to,
                     int64_t ld) {
  enum { TILE = 64 };
  const size_t size = w->size;
  const int64_t wide = from->col_step == 1 ? piece->cols : TILE;
  const int64_t high = from->col_step == 1 ? piece->rows : TILE;
  if (piece->rows == 0 || piece->cols == 0 || w->rehearses) return;
  for (int64_t r0 = 0; r0 < piece->rows; r0 += high) {
    for (int64_t c0 = 0; c0 < piece->cols; c0 += wide) {
      const int64_t rows = piece->rows - r0 < high ? piece->rows - r0 : high;
      const int64_t cols = piece->cols - c0 < wide ? piece->cols - c0 : wide;
      for (int64_t r = r0; r < r0 + rows; r++) {
        const int64_t at = (piece->row + r - from->row) * from->row_step +
                           (piece->col + c0 - from->col) * from->col_step;
        char *row = to + (size_t)(r * ld + c0) * size;
        gather_row(row, from->data + at * (int64_t)size, cols, from->col_step, size);
        if (from->conjugated) conjugate(w->dtype, row, cols);
      }
    }
  }
}

static view view_of_block(const block *b) {
  return (view){b->data, b->piece.row, b->piece.col, b->piece.cols, 1, false};
}

/* Returns how this rank sees an operand in the layout that it has. */
static view view_of_operand(const walker *w, int64_t operand, const mmci_layout *layout,
                            int64_t rows, int64_t cols) {
  const mmci_walk *walk = w->walk;
  if (operand >= walk->problem->factor_count)
    return view_of_block(&w->results[operand - walk->problem->factor_count]);
  const mmci_source *source = &walk->sources[operand];
  view v = {source->data, 0, 0, source->row_step, source->col_step, source->conjugated};
  if (!source->whole) {
    const mmci_piece piece = mmci_layout_piece(layout, rows, cols, w->rank);
    v.row = piece.row;
    v.col = piece.col;
  }
  return v;
}

static size_t piece_bytes(const walker *w, const mmci_piece *piece) {
  return (size_t)piece->rows * (size_t)piece->cols * w->size;
}

static mmc_status make_block(const walker *w, const mmci_piece *piece, block *out,
                             mmci_error *error) {
  const mmci_u128 bytes = mmci_u128_mul(mmci_piece_words(piece), w->size);
  *out = (block){.piece = *piece};
  if (piece->rows == 0 || piece->cols == 0) return MMC_OK;
  if (bytes <= SIZE_MAX / 2) out->data = take_bytes(w->walk->pool, (size_t)bytes);
  if (out->data == NULL)
    return mmci_fail_nomem(error, bytes > UINT64_MAX ? UINT64_MAX : (uint64_t)bytes);
  return MMC_OK;
}

static mmc_status agree(const walker *w, mmc_status status, mmci_error *error) {
  if (!w->agrees) return status;
  return mmci_team_agree(w->walk->ops, w->walk->team, status, error);
}

static mmc_status exchange(const walker *w, const mmci_message *sends, int32_t send_count,
                           const mmci_message *receives, int32_t receive_count, mmci_error *error) {
  if (w->rehearses) return MMC_OK;
  return w->walk->ops->exchange(w->walk->team, sends, send_count, receives, receive_count, error);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* The messages of a change: what is sent lies in buffers of its own. */
typedef struct traffic {
  mmci_message *sends, *receives;
  mmci_piece *pieces; /* what every rank sends to this one */
  int32_t send_count, receive_count;
  char **buffers; /* owned: count sent, then count received */
} traffic;

static void free_traffic(const walker *w, traffic *t) {
  for (int32_t i = 0; t->buffers != NULL && i < 2 * w->count; i++)
    give_bytes(w->walk->pool, t->buffers[i]);
  give_bytes(w->walk->pool, t->buffers);
  give_bytes(w->walk->pool, t->sends);
  give_bytes(w->walk->pool, t->receives);
  give_bytes(w->walk->pool, t->pieces);
}

/* Returns count zeroed elements of the pool. */
static void *take_zeroed(mmci_pool *pool, size_t count, size_t size) {
  void *bytes = take_bytes(pool, count * size);
  if (bytes != NULL) memset(bytes, 0, count * size);
  return bytes;
}

static mmc_status make_traffic(const walker *w, traffic *t, mmci_error *error) {
  const size_t count = (size_t)w->count;
  mmci_pool *pool = w->walk->pool;
  *t = (traffic){.sends = take_zeroed(pool, count, sizeof *t->sends),
                 .receives = take_zeroed(pool, count, sizeof *t->receives),
                 .pieces = take_zeroed(pool, count, sizeof *t->pieces),
                 .buffers = take_zeroed(pool, 2 * count, sizeof *t->buffers)};
  if (t->sends != NULL && t->receives != NULL && t->pieces != NULL && t->buffers != NULL)
    return MMC_OK;
  return mmci_fail_nomem(error, count * (sizeof *t->sends * 3));
}

/* Packs what goes to each rank. Where all ranks get the same it is packed once. */
static mmc_status pack(const walker *w, traffic *t, const view *from, const mmci_layout *before,
                       const mmci_layout *after, int64_t rows, int64_t cols, mmci_error *error) {
  char *shared = NULL;
  for (int32_t i = 1; i < w->count; i++) {
    const int32_t to = (w->rank + i) % w->count;
    const mmci_piece piece = mmci_layout_sent(before, after, rows, cols, w->rank, to);
    if (piece.rows == 0) continue;
    char *bytes = after->kind == MMCI_WHOLE ? shared : NULL;
    if (bytes == NULL) {
      bytes = take_bytes(w->walk->pool, piece_bytes(w, &piece));
      if (bytes == NULL) return mmci_fail_nomem(error, piece_bytes(w, &piece));
      t->buffers[to] = bytes;
      copy_out(w, from, &piece, bytes, piece.cols);
      if (after->kind == MMCI_WHOLE) shared = bytes;
    }
    t->sends[t->send_count++] = (mmci_message){bytes, piece_bytes(w, &piece), to};
  }
  return MMC_OK;
}

/* Says where what a rank sends comes to: to its place in the block, or to a buffer. */
static mmc_status expect_from_all(const walker *w, traffic *t, const mmci_layout *before,
                                  const mmci_layout *after, int64_t rows, int64_t cols,
                                  const block *to, mmci_error *error) {
  for (int32_t i = 1; i < w->count; i++) {
    const int32_t from = (w->rank + w->count - i) % w->count;
    const mmci_piece piece = mmci_layout_sent(before, after, rows, cols, from, w->rank);
    if (piece.rows == 0) continue;
    char *bytes = to->data + (size_t)((piece.row - to->piece.row) * to->piece.cols) * w->size;
    if (piece.cols != to->piece.cols) {
      bytes = t->buffers[w->count + from] = take_bytes(w->walk->pool, piece_bytes(w, &piece));
      if (bytes == NULL) return mmci_fail_nomem(error, piece_bytes(w, &piece));
    }
    t->pieces[t->receive_count] = piece;
    t->receives[t->receive_count++] = (mmci_message){bytes, piece_bytes(w, &piece), from};
  }
  return MMC_OK;
}

static char *place_in(const walker *w, const block *to, const mmci_piece *piece) {
  return to->data +
         (size_t)((piece->row - to->piece.row) * to->piece.cols + piece->col - to->piece.col) *
             w->size;
}

/* Changes the layout of a matrix: makes the block that this rank has of it afterwards, unless out
 * has memory for it. */
static mmc_status change(const walker *w, const view *from, const mmci_layout *before,
                         const mmci_layout *after, int64_t rows, int64_t cols, block *out,
                         mmci_error *error) {
  const mmci_piece wants = mmci_layout_piece(after, rows, cols, w->rank);
  const mmci_piece has = mmci_layout_piece(before, rows, cols, w->rank);
  const mmci_piece kept = mmci_piece_common(&has, &wants);
  traffic t = {0};
  mmc_status status = out->data == NULL ? make_block(w, &wants, out, error) : MMC_OK;
  if (status == MMC_OK) status = make_traffic(w, &t, error);
  if (status == MMC_OK) status = pack(w, &t, from, before, after, rows, cols, error);
  if (status == MMC_OK) status = expect_from_all(w, &t, before, after, rows, cols, out, error);
  status = agree(w, status, error);
  if (status == MMC_OK && kept.rows > 0)
    copy_out(w, from, &kept, place_in(w, out, &kept), wants.cols);
  if (status == MMC_OK)
    status = exchange(w, t.sends, t.send_count, t.receives, t.receive_count, error);
  for (int32_t i = 0; status == MMC_OK && i < t.receive_count; i++) {
    const mmci_piece *piece = &t.pieces[i];
    if (piece->cols == out->piece.cols) continue;
    const view arrived = {t.receives[i].bytes, piece->row, piece->col, piece->cols, 1, false};
    copy_out(w, &arrived, piece, place_in(w, out, piece), out->piece.cols);
  }
  free_traffic(w, &t);
  return status;
}

/* ---- operands -------------------------------------------------------------------------------- */

/* An operand as a step multiplies it. */
typedef struct operand {
  mmci_local local;
  block made; /* what was made for the step, and is freed with it */
} operand;

/* Gets an operand ready: changes its layout, or copies this rank's piece where it cannot be read as
 * it lies. A step that needs it row-major says so. */
static mmc_status take_operand(const walker *w, int64_t number, const mmci_layout *before,
                               const mmci_layout *after, int64_t rows, int64_t cols,
                               bool must_be_rows, operand *out, mmci_error *error) {
  const view v = view_of_operand(w, number, before, rows, cols);
  const mmci_piece piece = mmci_layout_piece(after, rows, cols, w->rank);
  *out = (operand){.made = {.data = NULL}};
  if (!mmci_layout_same(before, after)) {
    mmc_status status = change(w, &v, before, after, rows, cols, &out->made, error);
    out->local = (mmci_local){out->made.data, piece.cols, false};
    return status;
  }
  const bool is_rows = v.col_step == 1 && v.row_step >= piece.cols;
  const bool is_cols = v.row_step == 1 && v.col_step >= piece.rows && !must_be_rows;
  if (piece.rows > 0 && !v.conjugated && (is_rows || is_cols)) {
    const int64_t at = (piece.row - v.row) * v.row_step + (piece.col - v.col) * v.col_step;
    out->local =
        (mmci_local){v.data + at * (int64_t)w->size, is_rows ? v.row_step : v.col_step, !is_rows};
    return MMC_OK;
  }
  mmc_status status = make_block(w, &piece, &out->made, error);
  if (status == MMC_OK) copy_out(w, &v, &piece, out->made.data, piece.cols);
  out->local = (mmci_local){out->made.data, piece.cols, false};
  return status;
}

/* ---- products -------------------------------------------------------------------------------- */

/* Returns how sums of a product are defined, whatever pieces ranks have of it. */
static mmci_sums sums_of(const walker *w, mmci_precision precision, const mmci_ranks_product *x) {
  mmci_gemm gemm = {.dtype = w->dtype, .precision = precision, .m = x->m, .k = x->k, .n = x->n};
  mmci_gemm_choose_sums(&gemm);
  return gemm.sums;
}

/* Multiplies what this rank has of the product x; with nothing to add, the result is zeros. */
static mmc_status multiply_here(const walker *w, const mmci_ranks_product *x, int64_t m, int64_t k,
                                int64_t n, const mmci_local *a, const mmci_local *b, void *c,
                                mmci_error *error) {
  if (m == 0 || n == 0 || w->rehearses) return MMC_OK;
  if (k == 0) {
    memset(c, 0, (size_t)m * (size_t)n * w->size);
    return MMC_OK;
  }
  const mmci_ranks_problem *p = w->walk->problem;
  /* What the device holds besides is not counted, so it is left alone under a limit. */
  const mmci_precision precision = p->reproducible ? MMCI_REPRODUCIBLE : MMCI_NATIVE;
  const mmci_how how = {w->dtype, precision, p->rates.replaces && w->walk->pool->keeps,
                        sums_of(w, precision, x)};
  return mmci_products_multiply(w->walk->products, &how, m, k, n, a, b, c, error);
}

static void add_to(mmc_dtype dtype, void *sum, const void *part, int64_t count) {
  const bool is_complex = dtype == MMC_C64 || dtype == MMC_C128;
  const int64_t reals = is_complex ? 2 * count : count;
  if (dtype == MMC_F32 || dtype == MMC_C64)
    for (int64_t e = 0; e < reals; e++) ((float *)sum)[e] += ((const float *)part)[e];
  else
    for (int64_t e = 0; e < reals; e++) ((double *)sum)[e] += ((const double *)part)[e];
}

/* Adds up partial products, each rank those of its piece: in every round each rank sends to one and
 * receives from one. */
static mmc_status reduce(const walker *w, const block *partial, bool has_part,
                         const mmci_layout *left, const mmci_layout *after, int64_t m, int64_t k,
                         int64_t n, const block *out, char *packed, char *arrived,
                         mmci_error *error) {
  const view v = view_of_block(partial);
  if (has_part && out->piece.rows > 0) copy_out(w, &v, &out->piece, out->data, out->piece.cols);
  if (!has_part && out->data != NULL && !w->rehearses)
    memset(out->data, 0, piece_bytes(w, &out->piece));
  mmc_status status = MMC_OK;
  for (int32_t i = 1; status == MMC_OK && i < w->count; i++) {
    const int32_t to = (w->rank + i) % w->count, from = (w->rank + w->count - i) % w->count;
    const mmci_piece theirs = mmci_layout_piece(after, m, n, to);
    const mmci_piece part = mmci_layout_piece(left, m, k, from);
    const bool sends = has_part && theirs.rows > 0;
    const bool receives = part.cols > 0 && out->piece.rows > 0;
    if (sends) copy_out(w, &v, &theirs, packed, theirs.cols);
    const mmci_message sent = {packed, piece_bytes(w, &theirs), to};
    const mmci_message received = {arrived, piece_bytes(w, &out->piece), from};
    status = exchange(w, &sent, sends, &received, receives, error);
    if (status == MMC_OK && receives && !w->rehearses)
      add_to(w->dtype, out->data, arrived, out->piece.rows * out->piece.cols);
  }
  return status;
}

static mmc_status by_inner(const walker *w, const mmci_way *way, const mmci_ranks_product *x,
                           const operand *a, const operand *b, const block *out,
                           mmci_error *error) {
  const mmci_piece part = mmci_layout_piece(&way->left, x->m, x->k, w->rank);
  const mmci_piece all = {.rows = x->m, .cols = x->n};
  const mmci_piece largest = mmci_layout_piece(&way->result, x->m, x->n, way->result.first);
  block partial = {.piece = {0}}, packed = partial, arrived = partial;
  mmc_status status = MMC_OK;
  if (part.cols > 0) status = make_block(w, &all, &partial, error);
  if (status == MMC_OK && part.cols > 0) status = make_block(w, &largest, &packed, error);
  if (status == MMC_OK) status = make_block(w, &out->piece, &arrived, error);
  if (status == MMC_OK && part.cols > 0)
    status = multiply_here(w, x, x->m, part.cols, x->n, &a->local, &b->local, partial.data, error);
  status = agree(w, status, error);
  if (status == MMC_OK && x->m > 0 && x->n > 0)
    status = reduce(w, &partial, part.cols > 0, &way->left, &way->result, x->m, x->k, x->n, out,
                    packed.data, arrived.data, error);
  give_bytes(w->walk->pool, partial.data);
  give_bytes(w->walk->pool, packed.data);
  give_bytes(w->walk->pool, arrived.data);
  return status;
}

/* Gathers blocks along one direction of the grid: all of a row of blocks of A (across), or of a
 * column of blocks of B. */
static mmc_status gather_along(const walker *w, const mmci_layout *grid, bool across, int64_t rows,
                               int64_t cols, const operand *mine, block *out, mmci_error *error) {
  const int32_t number = w->rank - grid->first, width = grid->grid_cols;
  const int32_t i = number / width, j = number % width;
  const int32_t others = across ? width : grid->grid_rows;
  const bool is_in = number >= 0 && number < grid->ranks;
  const mmci_piece own = mmci_layout_piece(grid, rows, cols, w->rank);
  mmci_piece all = {.rows = rows, .cols = cols};
  /* The block row or column is that of the grid even where this rank's own block is empty. */
  if (is_in) {
    const mmci_layout line =
        across ? mmci_layout_rows(grid->grid_rows) : mmci_layout_cols(grid->grid_cols);
    all = mmci_layout_piece(&line, rows, cols, across ? i : j);
  }
  traffic t = {0};
  block packed = {.piece = own};
  const view v = {mine->local.data, own.row, own.col, mine->local.ld, 1, false};
  mmc_status status = is_in ? make_block(w, &all, out, error) : MMC_OK;
  if (status == MMC_OK) status = make_traffic(w, &t, error);
  if (status == MMC_OK) status = make_block(w, &own, &packed, error);
  if (status == MMC_OK) copy_out(w, &v, &own, packed.data, own.cols);
  for (int32_t o = 1; is_in && status == MMC_OK && o < others; o++) {
    const int32_t after = across ? i * width + (j + o) % others : (i + o) % others * width + j;
    const int32_t before =
        across ? i * width + (j + others - o) % others : (i + others - o) % others * width + j;
    const int32_t to = grid->first + after, from = grid->first + before;
    const mmci_piece piece = mmci_layout_piece(grid, rows, cols, from);
    if (own.rows > 0)
      t.sends[t.send_count++] = (mmci_message){packed.data, piece_bytes(w, &own), to};
    if (piece.rows == 0) continue;
    char *bytes = t.buffers[w->count + from] = take_bytes(w->walk->pool, piece_bytes(w, &piece));
    if (bytes == NULL) status = mmci_fail_nomem(error, piece_bytes(w, &piece));
    t.pieces[t.receive_count] = piece;
    t.receives[t.receive_count++] = (mmci_message){bytes, piece_bytes(w, &piece), from};
  }
  status = agree(w, status, error);
  if (status == MMC_OK)
    status = exchange(w, t.sends, t.send_count, t.receives, t.receive_count, error);
  if (status == MMC_OK && own.rows > 0)
    copy_out(w, &v, &own, place_in(w, out, &own), out->piece.cols);
  for (int32_t r = 0; status == MMC_OK && r < t.receive_count; r++) {
    const mmci_piece *piece = &t.pieces[r];
    const view arrived = {t.receives[r].bytes, piece->row, piece->col, piece->cols, 1, false};
    copy_out(w, &arrived, piece, place_in(w, out, piece), out->piece.cols);
  }
  free_traffic(w, &t);
  give_bytes(w->walk->pool, packed.data);
  return status;
}

/* Says whether the engine multiplies on the grid by itself: where it sends the words of "grid", and
 * adds up as it likes with products of its own. */
static bool takes_grid(const mmci_walk *walk, const mmci_layout *grid,
                       const mmci_ranks_product *x) {
  const mmci_ranks_problem *p = walk->problem;
  return !p->reproducible && !p->rates.replaces &&
         walk->ops->takes_grid(walk->team, p->dtype, grid, x->m, x->k, x->n);
}

/* Multiplies on a grid: by the engine, else by gathering. */
static mmc_status by_grid(const walker *w, const mmci_way *way, const mmci_ranks_product *x,
                          const operand *a, const operand *b, const block *out, mmci_error *error) {
  const mmci_team_ops *ops = w->walk->ops;
  const mmci_layout *grid = &way->result;
  mmc_status status = MMC_OK;
  if (x->m == 0 || x->n == 0) return MMC_OK;
  if (x->k == 0) {
    if (out->data != NULL && !w->rehearses) memset(out->data, 0, piece_bytes(w, &out->piece));
    return MMC_OK;
  }
  if (takes_grid(w->walk, grid, x)) {
    if (w->rehearses) return MMC_OK;
    status = ops->multiply_grid(w->walk->team, w->dtype, grid, x->m, x->k, x->n, &a->local,
                                &b->local, out->data, error);
    return status;
  }
  block row = {.piece = {0}}, col = {.piece = {0}};
  status = gather_along(w, grid, true, x->m, x->k, a, &row, error);
  if (status == MMC_OK) status = gather_along(w, grid, false, x->k, x->n, b, &col, error);
  if (status == MMC_OK) {
    const mmci_local left = {row.data, x->k, false}, right = {col.data, out->piece.cols, false};
    if (out->piece.rows > 0)
      status = multiply_here(w, x, out->piece.rows, x->k, out->piece.cols, &left, &right, out->data,
                             error);
  }
  give_bytes(w->walk->pool, row.data);
  give_bytes(w->walk->pool, col.data);
  return status;
}

static mmc_status multiply_step(const walker *w, const mmci_way *way, const mmci_ranks_product *x,
                                const operand *a, const operand *b, const block *out,
                                mmci_error *error) {
  if (way->algorithm == MMCI_BY_INNER) return by_inner(w, way, x, a, b, out, error);
  if (way->algorithm == MMCI_BY_GRID) return by_grid(w, way, x, a, b, out, error);
  return multiply_here(w, x, out->piece.rows, x->k, out->piece.cols, &a->local, &b->local,
                       out->data, error);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Says whether the last product can be written where the caller wants the result. */
static bool writes_out(const walker *w, int64_t s) {
  const mmci_ranks_plan *plan = w->walk->plan;
  return s == w->walk->problem->step_count - 1 && w->out != NULL &&
         mmci_layout_same(&plan->last.from, &plan->result);
}

static void drop_result(const walker *w, int64_t number, int64_t step) {
  const int64_t t = number - w->walk->problem->factor_count;
  if (t < 0 || w->last_read[t] != step) return;
  give_bytes(w->walk->pool, w->results[t].data);
  w->results[t].data = NULL;
}

static mmc_status run_step(const walker *w, int64_t s, mmci_error *error) {
  const mmci_ranks_product *x = &w->walk->problem->products[s];
  const mmci_ranks_step *step = &w->walk->plan->steps[s];
  const mmci_way *way = &step->way;
  const bool by_rows = way->algorithm == MMCI_BY_GRID;
  const mmci_piece piece = mmci_layout_piece(&way->result, x->m, x->n, w->rank);
  operand a = {.made = {.data = NULL}}, b = a;
  mmc_status status =
      take_operand(w, x->left, &step->left.from, &way->left, x->m, x->k, by_rows, &a, error);
  if (status == MMC_OK || mmci_layout_same(&step->left.from, &way->left)) {
    /* A change fails on all ranks alike; a copy may fail on one, and the others go on to agree. */
    mmci_error second = {0};
    const mmc_status taken = take_operand(w, x->right, &step->right.from, &way->right, x->k, x->n,
                                          by_rows, &b, status == MMC_OK ? error : &second);
    if (status == MMC_OK) status = taken;
  }
  if (writes_out(w, s))
    w->results[s] = (block){w->out, piece};
  else if (status == MMC_OK)
    status = make_block(w, &piece, &w->results[s], error);
  status = agree(w, status, error);
  if (status == MMC_OK)
    status = agree(w, multiply_step(w, way, x, &a, &b, &w->results[s], error), error);
  give_bytes(w->walk->pool, a.made.data);
  give_bytes(w->walk->pool, b.made.data);
  drop_result(w, x->left, s);
  drop_result(w, x->right, s);
  return status;
}

/* Writes this rank's piece of the result to the caller's memory. */
static mmc_status deliver(const walker *w, void *out, int64_t out_ld, bool out_transposed,
                          mmci_error *error) {
  const mmci_walk *walk = w->walk;
  const mmci_ranks_problem *p = walk->problem;
  const mmci_ranks_plan *plan = walk->plan;
  const int64_t rows = p->dims[0], cols = p->dims[p->factor_count];
  const int64_t last = p->factor_count + p->step_count - 1;
  const mmci_piece piece = mmci_layout_piece(&plan->result, rows, cols, w->rank);
  const int64_t number = p->step_count > 0 ? last : 0;
  operand end;
  if (p->step_count > 0 && writes_out(w, p->step_count - 1)) return agree(w, MMC_OK, error);
  if (w->out != NULL && !mmci_layout_same(&plan->last.from, &plan->result)) {
    const view v = view_of_operand(w, number, &plan->last.from, rows, cols);
    block to = {w->out, piece};
    return agree(w, change(w, &v, &plan->last.from, &plan->result, rows, cols, &to, error), error);
  }
  mmc_status status =
      take_operand(w, number, &plan->last.from, &plan->result, rows, cols, true, &end, error);
  status = agree(w, status, error);
  if (status == MMC_OK && piece.rows > 0) {
    const view v = {end.local.data, piece.row, piece.col, end.local.ld, 1, false};
    const view turned = {end.local.data, piece.col, piece.row, 1, end.local.ld, false};
    const mmci_piece sideways = {piece.col, piece.row, piece.cols, piece.rows};
    if (out_transposed)
      copy_out(w, &turned, &sideways, out, out_ld);
    else
      copy_out(w, &v, &piece, out, out_ld);
  }
  give_bytes(w->walk->pool, end.made.data);
  return status;
}

/* Does, or rehearses, all steps. */
static mmc_status run_steps(const walker *w, void *out, int64_t out_ld, bool out_transposed,
                            mmci_error *error) {
  const mmci_ranks_problem *p = w->walk->problem;
  mmc_status status = MMC_OK;
  for (int64_t s = 0; status == MMC_OK && s < p->step_count; s++) status = run_step(w, s, error);
  if (status == MMC_OK) status = deliver(w, out, out_ld, out_transposed, error);
  for (int64_t s = 0; s < p->step_count; s++) {
    if (w->out == NULL || w->results[s].data != w->out)
      give_bytes(w->walk->pool, w->results[s].data);
    w->results[s].data = NULL;
  }
  return status;
}

static void note_readers(const walker *w) {
  const mmci_ranks_problem *p = w->walk->problem;
  for (int64_t s = 0; s < p->step_count; s++) {
    const mmci_ranks_product *x = &p->products[s];
    if (x->left >= p->factor_count) w->last_read[x->left - p->factor_count] = s;
    if (x->right >= p->factor_count) w->last_read[x->right - p->factor_count] = s;
  }
  if (p->step_count > 0) w->last_read[p->step_count - 1] = p->step_count;
}

void mmci_walk_prepare(const mmci_walk *walk) {
  for (int64_t s = 0; s < walk->problem->step_count; s++) {
    const mmci_way *way = &walk->plan->steps[s].way;
    if (way->algorithm == MMCI_BY_GRID &&
        takes_grid(walk, &way->result, &walk->problem->products[s]))
      walk->ops->prepare_grid(walk->team, &way->result);
  }
}

mmc_status mmci_walk_run(const mmci_walk *walk, mmc_status so_far, void *out, int64_t out_ld,
                         bool out_transposed, mmci_error *error) {
  const mmci_ranks_problem *p = walk->problem;
  const size_t steps = (size_t)p->step_count;
  mmci_pool *pool = walk->pool;
  walker w = {.walk = walk,
              .rank = walk->ops->rank(walk->team),
              .count = walk->ops->count(walk->team),
              .dtype = p->dtype,
              .size = mmc_dtype_size(p->dtype),
              .results = take_zeroed(pool, steps + 1, sizeof *w.results),
              .last_read = take_zeroed(pool, steps + 1, sizeof *w.last_read)};
  const mmci_piece piece =
      mmci_layout_piece(&walk->plan->result, p->dims[0], p->dims[p->factor_count], w.rank);
  if (piece.rows > 0 && !out_transposed && out_ld == piece.cols) w.out = out;
  mmc_status status = so_far;
  if (status == MMC_OK && (w.results == NULL || w.last_read == NULL))
    status = mmci_fail_nomem(error, (uint64_t)steps * sizeof *w.results);
  if (status == MMC_OK) note_readers(&w);
  w.rehearses = true;
  if (status == MMC_OK && pool->keeps) status = run_steps(&w, out, out_ld, out_transposed, error);
  status = mmci_team_agree(walk->ops, walk->team, status, error);
  w.rehearses = false;
  w.agrees = !pool->keeps || p->reproducible;
  if (status == MMC_OK) status = run_steps(&w, out, out_ld, out_transposed, error);
  give_bytes(pool, w.results);
  give_bytes(pool, w.last_read);
  return status;
}
