/* cblas_wrapper.c: cblas_?gemm() in pieces, where wisdom has it that they are faster so.
 *
 * The names are those of CBLAS, of its 64-bit form, and of the OpenBLAS in NumPy's wheels. */
#include <stdlib.h>
#include <string.h>

#include "choice.h"

enum { ROW_MAJOR = 101, COL_MAJOR = 102, NO_TRANS = 111, TRANS = 112, CONJ_TRANS = 113 };

/* One call, in row-major terms: a column-major product is the transposed one of the transposed
 * operands. Sizes of elements are in bytes. */
typedef struct product {
  mmcw_call call;
  const char *a, *b;
  char *c;
  int64_t lda, ldb, ldc;
  size_t element;
} product;

static bool op_of(int trans, bool complex_too, mmc_op *op) {
  if (trans != NO_TRANS && trans != TRANS && trans != CONJ_TRANS) return false;
  *op = trans == NO_TRANS ? MMC_OP_N : trans == CONJ_TRANS && complex_too ? MMC_OP_H : MMC_OP_T;
  return true;
}

/* Writes the matrix of an operand as it is stored, which has these sizes after its op. */
static mmc_matrix stored(const void *data, int64_t rows, int64_t cols, int64_t ld, mmc_op op) {
  return (mmc_matrix){.data = (void *)data,
                      .rows = op == MMC_OP_N ? rows : cols,
                      .cols = op == MMC_OP_N ? cols : rows,
                      .ld = ld,
                      .layout = MMC_ROW_MAJOR,
                      .location = MMC_HOST};
}

/* Says whether rows are as long as BLAS wants them. A call that it refuses is passed on whole,
 * since it might take the pieces. */
static bool has_room(const product *p) {
  const mmcw_call *x = &p->call;
  return p->lda >= (x->op_a == MMC_OP_N ? x->k : x->m) &&
         p->ldb >= (x->op_b == MMC_OP_N ? x->n : x->k) && p->ldc >= x->n;
}

/* Computes the product by mmchain's own kernels. */
static bool run_choice(const mmcw_choice *choice, const product *p) {
  const mmc_matrix factors[2] = {
      stored(p->a, p->call.m, p->call.k, p->lda, p->call.op_a),
      stored(p->b, p->call.k, p->call.n, p->ldb, p->call.op_b),
  };
  const mmc_matrix out = stored(p->c, p->call.m, p->call.n, p->ldc, MMC_OP_N);
  return mmcw_execute(choice, factors, &out);
}

/* Where a piece of an operand begins: element (row, col) of op(X). */
static const char *corner(const char *x, int64_t row, int64_t col, int64_t ld, mmc_op op,
                          size_t element) {
  return x + (size_t)(op == MMC_OP_N ? row * ld + col : col * ld + row) * element;
}

static const float one_f32[2] = {1, 0};
static const double one_f64[2] = {1, 0};

/* How scalars are passed: by value, or for complex ones by address. */
#define SCALAR_BY_VALUE(type) type
#define SCALAR_BY_ADDRESS(type) const void *
#define IS_ONE_BY_VALUE(x, type) ((x) == 1)
#define IS_ONE_BY_ADDRESS(x, type) (((const type *)(x))[0] == 1 && ((const type *)(x))[1] == 0)
#define IS_ZERO_BY_VALUE(x, type) ((x) == 0)
#define IS_ZERO_BY_ADDRESS(x, type) (((const type *)(x))[0] == 0 && ((const type *)(x))[1] == 0)
#define ONE_BY_VALUE(one) ((one)[0])
#define ONE_BY_ADDRESS(one) (one)
#define POINTER_BY_VALUE(type) type *
#define POINTER_BY_ADDRESS(type) void *

/* Defines one function. how is BY_VALUE or BY_ADDRESS, real the type of a real part. */
#define GEMM(name, integer, dtype_, how, real, one, complex_too, bytes)                         \
  typedef void (*fn_##name)(int, int, int, integer, integer, integer, SCALAR_##how(real),       \
                            const void *, integer, const void *, integer, SCALAR_##how(real),   \
                            void *, integer);                                                   \
  void name(int order, int trans_a, int trans_b, integer m, integer n, integer k,               \
            SCALAR_##how(real) alpha, const POINTER_##how(real) a, integer lda,                 \
            const POINTER_##how(real) b, integer ldb, SCALAR_##how(real) beta,                  \
            POINTER_##how(real) c, integer ldc);                                                \
  __attribute__((visibility("default"))) void name(                                             \
      int order, int trans_a, int trans_b, integer m, integer n, integer k,                     \
      SCALAR_##how(real) alpha, const POINTER_##how(real) a, integer lda,                       \
      const POINTER_##how(real) b, integer ldb, SCALAR_##how(real) beta, POINTER_##how(real) c, \
      integer ldc) {                                                                            \
    /* For the program, and for mmchain, whose BLAS may be another. */                          \
    static _Atomic(fn_##name) next[2];                                                          \
    const void *caller = __builtin_return_address(0);                                           \
    const bool is_own = mmcw_is_own(caller);                                                    \
    fn_##name call = next[is_own];                                                              \
    if (call == NULL) {                                                                         \
      void (*own)(void) = (void (*)(void))name;                                                 \
      void *address, *found;                                                                    \
      memcpy(&address, &own, sizeof address);                                                   \
      found = mmcw_next(#name, address, caller);                                                \
      if (found == NULL) abort(); /* nothing can be computed, and nobody can be told */         \
      memcpy(&call, &found, sizeof call);                                                       \
      next[is_own] = call;                                                                      \
    }                                                                                           \
    bool rows = order == ROW_MAJOR;                                                             \
    product p = {                                                                               \
        .call = {.dtype = dtype_, .m = rows ? m : n, .k = k, .n = rows ? n : m, .device = -1},  \
        .a = (const char *)(rows ? a : b),                                                      \
        .b = (const char *)(rows ? b : a),                                                      \
        .c = (char *)c,                                                                         \
        .lda = rows ? lda : ldb,                                                                \
        .ldb = rows ? ldb : lda,                                                                \
        .ldc = ldc,                                                                             \
        .element = bytes};                                                                      \
    const mmcw_choice *choice = NULL;                                                           \
    if (!is_own && (rows || order == COL_MAJOR) &&                                              \
        op_of(rows ? trans_a : trans_b, complex_too, &p.call.op_a) &&                           \
        op_of(rows ? trans_b : trans_a, complex_too, &p.call.op_b) && has_room(&p))             \
      choice = mmcw_choose(&p.call, true);                                                      \
    bool done = choice != NULL && choice->run != NULL && IS_ONE_##how(alpha, real) &&           \
                IS_ZERO_##how(beta, real) && run_choice(choice, &p);                            \
    if (choice == NULL || (choice->count == 0 && !done)) {                                      \
      call(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);              \
      return;                                                                                   \
    }                                                                                           \
    int op_a = rows ? trans_a : trans_b, op_b = rows ? trans_b : trans_a;                       \
    for (int i = 0; i < choice->count; i++) {                                                   \
      const mmcw_piece *q = &choice->pieces[i];                                                 \
      call(ROW_MAJOR, op_a, op_b, (integer)q->m, (integer)q->n, (integer)q->k, alpha,           \
           corner(p.a, q->row, q->depth, p.lda, p.call.op_a, bytes), (integer)p.lda,            \
           corner(p.b, q->depth, q->col, p.ldb, p.call.op_b, bytes), (integer)p.ldb,            \
           q->depth > 0 ? ONE_##how(one) : beta,                                                \
           p.c + (size_t)(q->row * p.ldc + q->col) * (bytes), (integer)p.ldc);                  \
    }                                                                                           \
  }

#define ALL(prefix, suffix, integer)                                                       \
  GEMM(prefix##cblas_sgemm##suffix, integer, MMC_F32, BY_VALUE, float, one_f32, false, 4)  \
  GEMM(prefix##cblas_dgemm##suffix, integer, MMC_F64, BY_VALUE, double, one_f64, false, 8) \
  GEMM(prefix##cblas_cgemm##suffix, integer, MMC_C64, BY_ADDRESS, float, one_f32, true, 8) \
  GEMM(prefix##cblas_zgemm##suffix, integer, MMC_C128, BY_ADDRESS, double, one_f64, true, 16)

ALL(, , int32_t)
ALL(, 64_, int64_t)
ALL(scipy_, , int32_t)
ALL(scipy_, 64_, int64_t)
