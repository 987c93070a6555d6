/* recipe.c: makes recipes, reads and writes them, and takes them apart into calls. */
#include "cost/recipe.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* The text of so many nodes fits whatever the numbers are: four splits "n:" of two numbers of 19
 * digits with a comma and parentheses, the numbers of five variants, "pad9999/queues9999/". */
enum { ALWAYS_FIT = 9 };
static_assert(4 * (2 + 2 * 19 + 1 + 2) + 5 * 5 + 19 < MMCI_RECIPE_TEXT_SIZE, "text of 9 nodes");

/* ---- made ---------------------------------------------------------------------------------- */

mmci_recipe mmci_recipe_whole(int variant) {
  mmci_recipe recipe = {.queues = 1, .count = 1};
  recipe.nodes[0].variant = variant;
  return recipe;
}

bool mmci_recipe_equal(const mmci_recipe *a, const mmci_recipe *b) {
  if (a->pad != b->pad || a->queues != b->queues || a->count != b->count) return false;
  for (int i = 0; i < a->count; i++) {
    const mmci_recipe_node *x = &a->nodes[i], *y = &b->nodes[i];
    bool same = x->axis == MMCI_PIECE ? x->variant == y->variant
                                      : x->sizes[0] == y->sizes[0] && x->sizes[1] == y->sizes[1];
    if (x->axis != y->axis || !same) return false;
  }
  return true;
}

int mmci_recipe_count(const mmci_recipe *recipe) {
  return (recipe->count + 1) / 2;
}

bool mmci_recipe_split(mmci_axis axis, const int64_t sizes[2], const mmci_recipe *first,
                       const mmci_recipe *second, mmci_recipe *out) {
  if (first->count + second->count + 1 > MMCI_RECIPE_NODES) return false;
  mmci_recipe made = {.queues = 1, .count = 1 + first->count + second->count};
  made.nodes[0] = (mmci_recipe_node){.axis = axis, .sizes = {sizes[0], sizes[1]}};
  memcpy(made.nodes + 1, first->nodes, (size_t)first->count * sizeof made.nodes[0]);
  memcpy(made.nodes + 1 + first->count, second->nodes,
         (size_t)second->count * sizeof made.nodes[0]);
  char text[MMCI_RECIPE_TEXT_SIZE];
  if (made.count > ALWAYS_FIT && !mmci_recipe_format(&made, NULL, text)) return false;
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
  const mmci_variants *variants; /* names of the variants; NULL means that numbers are written */
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

/* Returns what a variant is called; "" where it has no name, and NULL past the last and of 0, which
 * is the device's own choice. */
static const char *name_of(const mmci_variants *variants, int variant) {
  if (variant == 0 || variants == NULL || variants->name == NULL) return NULL;
  return variants->name(variants->dtype, variant);
}

/* A name is one word in a recipe. */
static char in_word(char letter) {
  return letter == ' ' ? '-' : letter;
}

static void put_variant(writer *w, int variant) {
  const char *name = name_of(w->variants, variant);
  if (name == NULL || name[0] == '\0') {
    if (variant != 0) put(w, "v%d", variant);
    return;
  }
  put(w, "@");
  for (; *name != '\0'; name++) put(w, "%c", in_word(*name));
}

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
      put_variant(w, below->variant);
      node++;
    }
  }
  return node;
}

/* Writes the text with this word for queues. */
static bool put_recipe(const mmci_recipe *recipe, const mmci_variants *variants, const char *queues,
                       char text[MMCI_RECIPE_TEXT_SIZE]) {
  writer w = {.recipe = recipe, .variants = variants, .text = text};
  const int variant = recipe->nodes[0].variant;
  const char *name = name_of(variants, variant);
  const bool is_named = variant == 0 || (name != NULL && name[0] != '\0');
  if (recipe->pad != 0) put(&w, "pad%d/", recipe->pad);
  if (recipe->queues != 1) put(&w, "%s%d/", queues, recipe->queues);
  if (recipe->count > 1) {
    put_split(&w, 0);
  } else {
    if (is_named) put(&w, "whole");
    put_variant(&w, variant);
  }
  if (w.used < MMCI_RECIPE_TEXT_SIZE) return true;
  text[0] = '\0';
  return false;
}

bool mmci_recipe_format(const mmci_recipe *recipe, const mmci_variants *variants,
                        char text[MMCI_RECIPE_TEXT_SIZE]) {
  return put_recipe(recipe, variants, "queues", text) ||
         (variants != NULL && put_recipe(recipe, NULL, "queues", text));
}

bool mmci_recipe_format_old(const mmci_recipe *recipe, char text[MMCI_RECIPE_TEXT_SIZE]) {
  return put_recipe(recipe, NULL, "lanes", text);
}

/* ---- read ---------------------------------------------------------------------------------- */

typedef struct reader {
  const char *text, *at;
  const mmci_variants *variants;
  mmci_recipe recipe;
  int pieces;
  mmci_error *error;
} reader;

static mmc_status expected(const reader *r, const char *what) {
  return mmci_fail(r->error, MMC_E_FORMAT, "recipe: expected %s at character %td, got \"%.40s\"",
                   what, r->at - r->text + 1, r->at);
}

static bool take_word(reader *r, const char *word) {
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

static bool is_letter_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

/* Says whether the word of so many letters is a name. */
static bool is_name(const char *word, size_t length, const char *name) {
  for (size_t i = 0; i < length; i++)
    if (name[i] == '\0' || word[i] != in_word(name[i])) return false;
  return name[length] == '\0';
}

/* Reads the name of a variant. */
static mmc_status take_name(reader *r, int *out) {
  size_t length = 0;
  while (is_letter_of_name(r->at[length])) length++;
  const char *name;
  for (int v = 1; length > 0 && (name = name_of(r->variants, v)) != NULL; v++)
    if (is_name(r->at, length, name)) {
      r->at += length;
      *out = v;
      return MMC_OK;
    }
  return expected(r, "the name of a kernel of the device");
}

/* Reads a piece, whose variant may be spelled out. Every split adds one piece, which bounds the
 * depth. */
static mmc_status take_piece(reader *r) {
  mmci_recipe_node *node = &r->recipe.nodes[r->recipe.count++];
  *node = (mmci_recipe_node){.axis = MMCI_PIECE};
  if (take_word(r, "@")) return take_name(r, &node->variant);
  return take_word(r, "v") ? take_int(r, 1, &node->variant) : MMC_OK;
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
    if (part == 1 && !take_word(r, ",")) return expected(r, "\",\"");
    /* The second part must be what the first leaves. */
    int64_t rest = sizes[axis] - node->sizes[0];
    mmc_status status = part == 0 ? take_number(r, 1, rest - 1, &node->sizes[0])
                                  : take_number(r, rest, rest, &node->sizes[1]);
    if (status != MMC_OK) return status;
    if (take_word(r, "(")) {
      int64_t below[4] = {0, sizes[1], sizes[2], sizes[3]};
      below[axis] = node->sizes[part];
      status = take_split(r, below);
      if (status == MMC_OK && !take_word(r, ")")) status = expected(r, "\")\"");
    } else {
      status = take_piece(r);
    }
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

static mmc_status take_options(reader *r) {
  mmc_status status = MMC_OK;
  if (take_word(r, "pad")) {
    status = take_int(r, 2, &r->recipe.pad);
    if (status == MMC_OK && !take_word(r, "/")) status = expected(r, "\"/\"");
  }
  if (status == MMC_OK && (take_word(r, "queues") || take_word(r, "lanes"))) {
    status = take_int(r, 2, &r->recipe.queues);
    if (status == MMC_OK && !take_word(r, "/")) status = expected(r, "\"/\"");
  }
  return status;
}

static mmc_status take_recipe(reader *r, const int64_t sizes[4]) {
  mmc_status status = take_options(r);
  if (status != MMC_OK) return status;
  bool whole = take_word(r, "whole");
  if (whole && *r->at != '@')
    r->recipe.nodes[r->recipe.count++] = (mmci_recipe_node){.axis = MMCI_PIECE};
  else
    status = whole || *r->at == 'v' ? take_piece(r) : take_split(r, sizes);
  if (status != MMC_OK) return status;
  if (*r->at != '\0') return expected(r, "the end");
  if (r->recipe.queues > r->pieces)
    return mmci_fail(r->error, MMC_E_FORMAT, "recipe: expected at most %d queues, got %d",
                     r->pieces, r->recipe.queues);
  return MMC_OK;
}

static mmc_status too_long(mmci_error *error) {
  return mmci_fail(error, MMC_E_FORMAT, "recipe: expected at most %d characters, got more",
                   MMCI_RECIPE_TEXT_SIZE - 1);
}

mmc_status mmci_recipe_parse(const char *text, int64_t m, int64_t k, int64_t n,
                             const mmci_variants *variants, mmci_recipe *out, mmci_error *error) {
  const size_t length = strnlen(text, MMCI_RECIPE_TEXT_SIZE);
  if (length == MMCI_RECIPE_TEXT_SIZE) return too_long(error);
  reader r = {.text = text,
              .at = text,
              .variants = variants,
              .recipe = {.queues = 1},
              .pieces = 1,
              .error = error};
  mmc_status status = take_recipe(&r, (const int64_t[4]){0, m, k, n});
  if (status != MMC_OK) return status;
  /* An old text may grow, and so may names in place of which numbers are written. */
  char again[MMCI_RECIPE_TEXT_SIZE];
  if (length + 4 * MMCI_RECIPE_PIECES >= MMCI_RECIPE_TEXT_SIZE &&
      !mmci_recipe_format(&r.recipe, variants, again))
    return too_long(error);
  *out = r.recipe;
  return MMC_OK;
}

/* ---- taken apart --------------------------------------------------------------------------- */

typedef struct cutter {
  const mmci_recipe *recipe;
  mmci_recipe_piece *pieces;
  int count;
  double load[MMCI_RECIPE_PIECES]; /* multiplications that each queue has */
} cutter;

mmci_gemm mmci_recipe_padded(const mmci_recipe *recipe, const mmci_gemm *gemm) {
  return recipe->pad == 0 ? *gemm : mmci_gemm_padded(recipe->pad, gemm);
}

/* Returns the part of a piece along axis, from start on. */
static mmci_recipe_piece part_of(const mmci_recipe_piece *piece, mmci_axis axis, int64_t start,
                                 int64_t size) {
  mmci_recipe_piece part = *piece;
  const mmci_gemm *gemm = &piece->gemm;
  part.gemm = mmci_gemm_resized(gemm, axis, size);
  if (axis != MMCI_AXIS_N)
    part.a += axis == MMCI_AXIS_M ? mmci_form_place(&gemm->a, start, 0)
                                  : mmci_form_place(&gemm->a, 0, start);
  if (axis != MMCI_AXIS_M)
    part.b += axis == MMCI_AXIS_K ? mmci_form_place(&gemm->b, start, 0)
                                  : mmci_form_place(&gemm->b, 0, start);
  if (axis == MMCI_AXIS_M) part.c += start * gemm->ldc;
  if (axis == MMCI_AXIS_N) part.c += start;
  if (axis == MMCI_AXIS_K && start > 0) part.gemm.accumulate = true;
  return part;
}

static int least_loaded(const cutter *cut) {
  int least = 0;
  for (int queue = 1; queue < cut->recipe->queues; queue++)
    if (cut->load[queue] < cut->load[least]) least = queue;
  return least;
}

/* Cuts piece as node says and returns the node behind. A piece without a queue takes the one with
 * the least to do; parts along k share it, since they write the same C one after the other. */
static int cut_piece(cutter *cut, int node, mmci_recipe_piece piece) {
  const mmci_recipe_node *how = &cut->recipe->nodes[node++];
  if (piece.queue < 0 && (how->axis == MMCI_PIECE || how->axis == MMCI_AXIS_K)) {
    piece.queue = least_loaded(cut);
    cut->load[piece.queue] += (double)piece.gemm.m * (double)piece.gemm.k * (double)piece.gemm.n;
  }
  if (how->axis == MMCI_PIECE) {
    piece.gemm.variant = how->variant;
    cut->pieces[cut->count++] = piece;
    return node;
  }
  mmci_recipe_piece first = part_of(&piece, how->axis, 0, how->sizes[0]);
  mmci_recipe_piece second = part_of(&piece, how->axis, how->sizes[0], how->sizes[1]);
  return cut_piece(cut, cut_piece(cut, node, first), second);
}

int mmci_recipe_pieces(const mmci_recipe *recipe, const mmci_gemm *gemm,
                       mmci_recipe_piece pieces[MMCI_RECIPE_PIECES]) {
  cutter cut = {.recipe = recipe, .pieces = pieces};
  cut_piece(&cut, 0, (mmci_recipe_piece){.gemm = mmci_recipe_padded(recipe, gemm), .queue = -1});
  return cut.count;
}
