#include "chain/group.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

mmci_gemm mmci_group_gemm(const mmci_group *group) {
  const mmci_group_product *p = group->products;
  return (mmci_gemm){.dtype = group->dtype,
                     .precision = group->precision,
                     .m = p->m,
                     .k = p->k,
                     .n = p->n,
                     .a = group->forms[p->left],
                     .b = group->forms[p->right],
                     .ldc = group->ldc,
                     .c_stride = group->c_stride,
                     .batch = group->batch};
}

double mmci_group_mkn(const mmci_group *group) {
  double mkn = 0;
  for (const mmci_group_product *p = group->products; p < group->products + group->count; p++)
    mkn += mmci_mkn(p->m, p->k, p->n);
  return mkn * (double)group->batch;
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

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
  char piece[128];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  for (int i = 0; i < length; i++, w->used++) {
    w->hash = mmci_hash_byte(w->hash, (unsigned char)piece[i]);
    if (w->used < w->size) w->text[w->used] = piece[i];
  }
}

static char op_letter(const mmci_form *form) {
  return "NTCH"[2 * form->conj + form->trans];
}

/* The text of any group fits into so many bytes, with the final NUL. */
static const char word[] = "call ";
enum { TEXT_SIZE = MMCI_GROUP_NAME_SIZE - (sizeof word - 1) };

static void put_group(const mmci_group *group, char text[TEXT_SIZE]) {
  writer w = {.text = text, .size = TEXT_SIZE, .hash = MMCI_HASH_START};
  for (int32_t o = 0; o < group->n; o++) put(&w, "%c", op_letter(&group->forms[o]));
  for (int32_t p = 0; p < group->count; p++) {
    const mmci_group_product *x = &group->products[p];
    put(&w, " %" PRId64 "x%" PRId64 "x%" PRId64 ":%" PRId32 "*%" PRId32, x->m, x->k, x->n, x->left,
        x->right);
  }
  put(&w, " @%" PRId64, group->batch);
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

void mmci_group_key(const mmci_group *group, char key[MMCI_GROUP_KEY_SIZE]) {
  char text[TEXT_SIZE];
  put_group(group, text);
  snprintf(key, MMCI_GROUP_KEY_SIZE, "%s%s %s %s", word, mmc_dtype_name(group->dtype),
           mmci_precision_name(group->precision), text);
}

void mmci_batch_name(const mmci_gemm *gemm, char name[MMCI_BATCH_NAME_SIZE]) {
  snprintf(name, MMCI_BATCH_NAME_SIZE, "batch %c%c %" PRId64 "x%" PRId64 "x%" PRId64 " @%" PRId64,
           op_letter(&gemm->a), op_letter(&gemm->b), gemm->m, gemm->k, gemm->n, gemm->batch);
}
