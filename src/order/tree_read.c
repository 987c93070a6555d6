/* tree_read.c: reads a parenthesization from text, without recursion, because a tree may be n deep.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "order/order.h"

/* A bracket that is open, or the text itself: the operands in it so far, as mmci_product counts
 * them. */
typedef struct open_bracket {
  char closed_by; /* what closes the bracket: ')', ']' or '\0' */
  int count;
  int32_t operands[2];
} open_bracket;

typedef struct reading {
  const char *text, *at;
  mmci_tree tree;
  int32_t factors, products; /* factors and products that were read so far */
  open_bracket *open;
  size_t depth; /* how many brackets are open; open[0] is the text itself */
  mmci_error *error;
} reading;

static int64_t position(const reading *r) {
  return (int64_t)(r->at - r->text) + 1;
}

/* Says what stands where something else was expected: the name of a factor, or a character. */
static mmc_status expected(const reading *r, const char *what) {
  enum { SHOWN = 12 };
  if (*r->at == '\0')
    return mmci_fail_argument(r->error, MMC_E_ARG, "order",
                              "expected %s at the end, character %" PRId64, what, position(r));
  size_t length = strspn(r->at, "A0123456789");
  length = length == 0 ? 1 : length > SHOWN ? SHOWN : length;
  return mmci_fail_argument(r->error, MMC_E_ARG, "order",
                            "expected %s at character %" PRId64 ", got '%.*s'", what, position(r),
                            (int)length, *r->at >= ' ' && *r->at <= '~' ? r->at : "?");
}

static mmc_status expected_factor(const reading *r) {
  char what[32];
  if (r->factors == r->tree.n) return expected(r, "no more factors");
  snprintf(what, sizeof what, "A%" PRId32, r->factors + 1);
  return expected(r, what);
}

static mmc_status add_operand(reading *r, int32_t operand) {
  open_bracket *open = &r->open[r->depth];
  if (open->count == 2) return expected(r, "two operands in a bracket, and no third");
  open->operands[open->count++] = operand;
  return MMC_OK;
}

/* Reads A7 or 7. */
static mmc_status read_factor(reading *r) {
  const char *digit = r->at + (*r->at == 'A' || *r->at == 'a');
  int64_t number = 0;
  if (*digit < '0' || *digit > '9') return expected_factor(r);
  for (; *digit >= '0' && *digit <= '9'; digit++)
    if (number <= r->tree.n) number = 10 * number + (*digit - '0');
  if (r->factors == r->tree.n || number != r->factors + 1) return expected_factor(r);
  mmc_status status = add_operand(r, r->factors++);
  r->at = digit;
  return status;
}

/* Makes the product of what a bracket, or the text, has; one operand alone is that operand. */
static mmc_status close_bracket(reading *r, int32_t *out) {
  const open_bracket *open = &r->open[r->depth];
  if (open->count == 0) return expected_factor(r);
  *out = open->operands[0];
  if (open->count == 1) return MMC_OK;
  r->tree.products[r->products] = (mmci_product){open->operands[0], open->operands[1]};
  *out = r->tree.n + r->products++;
  return MMC_OK;
}

static mmc_status read_next(reading *r) {
  const char next = *r->at;
  if (strchr(" \t\n,*", next) != NULL) {
    r->at++;
    return MMC_OK;
  }
  if (next == '(' || next == '[') {
    r->open[++r->depth] = (open_bracket){.closed_by = next == '(' ? ')' : ']'};
    r->at++;
    return MMC_OK;
  }
  if (next != ')' && next != ']') return read_factor(r);
  if (r->depth == 0 || next != r->open[r->depth].closed_by)
    return expected(r, "the bracket that is open to be closed");
  int32_t product = 0;
  mmc_status status = close_bracket(r, &product);
  if (status != MMC_OK) return status;
  r->depth--;
  status = add_operand(r, product);
  r->at++;
  return status;
}

static mmc_status read_all(reading *r) {
  mmc_status status = MMC_OK;
  while (status == MMC_OK && *r->at != '\0') status = read_next(r);
  if (status != MMC_OK) return status;
  if (r->depth > 0) return expected(r, r->open[r->depth].closed_by == ')' ? "')'" : "']'");
  int32_t root;
  status = close_bracket(r, &root);
  if (status == MMC_OK && r->factors < r->tree.n) status = expected_factor(r);
  return status;
}

mmc_status mmci_tree_read(const char *text, int32_t n, mmci_tree *out, mmci_error *error) {
  size_t brackets = 1;
  for (const char *at = text; *at != '\0'; at++) brackets += *at == '(' || *at == '[';
  reading r = {.text = text, .at = text, .error = error};
  mmc_status status = mmci_tree_create(n, &r.tree, error);
  if (status != MMC_OK) return status;
  r.open = mmci_alloc_array(brackets, sizeof *r.open);
  if (r.open == NULL) status = mmci_fail_nomem(error, brackets * sizeof *r.open);
  if (status == MMC_OK) {
    r.open[0] = (open_bracket){0};
    status = read_all(&r);
  }
  free(r.open);
  if (status == MMC_OK)
    *out = r.tree;
  else
    mmci_tree_destroy(&r.tree);
  return status;
}
