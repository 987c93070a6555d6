/* order.h: the cheapest order of a chain with sparse factors, and whether each product is held
 * sparse or dense. */
#ifndef MMCI_SPARSE_ORDER_H
#define MMCI_SPARSE_ORDER_H

#include "sparse/estimate.h"

/* How a matrix is held. */
typedef enum mmci_sparse_form { MMCI_SPARSE, MMCI_DENSE, MMCI_SPARSE_FORMS } mmci_sparse_form;

typedef enum mmci_sparse_kernel {
  MMCI_CSR_CSR,       /* a sparse result */
  MMCI_CSR_CSR_DENSE, /* the same into a dense one */
  MMCI_CSR_DENSE,
  MMCI_DENSE_CSR,
  MMCI_DENSE_DENSE,
  MMCI_SOLVE_LEFT, /* with the left operand, a factor that is used by its inverse */
  MMCI_SOLVE_RIGHT,
  MMCI_SPARSE_KERNELS
} mmci_sparse_kernel;

/* What things take, for seconds; flops_per_s is that of the device's products. */
typedef struct mmci_sparse_prices {
  double flops_per_s, bytes_per_s, launch_s;
  mmc_dtype dtype;
} mmci_sparse_prices;

typedef struct mmci_sparse_cost {
  double multiplications, seconds;
} mmci_sparse_cost;

typedef struct mmci_sparse_step {
  int64_t m, k, n;
  int32_t left, right; /* operands: factors, then n + the number of an earlier step */
  int32_t first, last; /* the factors that it covers */
  mmci_sparse_kernel kernel;
  bool converts[2];      /* the left, the right operand is brought into the other form first */
  bool inverts[2];       /* before that, the factor's inverse is formed */
  mmci_sparse_cost cost; /* of the product, with what is converted */
  double nonzeros;       /* of the result, estimated */
} mmci_sparse_step;

typedef struct mmci_sparse_order {
  int32_t count; /* of steps */
  mmci_sparse_step *steps;
  mmci_sparse_cost cost; /* of all */
  bool converts;         /* the result is brought into the other form */
  bool inverts;          /* before that, the inverse of a chain's only factor is formed */
  bool is_at_once;       /* no other order was looked for, nor what left_to_right costs */
  mmci_sparse_cost left_to_right;
} mmci_sparse_order;

enum { MMCI_SPARSE_FACTORS = 64 };

/* What is asked for. */
typedef struct mmci_sparse_request {
  bool by_time, left_to_right;
  mmci_sparse_form result;
} mmci_sparse_request;

/* Takes the order from an end that has the fewest lines, as a vector has, where that is surely
 * worth no look at others: time is asked for, and it takes less than estimates do. Every factor is
 * then read once for each line, which is the least unless some products hardly have nonzeros. *out
 * has no steps where it is not. Of sparse factors only the sides and the nonzeros count, so that
 * they may be the transposed ones. Returns E_NOMEM. */
mmc_status mmci_sparse_order_at_once(int32_t n, const mmci_sparse_shape *factors,
                                     const mmci_sparse_prices *prices, mmci_sparse_request request,
                                     mmci_sparse_order *out, mmci_error *error);

/* Finds the cheapest order of at most MMCI_SPARSE_FACTORS factors, in O(n^3) time and passages over
 * the estimates. Returns E_NOMEM. */
mmc_status mmci_sparse_order_create(int32_t n, const mmci_sparse_shape *factors,
                                    const mmci_sparse_prices *prices, mmci_sparse_request request,
                                    mmci_sparse_order *out, mmci_error *error);
void mmci_sparse_order_destroy(mmci_sparse_order *order);

const char *mmci_sparse_kernel_name(mmci_sparse_kernel kernel);

#endif
