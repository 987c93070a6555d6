#include "chain/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

mmci_gemm mmci_group_gemm(const mmci_group *group) {
  const mmci_group_product *p = group->products;
  return (mmci_gemm){.dtype = group->dtype,
                     .precision = group->precision,
                     .rule = group->rule,
                     .m = p->m,
                     .k = p->k,
                     .n = p->n,
                     .a = group->forms[p->left],
                     .b = group->forms[p->right],
                     .ldc = group->ldc,
                     .c_stride = group->c_stride,
                     .batch = group->batch,
                     .turned = group->turned};
}

double mmci_group_mkn(const mmci_group *group) {
  double mkn = 0;
  for (const mmci_group_product *p = group->products; p < group->products + group->count; p++)
    mkn += mmci_mkn(p->m, p->k, p->n);
  return mkn * (double)group->batch;
}

bool mmci_group_is_chains(const mmci_group *group) {
  if (!mmci_precision_is_reproducible(group->precision)) return true;
  bool all = true;
  for (int32_t s = 0; s < group->count; s++) {
    const mmci_group_product *p = &group->products[s];
    mmci_gemm gemm = {.dtype = group->dtype,
                      .precision = group->precision,
                      .rule = group->rule,
                      .m = p->m,
                      .k = p->k,
                      .n = p->n};
    mmci_gemm_choose_sums(&gemm);
    all = all && gemm.sums == MMCI_SUMS_CHAIN;
  }
  return all;
}

mmci_group *mmci_group_copy(const mmci_group *group) {
  size_t forms = (size_t)group->n * sizeof *group->forms;
  size_t products = (size_t)group->count * sizeof *group->products;
  mmci_group *copy = malloc(sizeof *copy + forms + products);
  if (copy == NULL) return NULL;
  *copy = *group;
  copy->forms = memcpy(copy + 1, group->forms, forms);
  copy->products = memcpy((char *)(copy + 1) + forms, group->products, products);
  return copy;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Text that may be longer than there is room for, and the hash of all of it. */
typedef struct writer {
  char *text;
  size_t size, used;
  uint64_t hash;
} writer;

static void put_byte(writer *w, char byte) {
  w->hash = mmci_hash_byte(w->hash, (unsigned char)byte);
  if (w->used < w->size) w->text[w->used] = byte;
  w->used++;
}

/* Writes a sign and a number that is not negative. Names are looked up while plans are made, and
 * printf takes ten times as long. */
static void put_number(writer *w, char sign, int64_t number) {
  char digits[20];
  int count = 0;
  put_byte(w, sign);
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0) put_byte(w, digits[--count]);
}

/* The text of any group fits into so many bytes, with the final NUL. */
static const char word[] = "call ";
enum { TEXT_SIZE = MMCI_GROUP_NAME_SIZE - (sizeof word - 1) };

static void put_group(const mmci_group *group, char text[TEXT_SIZE]) {
  writer w = {.text = text, .size = TEXT_SIZE, .hash = MMCI_HASH_START};
  for (int32_t o = 0; o < group->n; o++) put_byte(&w, mmci_form_letter(&group->forms[o]));
  for (int32_t p = 0; p < group->count; p++) {
    const mmci_group_product *x = &group->products[p];
    put_number(&w, ' ', x->m);
    put_number(&w, 'x', x->k);
    put_number(&w, 'x', x->n);
    put_number(&w, ':', x->left);
    put_number(&w, '*', x->right);
  }
  put_byte(&w, ' ');
  put_number(&w, '@', group->batch);
  if (w.used < TEXT_SIZE)
    text[w.used] = '\0';
  else
    snprintf(text, TEXT_SIZE, "%" PRId32 " products #%016" PRIx64 " @%" PRId64, group->count,
             w.hash, group->batch);
}

void mmci_group_name(const mmci_group *group, char name[MMCI_GROUP_NAME_SIZE]) {
  if (group->count == 1) {
    mmci_gemm gemm = mmci_group_gemm(group);
    mmci_batch_name(&gemm, name);
    return;
  }
  memcpy(name, word, sizeof word - 1);
  put_group(group, name + sizeof word - 1);
}

bool mmci_group_name_result(const char *name, int64_t *rows, int64_t *cols) {
  const char *end = strrchr(name, '@'), *at = end;
  if (strncmp(name, word, sizeof word - 1) != 0 || end == NULL || end - name < 2) return false;
  for (at -= 2; at > name && *at != ' ';) at--;
  long long m, k, n;
  int length = 0;
  if (sscanf(at, " %lldx%lldx%lld:%n", &m, &k, &n, &length) != 3 || length == 0) return false;
  *rows = m;
  *cols = n;
  return true;
}

void mmci_group_key(const mmci_group *group, char key[MMCI_GROUP_KEY_SIZE]) {
  char text[TEXT_SIZE];
  put_group(group, text);
  snprintf(key, MMCI_GROUP_KEY_SIZE, "%s%s %s %s", word, mmc_dtype_name(group->dtype),
           mmci_precision_name(group->precision), text);
}

void mmci_batch_name(const mmci_gemm *gemm, char name[MMCI_BATCH_NAME_SIZE]) {
  snprintf(name, MMCI_BATCH_NAME_SIZE, "batch %c%c %" PRId64 "x%" PRId64 "x%" PRId64 " @%" PRId64,
           mmci_form_letter(&gemm->a), mmci_form_letter(&gemm->b), gemm->m, gemm->k, gemm->n,
           gemm->batch);
}
