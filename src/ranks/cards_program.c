/* cards_program.c: makes programs: which piece is needed where, what has to travel for it, and what
 * waits for what. */
#include "ranks/cards_program.h"

#include <string.h>

#include "base/alloc.h"
#include "ranks/rooms.h"
#include "ranks/waits.h"
#include "run/matrices.h"

/* What has to come before anything can be computed, or to go when all is, moves in so many parts.
 */
enum { PARTS = 4 };

/* A piece of a matrix in some memory. */
typedef struct place {
  mmci_piece piece;
  mmci_spot spot;
  mmci_form form;
  bool home;    /* it is one of those that were there first; the others are copies of them */
  bool taken;   /* it lies in a room */
  bool pending; /* it is on the host still */
} place;

typedef struct value {
  int64_t rows, cols;
  place *places;
  int32_t count, capacity;
  int32_t last_reader; /* step; the step count for the result */
  bool settled;        /* its homes are there */
} value;

/* A piece where it is needed. */
typedef struct view {
  mmci_piece piece;
  mmci_spot spot;
  mmci_form form;
} view;

typedef struct views {
  view *items;
  int32_t count, capacity;
} views;

typedef struct maker {
  mmci_cards_program *p;
  const mmci_plan *plan;
  const mmc_chain *chain;
  const mmci_step_site *sites;
  const mmci_given *factors, *out;
  int64_t size;         /* bytes of an element */
  uint64_t parts_bytes; /* pieces of more bytes move in parts */
  value *values;
  mmci_room *rooms;
  mmci_waits *waits;
  views a, b;
  int32_t step;
  mmc_status status; /* after a failure nothing more is done */
  mmci_error *error;
} maker;

/* ---- lists ----------------------------------------------------------------------------------- */

/* Makes room for one more element. Returns false, and notes it, when there is no memory. */
static bool reserve(maker *x, void **items, int32_t count, int32_t *capacity, size_t size) {
  if (x->status != MMC_OK) return false;
  if (count < *capacity) return true;
  const int32_t more = 2 * *capacity + 8;
  void *grown = mmci_alloc_array((size_t)more, size);
  if (grown == NULL) {
    x->status = mmci_fail_nomem(x->error, (uint64_t)more * size);
    return false;
  }
  if (count > 0) memcpy(grown, *items, (size_t)count * size);
  free(*items);
  *items = grown;
  *capacity = more;
  return true;
}

static void add_place(maker *x, value *v, const place *p) {
  void *items = v->places;
  if (!reserve(x, &items, v->count, &v->capacity, sizeof *p)) return;
  v->places = items;
  v->places[v->count++] = *p;
}

static void add_view(maker *x, views *list, const view *v) {
  void *items = list->items;
  if (!reserve(x, &items, list->count, &list->capacity, sizeof *v)) return;
  list->items = items;
  list->items[list->count++] = *v;
}

/* ---- deeds ----------------------------------------------------------------------------------- */

static int64_t lines_of(const mmci_piece *piece, bool trans) {
  return trans ? piece->cols : piece->rows;
}
static int64_t length_of(const mmci_piece *piece, bool trans) {
  return trans ? piece->rows : piece->cols;
}

/* Returns the bytes from the first element to behind the last. */
static uint64_t extent(const maker *x, int64_t lines, int64_t length, int64_t ld) {
  if (lines == 0 || length == 0) return 0;
  return (uint64_t)((lines - 1) * ld + length) * (uint64_t)x->size;
}

static uint64_t extent_of(const maker *x, const mmci_piece *piece, const mmci_form *form) {
  return extent(x, lines_of(piece, form->trans), length_of(piece, form->trans), form->ld);
}

/* Adds a deed that reads up to two places and writes one. */
static void add_deed(maker *x, const mmci_deed *deed, uint64_t a_bytes, uint64_t b_bytes,
                     uint64_t c_bytes) {
  if (x->status != MMC_OK) return;
  mmci_cards_program *p = x->p;
  if (p->deed_count == p->deed_room) {
    const int64_t more = 2 * p->deed_room + 64;
    mmci_deed *grown = mmci_alloc_array((size_t)more, sizeof *grown);
    if (grown == NULL) {
      x->status = mmci_fail_nomem(x->error, (uint64_t)more * sizeof *grown);
      return;
    }
    if (p->deed_count > 0) memcpy(grown, p->deeds, (size_t)p->deed_count * sizeof *grown);
    free(p->deeds);
    p->deeds = grown;
    p->deed_room = more;
  }
  p->deeds[p->deed_count] = *deed;
  p->deeds[p->deed_count].step = x->step;
  p->deeds[p->deed_count].event = -1;
  p->deed_count++;
  const mmci_touch touches[] = {
      {deed->a, a_bytes, false}, {deed->b, b_bytes, false}, {deed->c, c_bytes, true}};
  x->status = mmci_waits_add(x->waits, p, touches, x->error);
}

/* Elements of a line in a room: those of long lines begin at multiples of 16 bytes, which tensor
 * cores want. */
static int64_t line_length(const maker *x, int64_t length) {
  const int64_t unit = x->size < 16 ? 16 / x->size : 1;
  return length < 64 ? (length > 0 ? length : 1) : (length + unit - 1) / unit * unit;
}

/* Takes room on a rank for a piece that lies so. */
static place take_place(maker *x, int32_t rank, const mmci_piece *piece, bool trans, bool conj) {
  place p = {.piece = *piece, .taken = true};
  const int64_t lines = lines_of(piece, trans), ld = line_length(x, length_of(piece, trans));
  const uint64_t bytes = mmci_result_bytes(lines, ld, (size_t)x->size);
  p.form = (mmci_form){.ld = ld, .trans = trans, .conj = conj};
  p.spot = (mmci_spot){.store = MMCI_IN_ROOM, .rank = rank};
  if (x->status == MMC_OK)
    x->status = mmci_room_take(&x->rooms[rank], bytes, &p.spot.offset_bytes, x->error);
  return p;
}

static void give_place(maker *x, const place *p) {
  if (p->taken && x->status == MMC_OK)
    mmci_room_give(&x->rooms[p->spot.rank], p->spot.offset_bytes);
}

/* Returns the part of a place that is this piece of the whole matrix. */
static view view_of(const maker *x, const place *p, const mmci_piece *piece) {
  view v = {.piece = *piece, .spot = p->spot, .form = p->form};
  const int64_t row = piece->row - p->piece.row, col = piece->col - p->piece.col;
  const int64_t at = mmci_form_place(&p->form, row, col);
  v.spot.offset_bytes += (uint64_t)(at * x->size);
  return v;
}

/* Adds a copy of a view to memory that lies as the view does. */
static void add_copy(maker *x, mmci_deed_kind kind, mmci_lane lane, int32_t rank, const view *from,
                     const view *to) {
  const bool trans = from->form.trans;
  mmci_deed deed = {.kind = kind,
                    .rank = rank,
                    .lane = lane,
                    .a = from->spot,
                    .c = to->spot,
                    .rows = lines_of(&from->piece, trans),
                    .cols = length_of(&from->piece, trans),
                    .form = {.ld = from->form.ld},
                    .to_ld = to->form.ld};
  deed.b = deed.a;
  if (kind == MMCI_DO_COPY && from->spot.rank != to->spot.rank)
    x->p->words[x->step] = mmci_u128_add(x->p->words[x->step], mmci_piece_words(&from->piece));
  add_deed(x, &deed, extent_of(x, &from->piece, &from->form), 0,
           extent_of(x, &from->piece, &to->form));
}

/* Adds a copy that also changes how the matrix lies: to becomes a plain matrix, transposed where
 * its form says so. */
static void add_turn(maker *x, int32_t rank, const view *from, const view *to) {
  mmci_deed deed = {.kind = MMCI_DO_COPY,
                    .rank = rank,
                    .lane = MMCI_LANE_PRODUCTS,
                    .a = from->spot,
                    .b = from->spot,
                    .c = to->spot,
                    .rows = from->piece.rows,
                    .cols = from->piece.cols,
                    .form = from->form,
                    .to_ld = to->form.ld,
                    .to_trans = to->form.trans};
  if (from->spot.rank != to->spot.rank)
    x->p->words[x->step] = mmci_u128_add(x->p->words[x->step], mmci_piece_words(&from->piece));
  add_deed(x, &deed, extent_of(x, &from->piece, &from->form), 0,
           extent_of(x, &from->piece, &to->form));
}

/* ---- factors --------------------------------------------------------------------------------- */

/* Returns how a factor lies on the host. */
static place place_on_host(const maker *x, int32_t i) {
  const value *v = &x->values[i];
  const bool stored_trans = x->chain->ops[i] != MMC_OP_N;
  const mmc_matrix plain = {.rows = stored_trans ? v->cols : v->rows,
                            .cols = stored_trans ? v->rows : v->cols};
  const mmc_matrix *matrix = x->factors[i].matrix != NULL ? x->factors[i].matrix : &plain;
  return (place){.piece = {.rows = v->rows, .cols = v->cols},
                 .spot = {.store = MMCI_IN_FACTOR, .rank = MMCI_ON_HOST, .factor = i},
                 .form = mmci_factor_form(x->chain, i, matrix, mmci_matrix_ld(matrix), 0)};
}

/* Cuts a piece into parts, where it is worth it, and returns how many there are. */
static int32_t cut_piece(const maker *x, const mmci_piece *piece, bool by_rows,
                         mmci_piece parts[PARTS]) {
  const int64_t length = by_rows ? piece->rows : piece->cols;
  const uint64_t bytes = mmci_result_bytes(piece->rows, piece->cols, (size_t)x->size);
  const int32_t most = bytes > x->parts_bytes && length >= PARTS ? PARTS : 1;
  const mmci_layout cut = by_rows ? mmci_layout_rows(most) : mmci_layout_cols(most);
  int32_t count = 0;
  for (int32_t i = 0; i < most; i++) {
    mmci_piece part = mmci_layout_piece(&cut, piece->rows, piece->cols, i);
    if (part.rows == 0 || part.cols == 0) continue;
    part.row += piece->row;
    part.col += piece->col;
    parts[count++] = part;
  }
  return count;
}

/* Says where the pieces of a factor on the host are to be. */
static void expect_factor(maker *x, int32_t i) {
  const mmci_given *g = &x->factors[i];
  value *v = &x->values[i];
  const mmci_form form = place_on_host(x, i).form;
  for (int32_t r = 0; r < x->p->ranks; r++) {
    const mmci_piece piece = mmci_site_piece(&g->site, v->rows, v->cols, r);
    mmci_piece parts[PARTS];
    if (piece.rows == 0 || piece.cols == 0) continue;
    const int32_t count = cut_piece(x, &piece, g->site.layout.kind != MMCI_COLS, parts);
    for (int32_t p = 0; p < count; p++) {
      place home = take_place(x, r, &parts[p], form.trans, form.conj);
      home.home = home.pending = true;
      add_place(x, v, &home);
    }
  }
}

/* Sends a piece from the host, when it is first needed. */
static void send(maker *x, value *v, int32_t index) {
  place *home = &v->places[index];
  if (!home->pending) return;
  home->pending = false;
  const place all = place_on_host(x, (int32_t)(v - x->values));
  const view from = view_of(x, &all, &home->piece), to = view_of(x, home, &home->piece);
  add_copy(x, MMCI_DO_UPLOAD, MMCI_LANE_UPLOADS, home->spot.rank, &from, &to);
}

/* Finds the pieces of a factor that is on the ranks. */
static void find_factor(maker *x, int32_t i) {
  const mmci_given *g = &x->factors[i];
  value *v = &x->values[i];
  for (int32_t r = 0; r < x->p->ranks; r++) {
    const mmci_piece piece = mmci_site_piece(&g->site, v->rows, v->cols, r);
    if (piece.rows == 0 || piece.cols == 0) continue;
    const bool trans = x->chain->ops[i] != MMC_OP_N;
    const mmc_matrix plain = {.rows = lines_of(&piece, trans), .cols = length_of(&piece, trans)};
    const mmc_matrix *matrix = g->pieces != NULL ? &g->pieces[r] : &plain;
    const place home = {.piece = piece,
                        .spot = {.store = MMCI_IN_FACTOR, .rank = r, .factor = i},
                        .form = mmci_factor_form(x->chain, i, matrix, mmci_matrix_ld(matrix), 0),
                        .home = true};
    add_place(x, v, &home);
  }
}

static void settle(maker *x, int32_t number) {
  value *v = &x->values[number];
  if (v->settled) return;
  v->settled = true;
  if (number < x->chain->n) (x->factors[number].on_host ? expect_factor : find_factor)(x, number);
}

/* ---- what is needed where -------------------------------------------------------------------- */

/* Lists a piece that a rank has already, of which it is a part. Returns false when there is none.
 */
static bool find_there(maker *x, value *v, const mmci_piece *piece, int32_t rank, views *list) {
  for (int32_t i = 0; i < v->count; i++) {
    const mmci_piece common = mmci_piece_common(&v->places[i].piece, piece);
    if (v->places[i].spot.rank != rank || common.rows != piece->rows || common.cols != piece->cols)
      continue;
    send(x, v, i);
    const view there = view_of(x, &v->places[i], piece);
    add_view(x, list, &there);
    return true;
  }
  return false;
}

/* Brings a piece from a home to a rank, unless it is there. */
static void bring(maker *x, value *v, int32_t home, const mmci_piece *piece, int32_t rank,
                  views *list) {
  if (find_there(x, v, piece, rank, list)) return;
  send(x, v, home);
  const place source = v->places[home];
  const place copy = take_place(x, rank, piece, source.form.trans, source.form.conj);
  const view from = view_of(x, &source, piece), to = view_of(x, &copy, piece);
  add_copy(x, MMCI_DO_COPY, MMCI_LANE_ARRIVALS, rank, &from, &to);
  add_place(x, v, &copy);
  add_view(x, list, &to);
}

/* Brings a piece, in parts where there is nothing else to compute with meanwhile. */
static void bring_parts(maker *x, value *v, int32_t home, const mmci_piece *piece, int32_t rank,
                        bool alone, bool by_rows, views *list) {
  mmci_piece parts[PARTS] = {*piece};
  int32_t count = 1;
  if (alone && v->places[home].spot.rank != rank) count = cut_piece(x, piece, by_rows, parts);
  for (int32_t i = 0; i < count && x->status == MMC_OK; i++)
    bring(x, v, home, &parts[i], rank, list);
}

/* Lists what makes up a piece of a value on a rank, its own part first, then the others' in the
 * order of the ranks behind it, so that not all ask the same rank at once. */
static void need(maker *x, int32_t number, int32_t rank, const mmci_piece *piece, bool by_rows,
                 views *list) {
  list->count = 0;
  settle(x, number);
  value *v = &x->values[number];
  if (piece->rows == 0 || piece->cols == 0) return;
  if (find_there(x, v, piece, rank, list)) return;
  const int32_t homes = v->count;
  mmci_u128 there = 0; /* elements of the piece that are listed */
  for (int32_t d = 0; d < x->p->ranks && there < mmci_piece_words(piece); d++)
    for (int32_t i = 0; i < homes && x->status == MMC_OK; i++) {
      if (!v->places[i].home || v->places[i].spot.rank != (rank + d) % x->p->ranks) continue;
      const mmci_piece common = mmci_piece_common(&v->places[i].piece, piece);
      if (common.rows == 0 || common.cols == 0) continue;
      there += mmci_piece_words(&common);
      bring_parts(x, v, i, &common, rank, list->count == 0, by_rows, list);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Returns a boundary of another view within this one, or -1. */
static int64_t boundary_within(const views *list, int32_t i, bool by_rows) {
  const mmci_piece *x = &list->items[i].piece;
  const int64_t begin = by_rows ? x->row : x->col, end = begin + (by_rows ? x->rows : x->cols);
  for (int32_t j = 0; j < list->count; j++) {
    const mmci_piece *y = &list->items[j].piece;
    const int64_t first = by_rows ? y->row : y->col, last = first + (by_rows ? y->rows : y->cols);
    if (first > begin && first < end) return first;
    if (last > begin && last < end) return last;
  }
  return -1;
}

/* Splits views where others begin or end, so that two have the same rows (columns), or none in
 * common. */
static void align_views(maker *x, views *list, bool by_rows) {
  for (int32_t i = 0; i < list->count && x->status == MMC_OK;) {
    const int64_t at = boundary_within(list, i, by_rows);
    if (at < 0) {
      i++;
      continue;
    }
    const view whole = list->items[i];
    const place from = {.piece = whole.piece, .spot = whole.spot, .form = whole.form};
    mmci_piece before = whole.piece, behind = whole.piece;
    if (by_rows) {
      before.rows = at - whole.piece.row;
      behind.rows -= before.rows;
      behind.row = at;
    } else {
      before.cols = at - whole.piece.col;
      behind.cols -= before.cols;
      behind.col = at;
    }
    const view second = view_of(x, &from, &behind);
    add_view(x, list, &second);
    if (x->status != MMC_OK) return;
    list->items[i] = view_of(x, &from, &before);
    memmove(&list->items[i + 2], &list->items[i + 1],
            (size_t)(list->count - i - 2) * sizeof second);
    list->items[i + 1] = second;
  }
}

/* Says whether an earlier product of the two lists has begun the same sums. */
static bool has_begun(const views *a, const views *b, int32_t i, int32_t j) {
  for (int32_t p = 0; p <= i; p++)
    for (int32_t q = 0; q < (p < i ? b->count : j); q++) {
      const mmci_piece *left = &a->items[p].piece, *right = &b->items[q].piece;
      const int64_t first = left->col > right->row ? left->col : right->row;
      const int64_t left_end = left->col + left->cols, right_end = right->row + right->rows;
      if (first < (left_end < right_end ? left_end : right_end) &&
          left->row == a->items[i].piece.row && right->col == b->items[j].piece.col)
        return true;
    }
  return false;
}

/* Adds the product of what two views have in common along the sums. */
static void add_product(maker *x, int32_t rank, const view *a, const view *b, const place *c,
                        bool accumulate) {
  const int64_t first = a->piece.col > b->piece.row ? a->piece.col : b->piece.row;
  const int64_t a_end = a->piece.col + a->piece.cols, b_end = b->piece.row + b->piece.rows;
  const int64_t k = (a_end < b_end ? a_end : b_end) - first;
  if (k <= 0) return;
  const mmci_piece left = {a->piece.row, first, a->piece.rows, k};
  const mmci_piece right = {first, b->piece.col, k, b->piece.cols};
  const mmci_piece product = {left.row, right.col, left.rows, right.cols};
  const place a_place = {.piece = a->piece, .spot = a->spot, .form = a->form};
  const place b_place = {.piece = b->piece, .spot = b->spot, .form = b->form};
  const view from_a = view_of(x, &a_place, &left), from_b = view_of(x, &b_place, &right);
  const view to = view_of(x, c, &product);
  const mmci_deed deed = {.kind = MMCI_DO_PRODUCT,
                          .rank = rank,
                          .lane = MMCI_LANE_PRODUCTS,
                          .a = from_a.spot,
                          .b = from_b.spot,
                          .c = to.spot,
                          .gemm = {.dtype = x->chain->dtype,
                                   .precision = x->p->precision,
                                   .m = product.rows,
                                   .k = k,
                                   .n = product.cols,
                                   .a = from_a.form,
                                   .b = from_b.form,
                                   .ldc = to.form.ld,
                                   .batch = 1,
                                   .accumulate = accumulate,
                                   .rule = x->chain->rule}};
  add_deed(x, &deed, extent_of(x, &left, &from_a.form), extent_of(x, &right, &from_b.form),
           extent_of(x, &product, &to.form));
}

/* Adds a product without terms, which writes zeros. */
static void add_zeros(maker *x, int32_t rank, const place *c) {
  const mmci_deed deed = {.kind = MMCI_DO_PRODUCT,
                          .rank = rank,
                          .lane = MMCI_LANE_PRODUCTS,
                          .a = c->spot,
                          .b = c->spot,
                          .c = c->spot,
                          .gemm = {.dtype = x->chain->dtype,
                                   .precision = x->p->precision,
                                   .m = c->piece.rows,
                                   .n = c->piece.cols,
                                   .a = {.ld = 1},
                                   .b = {.ld = c->piece.cols},
                                   .ldc = c->form.ld,
                                   .batch = 1,
                                   .rule = x->chain->rule}};
  add_deed(x, &deed, 0, 0, extent_of(x, &c->piece, &c->form));
}

/* Computes a piece of the step's result, over terms first to first + count - 1 of its sums. */
static void multiply_piece(maker *x, const mmci_plan_step *step, int32_t rank, const place *c,
                           int64_t first, int64_t count, bool accumulate) {
  const mmci_piece left = {c->piece.row, first, c->piece.rows, count};
  const mmci_piece right = {first, c->piece.col, count, c->piece.cols};
  if (count == 0) {
    if (!accumulate) add_zeros(x, rank, c);
    return;
  }
  need(x, step->left, rank, &left, true, &x->a);
  need(x, step->right, rank, &right, false, &x->b);
  align_views(x, &x->a, true);
  align_views(x, &x->b, false);
  for (int32_t i = 0; i < x->a.count && x->status == MMC_OK; i++)
    for (int32_t j = 0; j < x->b.count; j++)
      add_product(x, rank, &x->a.items[i], &x->b.items[j], c,
                  accumulate || has_begun(&x->a, &x->b, i, j));
}

/* ---- results --------------------------------------------------------------------------------- */

static bool same_site(const mmci_site *a, const mmci_site *b) {
  return a->first == b->first && mmci_layout_same(&a->layout, &b->layout);
}

/* Says whether the last step may write where the caller wants the result. */
static bool writes_out(const maker *x, const mmci_step_site *site) {
  if (x->step != x->p->step_count - 1 || x->out->on_host) return false;
  if (!same_site(&site->result, &x->out->site)) return false;
  for (int32_t r = 0; r < x->p->ranks; r++) {
    const mmci_piece piece =
        mmci_site_piece(&site->result, x->chain->dims[0], x->chain->dims[x->chain->n], r);
    if (piece.rows > 0 && piece.cols > 0 && x->out->pieces != NULL &&
        x->out->pieces[r].layout != MMC_ROW_MAJOR)
      return false;
  }
  return true;
}

static place place_of_result(maker *x, const mmci_step_site *site, int32_t rank,
                             const mmci_piece *piece) {
  place c;
  if (writes_out(x, site))
    c = (place){.piece = *piece,
                .spot = {.store = MMCI_IN_RESULT, .rank = rank},
                .form = {.ld = x->out->pieces != NULL ? mmci_matrix_ld(&x->out->pieces[rank])
                                                      : piece->cols}};
  else
    c = take_place(x, rank, piece, false, false);
  c.home = true;
  return c;
}

/* Says whether the step's result is the chain's, and wanted on the host, where parts of it arrive
 * while others are computed. */
static bool goes_to_host(const maker *x) {
  return x->step == x->p->step_count - 1 && x->out->on_host;
}

static void add_rowwise(maker *x, const mmci_plan_step *step, const mmci_step_site *site,
                        value *v) {
  for (int32_t r = 0; r < x->p->ranks && x->status == MMC_OK; r++) {
    const mmci_piece piece = mmci_site_piece(&site->result, step->m, step->n, r);
    if (piece.rows == 0 || piece.cols == 0) continue;
    mmci_piece parts[PARTS] = {piece};
    int32_t count = 1;
    if (goes_to_host(x)) count = cut_piece(x, &piece, site->result.layout.kind != MMCI_COLS, parts);
    for (int32_t i = 0; i < count; i++) {
      const place c = place_of_result(x, site, r, &parts[i]);
      multiply_piece(x, step, r, &c, 0, step->k, false);
      add_place(x, v, &c);
    }
  }
}

/* The terms of the sums that a rank of the site has. */
static mmci_piece terms_of(const mmci_step_site *site, int64_t k, int32_t at) {
  const mmci_layout cut = mmci_layout_rows(site->result.layout.ranks);
  return mmci_layout_piece(&cut, k, 1, at);
}

/* Sums up one piece of an inner product from rank to rank; the last is the one that it is for. */
static void add_ring(maker *x, const mmci_plan_step *step, const mmci_step_site *site,
                     int32_t owner, const place *c) {
  const int32_t count = site->result.layout.ranks;
  place before = {0};
  bool begun = false;
  for (int32_t d = 1; d <= count && x->status == MMC_OK; d++) {
    const int32_t at = (owner + d) % count, rank = site->result.first + at;
    const mmci_piece terms = terms_of(site, step->k, at);
    if (terms.rows == 0 && at != owner) continue;
    place here = *c;
    if (at != owner) here = take_place(x, rank, &c->piece, false, false);
    if (begun) {
      const view from = view_of(x, &before, &c->piece), to = view_of(x, &here, &c->piece);
      add_copy(x, MMCI_DO_COPY, MMCI_LANE_ARRIVALS, rank, &from, &to);
      give_place(x, &before);
    }
    multiply_piece(x, step, rank, &here, terms.row, terms.rows, begun);
    begun = true;
    before = here;
  }
}

static void add_inner(maker *x, const mmci_plan_step *step, const mmci_step_site *site, value *v) {
  for (int32_t j = 0; j < site->result.layout.ranks && x->status == MMC_OK; j++) {
    const int32_t rank = site->result.first + j;
    const mmci_piece piece = mmci_site_piece(&site->result, step->m, step->n, rank);
    if (piece.rows == 0 || piece.cols == 0) continue;
    const place c = place_of_result(x, site, rank, &piece);
    add_ring(x, step, site, j, &c);
    add_place(x, v, &c);
  }
}

/* Gives back what no later step reads. */
static void give_values(maker *x) {
  for (int32_t i = 0; i < x->chain->n + x->p->step_count; i++) {
    value *v = &x->values[i];
    if (v->last_reader != x->step) continue;
    for (int32_t p = 0; p < v->count; p++) give_place(x, &v->places[p]);
    v->count = 0;
  }
}

static void add_step(maker *x) {
  const mmci_plan_step *step = &x->plan->steps[x->step];
  const mmci_step_site *site = &x->sites[x->step];
  value *v = &x->values[x->chain->n + x->step];
  v->settled = true;
  if (site->inner)
    add_inner(x, step, site, v);
  else
    add_rowwise(x, step, site, v);
  give_values(x);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Brings a piece of the result to the host, turned where it has to be. */
static void download(maker *x, const view *from) {
  const mmc_matrix plain = {.rows = x->chain->dims[0], .cols = x->chain->dims[x->chain->n]};
  const mmc_matrix *matrix = x->out->matrix != NULL ? x->out->matrix : &plain;
  const bool by_columns = matrix->layout == MMC_COL_MAJOR;
  const place all = {.piece = {.rows = plain.rows, .cols = plain.cols},
                     .spot = {.store = MMCI_IN_RESULT, .rank = MMCI_ON_HOST},
                     .form = {.ld = mmci_matrix_ld(matrix), .trans = by_columns}};
  const int32_t rank = from->spot.rank;
  const view to = view_of(x, &all, &from->piece);
  if (from->form.trans == by_columns && !from->form.conj) {
    add_copy(x, MMCI_DO_DOWNLOAD, MMCI_LANE_DOWNLOADS, rank, from, &to);
    return;
  }
  const place turned = take_place(x, rank, &from->piece, by_columns, false);
  const view between = view_of(x, &turned, &from->piece);
  add_turn(x, rank, from, &between);
  add_copy(x, MMCI_DO_DOWNLOAD, MMCI_LANE_DOWNLOADS, rank, &between, &to);
}

/* Brings the result to the host; of one that every rank has, each brings a part. */
static void download_all(maker *x, int32_t number) {
  value *v = &x->values[number];
  const mmci_site *site = &x->sites[x->p->step_count - 1].result;
  const mmci_layout share = mmci_layout_rows(site->layout.ranks);
  const int32_t homes = v->count;
  for (int32_t i = 0; i < homes && site->layout.kind != MMCI_WHOLE; i++) {
    const place home = v->places[i];
    const view from = view_of(x, &home, &home.piece);
    download(x, &from);
  }
  for (int32_t r = 0; r < share.ranks && site->layout.kind == MMCI_WHOLE; r++) {
    const mmci_piece piece = mmci_layout_piece(&share, v->rows, v->cols, r);
    need(x, number, site->first + r, &piece, true, &x->a);
    for (int32_t i = 0; i < x->a.count && x->status == MMC_OK; i++) download(x, &x->a.items[i]);
  }
}

/* Brings the result to where the caller wants its pieces. */
static void deliver_pieces(maker *x, int32_t number) {
  const value *v = &x->values[number];
  for (int32_t r = 0; r < x->p->ranks && x->status == MMC_OK; r++) {
    const mmci_piece piece = mmci_site_piece(&x->out->site, v->rows, v->cols, r);
    if (piece.rows == 0 || piece.cols == 0) continue;
    const mmc_matrix plain = {.rows = piece.rows, .cols = piece.cols};
    const mmc_matrix *matrix = x->out->pieces != NULL ? &x->out->pieces[r] : &plain;
    const place out = {
        .piece = piece,
        .spot = {.store = MMCI_IN_RESULT, .rank = r},
        .form = {.ld = mmci_matrix_ld(matrix), .trans = matrix->layout == MMC_COL_MAJOR}};
    need(x, number, r, &piece, true, &x->a);
    for (int32_t i = 0; i < x->a.count; i++) {
      const view to = view_of(x, &out, &x->a.items[i].piece);
      add_turn(x, r, &x->a.items[i], &to);
    }
  }
}

static void deliver(maker *x) {
  const int32_t number = x->chain->n + x->p->step_count - 1;
  x->step = x->p->step_count;
  settle(x, number);
  value *v = &x->values[number];
  if (x->out->on_host)
    download_all(x, number);
  else if (v->count == 0 || v->places[0].spot.store != MMCI_IN_RESULT)
    deliver_pieces(x, number);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static mmc_status start(maker *x) {
  mmci_cards_program *p = x->p;
  const int32_t n = x->chain->n, count = n + p->step_count;
  const size_t ranks = (size_t)p->ranks;
  p->room_bytes = mmci_alloc_zeroed(ranks, sizeof *p->room_bytes);
  p->words = mmci_alloc_zeroed((size_t)p->step_count + 1, sizeof *p->words);
  x->values = mmci_alloc_zeroed((size_t)count, sizeof *x->values);
  x->rooms = mmci_alloc_zeroed(ranks, sizeof *x->rooms);
  if (p->room_bytes == NULL || p->words == NULL || x->values == NULL || x->rooms == NULL)
    return mmci_fail_nomem(x->error, (uint64_t)count * sizeof *x->values);
  for (int32_t i = 0; i < n; i++)
    x->values[i] = (value){.rows = x->chain->dims[i], .cols = x->chain->dims[i + 1]};
  for (int32_t s = 0; s < p->step_count; s++) {
    const mmci_plan_step *step = &x->plan->steps[s];
    x->values[n + s] = (value){.rows = step->m, .cols = step->n};
    x->values[step->left].last_reader = x->values[step->right].last_reader = s;
  }
  x->values[count - 1].last_reader = p->step_count;
  return mmci_waits_create(p->ranks, &x->waits, x->error);
}

static void finish(maker *x) {
  mmci_cards_program *p = x->p;
  for (int32_t i = 0; x->values != NULL && i < x->chain->n + p->step_count; i++)
    free(x->values[i].places);
  for (int32_t r = 0; x->rooms != NULL && r < p->ranks; r++) {
    if (p->room_bytes != NULL) p->room_bytes[r] = x->rooms[r].most_bytes;
    mmci_room_destroy(&x->rooms[r]);
  }
  free(x->values);
  free(x->rooms);
  free(x->a.items);
  free(x->b.items);
  mmci_waits_destroy(x->waits);
}

mmc_status mmci_cards_program_create(const mmci_plan *plan, mmci_precision precision, int32_t ranks,
                                     uint64_t parts_bytes, const mmci_step_site *sites,
                                     const mmci_given *factors, const mmci_given *out,
                                     mmci_cards_program *program, mmci_error *error) {
  *program = (mmci_cards_program){
      .chain = plan->chain, .precision = precision, .ranks = ranks, .step_count = plan->step_count};
  maker x = {.p = program,
             .plan = plan,
             .chain = plan->chain,
             .sites = sites,
             .factors = factors,
             .out = out,
             .size = (int64_t)mmc_dtype_size(plan->chain->dtype),
             .parts_bytes = parts_bytes,
             .error = error};
  x.status = start(&x);
  for (x.step = 0; x.step < program->step_count && x.status == MMC_OK; x.step++) add_step(&x);
  if (x.status == MMC_OK) deliver(&x);
  finish(&x);
  if (x.status != MMC_OK) mmci_cards_program_destroy(program);
  return x.status;
}

void mmci_cards_program_destroy(mmci_cards_program *program) {
  free(program->deeds);
  free(program->waits);
  free(program->room_bytes);
  free(program->words);
  *program = (mmci_cards_program){0};
}

mmci_u128 mmci_cards_program_words(const mmci_cards_program *program) {
  mmci_u128 words = 0;
  for (int32_t s = 0; s <= program->step_count; s++)
    words = mmci_u128_add(words, program->words[s]);
  return words;
}

uint64_t mmci_cards_program_most_bytes(const mmci_cards_program *program) {
  uint64_t most = 0;
  for (int32_t r = 0; r < program->ranks; r++)
    if (program->room_bytes[r] > most) most = program->room_bytes[r];
  return most;
}
