#include "exact.h"

#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "random.h"
#include "solves.h"

__extension__ typedef unsigned __int128 wide;

enum { VECTORS = CLI_EXACT_VECTORS };

/* An entry of all vectors. */
typedef struct entry {
  uint64_t of[VECTORS];
} entry;

typedef struct arithmetic {
  mmc_dtype dtype;
  uint64_t modulus; /* 0 means 2^64 */
} arithmetic;

static int64_t load_signed(mmc_dtype dtype, const void *data, int64_t i) {
  if (dtype == MMC_I8) return ((const int8_t *)data)[i];
  if (dtype == MMC_I16) return ((const int16_t *)data)[i];
  if (dtype == MMC_I32) return ((const int32_t *)data)[i];
  return ((const int64_t *)data)[i];
}

static uint64_t load_unsigned(mmc_dtype dtype, const void *data, int64_t i) {
  if (dtype == MMC_BOOL) return ((const uint8_t *)data)[i] != 0;
  if (dtype == MMC_U8) return ((const uint8_t *)data)[i];
  if (dtype == MMC_U16) return ((const uint16_t *)data)[i];
  if (dtype == MMC_U32) return ((const uint32_t *)data)[i];
  return ((const uint64_t *)data)[i];
}

/* Returns an element as the vectors' arithmetic has it. */
static uint64_t load(const arithmetic *x, const void *data, int64_t i) {
  const uint64_t p = x->modulus;
  if (x->dtype >= MMC_U8) {
    uint64_t value = load_unsigned(x->dtype, data, i);
    return p != 0 && value >= p ? value % p : value;
  }
  int64_t value = load_signed(x->dtype, data, i);
  if (p == 0) return (uint64_t)value;
  int64_t residue = value % (int64_t)p;
  return (uint64_t)(residue < 0 ? residue + (int64_t)p : residue);
}

/* Computes y += a x. */
static void accumulate(const arithmetic *arithmetic, uint64_t a, const entry *x, entry *y) {
  const uint64_t p = arithmetic->modulus;
  for (int v = 0; v < VECTORS; v++)
    if (arithmetic->dtype == MMC_BOOL)
      y->of[v] |= a & x->of[v];
    else if (p == 0)
      y->of[v] += a * x->of[v];
    else
      y->of[v] = (uint64_t)(((wide)a * x->of[v] + y->of[v]) % p);
}

/* Computes y = op(A) x, passing over A as it lies. */
static void multiply(const arithmetic *arithmetic, const mmc_matrix *a, mmc_op op, const entry *x,
                     entry *y) {
  bool by_rows = a->layout == MMC_ROW_MAJOR, line_is_row = by_rows == (op == MMC_OP_N);
  int64_t lines = by_rows ? a->rows : a->cols, length = by_rows ? a->cols : a->rows;
  int64_t ld = a->ld != 0 ? a->ld : length;
  memset(y, 0, (size_t)(line_is_row ? lines : length) * sizeof *y);
  for (int64_t l = 0; l < lines; l++)
    for (int64_t e = 0; e < length; e++) {
      uint64_t value = load(arithmetic, a->data, l * ld + e);
      accumulate(arithmetic, value, &x[line_is_row ? e : l], &y[line_is_row ? l : e]);
    }
}

static void fill(const arithmetic *x, cli_random *random, int64_t count, entry *t) {
  for (int64_t i = 0; i < count; i++)
    for (int v = 0; v < VECTORS; v++) {
      uint64_t bits = cli_random_bits(random);
      if (x->dtype == MMC_BOOL) /* of densities from a half to 2^-16 */
        t[i].of[v] = (bits & (((uint64_t)2 << v) - 1)) == 0;
      else
        t[i].of[v] = x->modulus != 0 ? bits % x->modulus : bits;
    }
}

/* Compares as many bits as the dtype has; residues have no more. */
static bool same(const arithmetic *x, const entry *y, const entry *z, int64_t count) {
  const uint64_t mask = UINT64_MAX >> (64 - 8 * mmc_dtype_size(x->dtype));
  uint64_t differing = 0;
  for (int64_t i = 0; i < count; i++)
    for (int v = 0; v < VECTORS; v++) differing |= (y[i].of[v] ^ z[i].of[v]) & mask;
  return differing == 0;
}

static bool check_chain(cli_call *call, const cli_factors *factors, const arithmetic *arithmetic,
                        const mmc_matrix *result, int64_t b, cli_random *random,
                        entry *vectors[3]) {
  const mmc_chain *chain = factors->chain;
  const int64_t *dims = mmc_chain_dims(chain), n = factors->n, batch = mmc_chain_batch(chain);
  entry *t = vectors[0], *x = vectors[1], *y = vectors[2];
  fill(arithmetic, random, dims[n], t);
  memcpy(y, t, (size_t)dims[n] * sizeof *t);
  for (int64_t i = n; i-- > 0;) {
    entry *before = y;
    y = x;
    x = before;
    mmc_matrix factor = cli_matrix_of_batch(&factors->matrices[i], arithmetic->dtype, b);
    multiply(arithmetic, &factor, mmc_chain_ops(chain)[i], x, y);
    cli_stage_show(call, ((double)b + (double)(n - i) / (double)(n + 1)) / (double)batch);
  }
  mmc_matrix product = cli_matrix_of_batch(result, arithmetic->dtype, b);
  multiply(arithmetic, &product, MMC_OP_N, t, x);
  return same(arithmetic, x, y, dims[0]);
}

int cli_exact_check(cli_call *call, const cli_factors *factors, const mmc_matrix *result,
                    bool *agrees) {
  const mmc_chain *chain = factors->chain;
  const int64_t *dims = mmc_chain_dims(chain);
  const arithmetic arithmetic = {mmc_chain_dtype(chain), mmc_chain_modulus(chain)};
  int64_t longest = 1, batch = result->rows == 0 || result->cols == 0 ? 0 : mmc_chain_batch(chain);
  for (int64_t i = 0; i <= factors->n; i++)
    if (dims[i] > longest) longest = dims[i];
  entry *memory = calloc((size_t)longest, 3 * sizeof *memory);
  if (memory == NULL)
    return cli_fail_memory(call, "the vectors to check with take",
                           3 * sizeof(entry) * (double)longest);
  entry *vectors[3] = {memory, memory + longest, memory + 2 * longest};
  *agrees = true;
  for (int64_t b = 0; b < batch && *agrees; b++) {
    cli_random random = cli_random_start(CLI_CHECK_SEED, (uint64_t)b);
    *agrees = check_chain(call, factors, &arithmetic, result, b, &random, vectors);
  }
  free(memory);
  return CLI_DONE;
}
