/* group.h: several products as one problem, which a device may take as one call, and its name. */
#ifndef MMCI_GROUP_H
#define MMCI_GROUP_H

#include "chain/gemm.h"

/* left * right: a number below n is an operand, any other the result of product x - n. */
typedef struct mmci_group_product {
  int64_t m, k, n;
  int32_t left, right;
} mmci_group_product;

/* A part of a plan, or all of it: n operands and count products of them, children before parents,
 * the last of which is the result C, row-major. The device keeps the intermediates where it likes.
 * Usually every operand and result is read by one product; where a power is computed, by several.
 * All of it is done batch times, with operands that lie as their forms say. */
typedef struct mmci_group {
  mmc_dtype dtype;
  mmci_precision precision;
  int64_t batch; /* chains of the batch, at least 1 */
  int32_t n, count;
  const mmci_form *forms;             /* n forms */
  const mmci_group_product *products; /* count products */
  int64_t ldc, c_stride;
  bool c_gathered;
  bool turned;    /* C is the transposed result, as in mmci_gemm */
  int variant;    /* number of the variant, as in mmci_gemm */
  mmci_rule rule; /* the arithmetic, as in mmci_gemm */
} mmci_group;

/* Returns the product of a group that has only one. */
mmci_gemm mmci_group_gemm(const mmci_group *group);
/* Says whether all sums of the group are chains; groups have no others. */
bool mmci_group_is_chains(const mmci_group *group);
/* Returns the multiplications of all products of the batch, rounded. */
double mmci_group_mkn(const mmci_group *group);

/* Returns a copy in one allocation with the forms and products that it points at, to be freed with
 * free(); NULL when memory is short. */
mmci_group *mmci_group_copy(const mmci_group *group);

/* Writes the name under which wisdom keeps the seconds of a group: the ops of its operands, its
 * products, and the batch,
 *
 *     call NTN 10x30x5:0*1 10x5x60:3*2 @1
 *
 * where a number below n is an operand, and any other is n more than the number of its product. The
 * name of a group that would be longer is how many products it has and a hash of 64 bits of the
 * rest. A group of one product has mmci_batch_name(). */
enum { MMCI_GROUP_NAME_SIZE = 192 };
void mmci_group_name(const mmci_group *group, char name[MMCI_GROUP_NAME_SIZE]);
/* Reads off such a name how many rows and columns the group's result has; returns false for other
 * names, and those with a hash. */
bool mmci_group_name_result(const char *name, int64_t *rows, int64_t *cols);
/* Writes the same with dtype and precision, "call f64 native NTN ...", also for a group of one
 * product. */
enum { MMCI_GROUP_KEY_SIZE = MMCI_GROUP_NAME_SIZE + 16 };
void mmci_group_key(const mmci_group *group, char key[MMCI_GROUP_KEY_SIZE]);

/* Writes the name under which wisdom keeps the seconds of a batch of a product as one plain call:
 * "batch NT 16x16x16 @10000". */
enum { MMCI_BATCH_NAME_SIZE = 96 };
void mmci_batch_name(const mmci_gemm *gemm, char name[MMCI_BATCH_NAME_SIZE]);

#endif
