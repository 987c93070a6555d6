/* stacks.h: the matrices of an operand or a result in memory, one or a batch of them.
 *
 * All memory is 0xff where no element lies, which is NaN in every dtype. Nothing of it may be read,
 * and nothing but the elements of a result may be written. */
#ifndef MMC_TEST_STACKS_H
#define MMC_TEST_STACKS_H

#include <math.h>
#include <stdlib.h>

#include "chain/gemm.h"
#include "elements.h"
#include "random.h"

/* Elements that nobody may touch beside a stack. */
enum { STACK_MARGIN = 64, STACK_GUARD = 40 };

/* All matrices of an operand, or of C. */
typedef struct stack {
  mmc_dtype dtype;
  int64_t rows, cols, batch;
  mmci_form form;
  size_t bytes, first;
  unsigned char *host;  /* free() it */
  void *device, *table; /* of addresses, where the device sees them */
  void **host_table;    /* free() it */
} stack;

/* Where matrix i lies. Gathered ones lie in another order, which no stride describes. */
static inline int64_t slot(const stack *x, int64_t i) {
  if (x->form.gathered) return x->batch % 7 != 0 ? (i * 7 + 3) % x->batch : x->batch - 1 - i;
  return x->form.stride == 0 ? 0 : i;
}

static inline size_t place(const stack *x, int64_t i, int64_t r, int64_t c) {
  const int64_t at = x->form.trans ? c * x->form.ld + r : r * x->form.ld + c;
  return x->first + (size_t)(slot(x, i) * x->form.stride + at) * dtype_facts[x->dtype].size;
}

static inline unsigned char *address(const stack *x, int64_t i) {
  return (unsigned char *)x->device + x->first +
         (size_t)(slot(x, i) * x->form.stride) * dtype_facts[x->dtype].size;
}

/* Elements are shift reals past where an allocation is aligned; false when memory is short. */
static inline bool stack_lay_out(stack *x, mmc_dtype dtype, int64_t rows, int64_t cols,
                                 int64_t batch, mmci_form form, int shift) {
  const struct dtype_facts *facts = &dtype_facts[dtype];
  const int64_t lines = form.trans ? cols : rows;
  *x = (stack){dtype, rows, cols, batch, form, 0, 0, NULL, NULL, NULL, NULL};
  x->first = STACK_MARGIN * facts->size + (size_t)shift * facts->real_size;
  x->bytes =
      x->first + (size_t)((batch - 1) * form.stride + lines * form.ld + STACK_GUARD) * facts->size;
  x->host = (unsigned char *)malloc(x->bytes);
  if (x->host != NULL) memset(x->host, 0xff, x->bytes);
  return x->host != NULL;
}

static inline void stack_fill(stack *x, bool positive, uint64_t *random) {
  /* Products neither grow nor vanish. */
  const double scale = 1.7 / sqrt((double)x->rows + 1);
  for (int64_t i = 0; i < x->batch; i++) {
    for (int64_t r = 0; r < x->rows; r++)
      for (int64_t c = 0; c < x->cols; c++) {
        element value = {random_unit(random) * scale, random_unit(random) * scale};
        if (positive) value = (element){fabs(value.re) + 0.01, 0};
        element_write(x->dtype, x->host + place(x, i, r, c), value);
      }
    if (x->form.stride == 0 && !x->form.gathered) return;
  }
}

static inline element stack_read(const stack *x, int64_t i, int64_t r, int64_t c) {
  element value = element_read(x->dtype, x->host + place(x, i, r, c));
  if (x->form.conj) value.im = -value.im;
  return value;
}

/* No byte but C's elements has changed from 0xff. */
static inline bool rest_is_left_alone(const stack *c) {
  unsigned char *copy = (unsigned char *)malloc(c->bytes);
  if (copy == NULL) return false;
  memcpy(copy, c->host, c->bytes);
  const size_t line = (size_t)c->cols * dtype_facts[c->dtype].size;
  for (int64_t i = 0; i < c->batch; i++)
    for (int64_t r = 0; r < c->rows && line > 0; r++) memset(copy + place(c, i, r, 0), 0xff, line);
  bool alone = true;
  for (size_t at = 0; at < c->bytes && alone; at++) alone = copy[at] == 0xff;
  free(copy);
  return alone;
}

#endif
