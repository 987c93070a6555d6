/* recipe.c: makes recipes, reads and writes them, and takes them apart into calls. */
#include "cost/recipe.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* The text of so many nodes fits whatever the numbers are: four splits "n:" of two numbers of 19
 * digits with a comma and parentheses, five variants, "pad9999/lanes9999/". */
enum { ALWAYS_FIT = 9 };
static_assert(4 * (2 + 2 * 19 + 1 + 2) + 5 * 5 + 18 < MMCI_RECIPE_TEXT_SIZE, "text of 9 nodes");

/* ---- made ---------------------------------------------------------------------------------- */

mmci_recipe mmci_recipe_whole(int variant) {
  mmci_recipe recipe = {.lanes = 1, .count = 1};
  recipe.nodes[0].variant = variant;
  return recipe;
}

bool mmci_recipe_is_plain(const mmci_recipe *recipe) {
  return recipe->pad == 0 && recipe->count == 1 && recipe->nodes[0].variant == 0;
}

int mmci_recipe_count(const mmci_recipe *recipe) {
  return (recipe->count + 1) / 2;
}

bool mmci_recipe_split(mmci_axis axis, const int64_t sizes[2], const mmci_recipe *first,
                       const mmci_recipe *second, mmci_recipe *out) {
  if (first->count + second->count + 1 > MMCI_RECIPE_NODES) return false;
  mmci_recipe made = {.lanes = 1, .count = 1 + first->count + second->count};
  made.nodes[0] = (mmci_recipe_node){.axis = axis, .sizes = {sizes[0], sizes[1]}};
  memcpy(made.nodes + 1, first->nodes, (size_t)first->count * sizeof made.nodes[0]);
  memcpy(made.nodes + 1 + first->count, second->nodes,
         (size_t)second->count * sizeof made.nodes[0]);
  char text[MMCI_RECIPE_TEXT_SIZE];
  if (made.count > ALWAYS_FIT && !mmci_recipe_format(&made, text)) return false;
  *out = made;
  return true;
}

mmci_recipe mmci_recipe_transposed(const mmci_recipe *recipe) {
  mmci_recipe turned = *recipe;
  for (int i = 0; i < turned.count; i++) {
    mmci_axis axis = turned.nodes[i].axis;
    if (axis == MMCI_AXIS_M) turned.nodes[i].axis = MMCI_AXIS_N;
    if (axis == MMCI_AXIS_N) turned.nodes[i].axis = MMCI_AXIS_M;
  }
  return turned;
}

int64_t mmci_gemm_size(const mmci_gemm *gemm, mmci_axis axis) {
  return axis == MMCI_AXIS_M ? gemm->m : axis == MMCI_AXIS_K ? gemm->k : gemm->n;
}

mmci_gemm mmci_gemm_resized(const mmci_gemm *gemm, mmci_axis axis, int64_t size) {
  mmci_gemm resized = *gemm;
  *(axis == MMCI_AXIS_M ? &resized.m : axis == MMCI_AXIS_K ? &resized.k : &resized.n) = size;
  return resized;
}

/* ---- written ------------------------------------------------------------------------------- */

/* What still fits goes behind text[used]; used grows past the size when something did not fit. */
typedef struct writer {
  const mmci_recipe *recipe;
  char *text;
  size_t used;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  if (w->used >= MMCI_RECIPE_TEXT_SIZE) return;
  va_list args;
  va_start(args, format);
  w->used += (size_t)vsnprintf(w->text + w->used, MMCI_RECIPE_TEXT_SIZE - w->used, format, args);
  va_end(args);
}

static const char axis_letters[] = " mkn";

/* Writes the split at node and returns the node behind it. */
static int put_split(writer *w, int node) {
  const mmci_recipe_node *split = &w->recipe->nodes[node++];
  put(w, "%c:", axis_letters[split->axis]);
  for (int part = 0; part < 2; part++) {
    put(w, part != 0 ? ",%" PRId64 : "%" PRId64, split->sizes[part]);
    const mmci_recipe_node *below = &w->recipe->nodes[node];
    if (below->axis != MMCI_PIECE) {
      put(w, "(");
      node = put_split(w, node);
      put(w, ")");
    } else {
      if (below->variant != 0) put(w, "v%d", below->variant);
      node++;
    }
  }
  return node;
}

bool mmci_recipe_format(const mmci_recipe *recipe, char text[MMCI_RECIPE_TEXT_SIZE]) {
  writer w = {.recipe = recipe, .text = text};
  if (recipe->pad != 0) put(&w, "pad%d/", recipe->pad);
  if (recipe->lanes != 1) put(&w, "lanes%d/", recipe->lanes);
  if (recipe->count > 1)
    put_split(&w, 0);
  else if (recipe->nodes[0].variant != 0)
    put(&w, "v%d", recipe->nodes[0].variant);
  else
    put(&w, "whole");
  if (w.used < MMCI_RECIPE_TEXT_SIZE) return true;
  text[0] = '\0';
  return false;
}

/* ---- read ---------------------------------------------------------------------------------- */

typedef struct reader {
  const char *text, *at;
  mmci_recipe recipe;
  int pieces;
  mmci_error *error;
} reader;

static mmc_status expected(const reader *r, const char *what) {
  return mmci_fail(r->error, MMC_E_FORMAT, "recipe: expected %s at character %td, got \"%.40s\"",
                   what, r->at - r->text + 1, r->at);
}

static bool take(reader *r, const char *word) {
  size_t length = strlen(word);
  if (strncmp(r->at, word, length) != 0) return false;
  r->at += length;
  return true;
}

/* Reads a number from least to most. */
static mmc_status take_number(reader *r, int64_t least, int64_t most, int64_t *out) {
  const char *start = r->at;
  int64_t value = 0;
  for (; *r->at >= '0' && *r->at <= '9'; r->at++) {
    int digit = *r->at - '0';
    if (digit > most || value > (most - digit) / 10) break;
    value = 10 * value + digit;
  }
  bool more = *r->at >= '0' && *r->at <= '9';
  if (r->at > start && *start != '0' && !more && value >= least) {
    *out = value;
    return MMC_OK;
  }
  r->at = start;
  char what[64];
  snprintf(what, sizeof what, "a number from %" PRId64 " to %" PRId64, least, most);
  return expected(r, what);
}

static mmc_status take_int(reader *r, int least, int *out) {
  int64_t value;
  mmc_status status = take_number(r, least, MMCI_RECIPE_MOST, &value);
  if (status == MMC_OK) *out = (int)value;
  return status;
}

/* Reads a piece, whose variant may be spelled out. Every split adds one piece, which bounds the
 * depth. */
static mmc_status take_piece(reader *r) {
  mmci_recipe_node *node = &r->recipe.nodes[r->recipe.count++];
  *node = (mmci_recipe_node){.axis = MMCI_PIECE};
  return take(r, "v") ? take_int(r, 1, &node->variant) : MMC_OK;
}

static mmci_axis take_axis(reader *r) {
  for (mmci_axis axis = MMCI_AXIS_M; axis <= MMCI_AXIS_N; axis++)
    if (r->at[0] == axis_letters[axis] && r->at[1] == ':') {
      r->at += 2;
      return axis;
    }
  return MMCI_PIECE;
}

/* Reads a split; sizes holds the sizes, by axis, of the part that is cut. */
static mmc_status take_split(reader *r, const int64_t sizes[4]) {
  mmci_axis axis = take_axis(r);
  if (axis == MMCI_PIECE) return expected(r, "\"m:\", \"k:\" or \"n:\"");
  if (++r->pieces > MMCI_RECIPE_PIECES)
    return mmci_fail(r->error, MMC_E_FORMAT, "recipe: expected at most %d pieces, got more",
                     MMCI_RECIPE_PIECES);
  mmci_recipe_node *node = &r->recipe.nodes[r->recipe.count++];
  *node = (mmci_recipe_node){.axis = axis};
  for (int part = 0; part < 2; part++) {
    if (part == 1 && !take(r, ",")) return expected(r, "\",\"");
    /* The second part must be what the first leaves. */
    int64_t rest = sizes[axis] - node->sizes[0];
    mmc_status status = part == 0 ? take_number(r, 1, rest - 1, &node->sizes[0])
                                  : take_number(r, rest, rest, &node->sizes[1]);
    if (status != MMC_OK) return status;
    if (take(r, "(")) {
      int64_t below[4] = {0, sizes[1], sizes[2], sizes[3]};
      below[axis] = node->sizes[part];
      status = take_split(r, below);
      if (status == MMC_OK && !take(r, ")")) status = expected(r, "\")\"");
    } else {
      status = take_piece(r);
    }
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

static mmc_status take_options(reader *r) {
  mmc_status status = MMC_OK;
  if (take(r, "pad")) {
    status = take_int(r, 2, &r->recipe.pad);
    if (status == MMC_OK && !take(r, "/")) status = expected(r, "\"/\"");
  }
  if (status == MMC_OK && take(r, "lanes")) {
    status = take_int(r, 2, &r->recipe.lanes);
    if (status == MMC_OK && !take(r, "/")) status = expected(r, "\"/\"");
  }
  return status;
}

static mmc_status take_recipe(reader *r, const int64_t sizes[4]) {
  mmc_status status = take_options(r);
  if (status != MMC_OK) return status;
  if (take(r, "whole"))
    r->recipe.nodes[r->recipe.count++] = (mmci_recipe_node){.axis = MMCI_PIECE};
  else
    status = *r->at == 'v' ? take_piece(r) : take_split(r, sizes);
  if (status != MMC_OK) return status;
  if (*r->at != '\0') return expected(r, "the end");
  if (r->recipe.lanes > r->pieces)
    return mmci_fail(r->error, MMC_E_FORMAT, "recipe: expected at most %d lanes, got %d", r->pieces,
                     r->recipe.lanes);
  return MMC_OK;
}

mmc_status mmci_recipe_parse(const char *text, int64_t m, int64_t k, int64_t n, mmci_recipe *out,
                             mmci_error *error) {
  if (strnlen(text, MMCI_RECIPE_TEXT_SIZE) == MMCI_RECIPE_TEXT_SIZE)
    return mmci_fail(error, MMC_E_FORMAT, "recipe: expected at most %d characters, got more",
                     MMCI_RECIPE_TEXT_SIZE - 1);
  reader r = {.text = text, .at = text, .recipe = {.lanes = 1}, .pieces = 1, .error = error};
  mmc_status status = take_recipe(&r, (const int64_t[4]){0, m, k, n});
  if (status == MMC_OK) *out = r.recipe;
  return status;
}

/* ---- taken apart --------------------------------------------------------------------------- */

typedef struct cutter {
  const mmci_recipe *recipe;
  mmci_piece *pieces;
  int count;
  double load[MMCI_RECIPE_PIECES]; /* multiplications of each lane */
} cutter;

mmci_gemm mmci_recipe_padded(const mmci_recipe *recipe, const mmci_gemm *gemm) {
  return recipe->pad == 0 ? *gemm : mmci_gemm_padded(recipe->pad, gemm);
}

static int64_t offset(const mmci_form *form, int64_t row, int64_t column) {
  return form->trans ? column * form->ld + row : row * form->ld + column;
}

/* Returns the part of a piece along axis, from start on. */
static mmci_piece part_of(const mmci_piece *piece, mmci_axis axis, int64_t start, int64_t size) {
  mmci_piece part = *piece;
  const mmci_gemm *gemm = &piece->gemm;
  part.gemm = mmci_gemm_resized(gemm, axis, size);
  if (axis != MMCI_AXIS_N)
    part.a += axis == MMCI_AXIS_M ? offset(&gemm->a, start, 0) : offset(&gemm->a, 0, start);
  if (axis != MMCI_AXIS_M)
    part.b += axis == MMCI_AXIS_K ? offset(&gemm->b, start, 0) : offset(&gemm->b, 0, start);
  if (axis == MMCI_AXIS_M) part.c += start * gemm->ldc;
  if (axis == MMCI_AXIS_N) part.c += start;
  if (axis == MMCI_AXIS_K && start > 0) part.gemm.accumulate = true;
  return part;
}

static int least_loaded(const cutter *cut) {
  int least = 0;
  for (int lane = 1; lane < cut->recipe->lanes; lane++)
    if (cut->load[lane] < cut->load[least]) least = lane;
  return least;
}

/* Cuts piece as node says and returns the node behind. A piece without a lane takes the one with
 * the least to do; parts along k share it, since they write the same C one after the other. */
static int cut_piece(cutter *cut, int node, mmci_piece piece) {
  const mmci_recipe_node *how = &cut->recipe->nodes[node++];
  if (piece.lane < 0 && (how->axis == MMCI_PIECE || how->axis == MMCI_AXIS_K)) {
    piece.lane = least_loaded(cut);
    cut->load[piece.lane] += (double)piece.gemm.m * (double)piece.gemm.k * (double)piece.gemm.n;
  }
  if (how->axis == MMCI_PIECE) {
    piece.gemm.variant = how->variant;
    cut->pieces[cut->count++] = piece;
    return node;
  }
  mmci_piece first = part_of(&piece, how->axis, 0, how->sizes[0]);
  mmci_piece second = part_of(&piece, how->axis, how->sizes[0], how->sizes[1]);
  return cut_piece(cut, cut_piece(cut, node, first), second);
}

int mmci_recipe_pieces(const mmci_recipe *recipe, const mmci_gemm *gemm,
                       mmci_piece pieces[MMCI_RECIPE_PIECES]) {
  cutter cut = {.recipe = recipe, .pieces = pieces};
  cut_piece(&cut, 0, (mmci_piece){.gemm = mmci_recipe_padded(recipe, gemm), .lane = -1});
  return cut.count;
}
