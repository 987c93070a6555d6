#include "chain/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* ---- dtypes -------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  size_t size;
} dtypes[] = {
    [MMC_F32] = {"f32", 4},    [MMC_F64] = {"f64", 8}, [MMC_C64] = {"c64", 8},
    [MMC_C128] = {"c128", 16}, [MMC_F16] = {"f16", 2}, [MMC_BF16] = {"bf16", 2},
};

enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

const char *mmc_dtype_name(mmc_dtype dtype) {
  return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].name : NULL;
}

size_t mmc_dtype_size(mmc_dtype dtype) {
  return (unsigned)dtype < DTYPE_COUNT ? dtypes[dtype].size : 0;
}

/* ---- construction -------------------------------------------------------------------------- */

static mmc_status check_length(int64_t n, mmci_error *error) {
  if (n < 1 || n > MMCI_MAX_FACTORS)
    return mmci_fail(error, MMC_E_ARG, "n: expected 1 to %d factors, got %" PRId64,
                     MMCI_MAX_FACTORS, n);
  return MMC_OK;
}

mmc_status mmci_dims_check(int64_t n, const int64_t *dims, mmci_error *error) {
  mmc_status status = check_length(n, error);
  if (status != MMC_OK) return status;
  if (dims == NULL) return mmci_fail(error, MMC_E_ARG, "dims: expected n+1 numbers, got NULL");
  for (int64_t i = 0; i <= n; i++)
    if (dims[i] < 0 || dims[i] > MMCI_MAX_DIM)
      return mmci_fail(error, MMC_E_ARG, "dims[%" PRId64 "]: expected 0 to 2^62, got %" PRId64, i,
                       dims[i]);
  return MMC_OK;
}

/* A chain with room for n factors; dims, ops and same, if any, are the caller's to fill. */
static mmc_status allocate(mmc_dtype dtype, int64_t n, bool has_same, mmc_chain **out,
                           mmci_error *error) {
  size_t count = (size_t)n, bytes = sizeof(mmc_chain) + (count + 1) * sizeof(int64_t) +
                                    count * (sizeof(mmc_op) + (has_same ? sizeof(int32_t) : 0));
  mmc_chain *chain = malloc(bytes);
  if (chain == NULL) return mmci_fail_nomem(error, bytes);
  chain->dtype = dtype;
  chain->n = (int32_t)n;
  chain->batch = 1;
  chain->dims = (int64_t *)(chain + 1);
  chain->ops = (mmc_op *)(chain->dims + count + 1);
  chain->same = has_same ? (int32_t *)(chain->ops + count) : NULL;
  *out = chain;
  return MMC_OK;
}

static mmc_status check_ops(int64_t n, const mmc_op *ops, mmci_error *error) {
  for (int64_t i = 0; ops != NULL && i < n; i++)
    if (ops[i] != MMC_OP_N && ops[i] != MMC_OP_T && ops[i] != MMC_OP_H)
      return mmci_fail(error, MMC_E_ARG,
                       "ops[%" PRId64 "]: expected MMC_OP_N, _T or _H, got number %d", i,
                       (int)ops[i]);
  return MMC_OK;
}

/* Each names a factor that is the first of its kind, of the same shape and op. */
static mmc_status check_same(int64_t n, const int64_t *dims, const mmc_op *ops, const int64_t *same,
                             mmci_error *error) {
  for (int64_t i = 0; same != NULL && i < n; i++) {
    int64_t j = same[i];
    if (j < 0 || j > i || same[j] != j)
      return mmci_fail(error, MMC_E_ARG,
                       "same[%" PRId64 "]: expected %" PRId64
                       " or the first of the factors before that are this one, got %" PRId64,
                       i, i, j);
    if (dims[j] != dims[i] || dims[j + 1] != dims[i + 1] || (ops != NULL && ops[j] != ops[i]))
      return mmci_fail(error, MMC_E_ARG,
                       "same[%" PRId64 "]: factor %" PRId64 " is of another shape or op", i, j);
  }
  return MMC_OK;
}

mmc_status mmci_chain_create_batch(mmc_dtype dtype, int64_t n, const int64_t *dims,
                                   const mmc_op *ops, int64_t batch, const int64_t *same,
                                   mmc_chain **out, mmci_error *error) {
  if (mmc_dtype_name(dtype) == NULL)
    return mmci_fail(error, MMC_E_ARG,
                     "dtype: expected f32, f64, c64, c128, f16 or bf16, got number %d", (int)dtype);
  if (batch < 0 || batch > MMCI_MAX_BATCH)
    return mmci_fail(error, MMC_E_ARG, "batch: expected 0 to 2^62, got %" PRId64, batch);
  mmc_status status = mmci_dims_check(n, dims, error);
  if (status == MMC_OK) status = check_ops(n, ops, error);
  if (status == MMC_OK) status = check_same(n, dims, ops, same, error);
  mmc_chain *chain;
  if (status == MMC_OK) status = allocate(dtype, n, same != NULL, &chain, error);
  if (status != MMC_OK) return status;
  chain->batch = batch;
  memcpy(chain->dims, dims, (size_t)(n + 1) * sizeof *dims);
  for (int64_t i = 0; i < n; i++) chain->ops[i] = ops != NULL ? ops[i] : MMC_OP_N;
  for (int64_t i = 0; same != NULL && i < n; i++) chain->same[i] = (int32_t)same[i];
  *out = chain;
  return MMC_OK;
}

mmc_status mmci_chain_create(mmc_dtype dtype, int64_t n, const int64_t *dims, const mmc_op *ops,
                             mmc_chain **out, mmci_error *error) {
  return mmci_chain_create_batch(dtype, n, dims, ops, 1, NULL, out, error);
}

mmc_status mmci_chain_copy(const mmc_chain *chain, mmc_chain **out, mmci_error *error) {
  size_t n = (size_t)chain->n;
  mmc_chain *copy;
  mmc_status status = allocate(chain->dtype, chain->n, chain->same != NULL, &copy, error);
  if (status != MMC_OK) return status;
  copy->batch = chain->batch;
  memcpy(copy->dims, chain->dims, (n + 1) * sizeof *copy->dims);
  memcpy(copy->ops, chain->ops, n * sizeof *copy->ops);
  if (chain->same != NULL) memcpy(copy->same, chain->same, n * sizeof *copy->same);
  *out = copy;
  return MMC_OK;
}

void mmc_chain_destroy(mmc_chain *chain) {
  free(chain);
}

mmc_dtype mmc_chain_dtype(const mmc_chain *chain) {
  return chain->dtype;
}
int64_t mmc_chain_length(const mmc_chain *chain) {
  return chain->n;
}
const int64_t *mmc_chain_dims(const mmc_chain *chain) {
  return chain->dims;
}
const mmc_op *mmc_chain_ops(const mmc_chain *chain) {
  return chain->ops;
}

int64_t mmc_chain_batch(const mmc_chain *chain) {
  return chain->batch;
}

/* ---- text form ----------------------------------------------------------------------------- */

static const char op_letters[] = {[MMC_OP_N] = 'N', [MMC_OP_T] = 'T', [MMC_OP_H] = 'H'};

static mmc_status fail_at(const char *text, const char *at, const char *expected,
                          mmci_error *error) {
  char found[16] = "the end";
  if (*at != '\0') snprintf(found, sizeof found, "'%.8s'", at);
  return mmci_fail(error, MMC_E_ARG, "chain, position %td: expected %s, got %s", at - text + 1,
                   expected, found);
}

/* Reads digits; returns where they end, or NULL when there is none or the number exceeds the limit.
 */
static const char *parse_dim(const char *at, int64_t *dim) {
  if (*at < '0' || *at > '9') return NULL;
  int64_t value = 0;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (value > (MMCI_MAX_DIM - (*at - '0')) / 10) return NULL;
    value = value * 10 + (*at - '0');
  }
  *dim = value;
  return at;
}

mmc_status mmci_chain_parse(const char *text, mmc_chain **out, mmci_error *error) {
  if (text == NULL) return mmci_fail(error, MMC_E_ARG, "chain: expected text, got NULL");

  mmc_dtype dtype = MMC_F64;
  const char *at = text, *colon = strchr(text, ':');
  if (*at < '0' || *at > '9') {
    size_t length = colon != NULL ? (size_t)(colon - text) : 0, d = 0;
    while (d < DTYPE_COUNT && !(colon != NULL && strlen(dtypes[d].name) == length &&
                                strncmp(text, dtypes[d].name, length) == 0))
      d++;
    if (d == DTYPE_COUNT)
      return fail_at(text, at,
                     "f32:, f64:, c64:, c128:, f16:, bf16: or a dim, as in f64:10x30x5x60", error);
    dtype = (mmc_dtype)d;
    at = colon + 1;
  }

  int64_t count = 1;
  for (const char *c = at; *c != '\0' && *c != '@' && *c != ':'; c++) count += *c == 'x';
  if (count == 1) {
    int64_t dim;
    const char *end = parse_dim(at, &dim);
    return end == NULL ? fail_at(text, at, "a dim of 0 to 2^62", error)
                       : fail_at(text, end, "'x' and a second dim, as in 10x30", error);
  }
  mmc_status status = check_length(count - 1, error);
  if (status != MMC_OK) return status;
  mmc_chain *chain;
  status = allocate(dtype, count - 1, false, &chain, error);
  if (status != MMC_OK) return status;

  for (int64_t i = 0; i < count && status == MMC_OK; i++) {
    if (i > 0 && *at != 'x') {
      status = fail_at(text, at, "'x'", error);
      break;
    }
    const char *end = parse_dim(at + (i > 0), &chain->dims[i]);
    if (end == NULL) status = fail_at(text, at + (i > 0), "a dim of 0 to 2^62", error);
    at = end;
  }
  if (status == MMC_OK && *at == '@') {
    const char *end = parse_dim(at + 1, &chain->batch);
    if (end == NULL)
      status = fail_at(text, at + 1, "a batch of 0 to 2^62 chains", error);
    else
      at = end;
  }
  for (int32_t i = 0; i < chain->n; i++) chain->ops[i] = MMC_OP_N;
  if (status == MMC_OK && *at == ':') {
    at++;
    for (int32_t i = 0; i < chain->n && status == MMC_OK; i++, at++) {
      size_t op = 0;
      while (op < sizeof op_letters && op_letters[op] != *at) op++;
      if (op == sizeof op_letters)
        status = fail_at(text, at, "N, T or H for every factor", error);
      else
        chain->ops[i] = (mmc_op)op;
    }
  }
  if (status == MMC_OK && *at != '\0') status = fail_at(text, at, "the end", error);
  if (status != MMC_OK) {
    mmc_chain_destroy(chain);
    return status;
  }
  *out = chain;
  return MMC_OK;
}

mmc_status mmc_chain_write(const mmc_chain *chain, mmc_write_fn write, void *user) {
  mmci_text text;
  mmci_text_start(&text, write, user);
  mmci_text_printf(&text, "%s:%" PRId64, mmc_dtype_name(chain->dtype), chain->dims[0]);
  bool plain = true;
  for (int32_t i = 0; i < chain->n; i++) {
    mmci_text_printf(&text, "x%" PRId64, chain->dims[i + 1]);
    plain = plain && chain->ops[i] == MMC_OP_N;
  }
  if (chain->batch != 1) mmci_text_printf(&text, "@%" PRId64, chain->batch);
  if (!plain) {
    mmci_text_bytes(&text, ":", 1);
    for (int32_t i = 0; i < chain->n; i++) mmci_text_bytes(&text, &op_letters[chain->ops[i]], 1);
  }
  return mmci_text_finish(&text, NULL);
}

mmci_gemm mmci_chain_product(const mmc_chain *chain, mmci_precision precision, int64_t i, int64_t k,
                             int64_t j) {
  mmc_op op_a = k == i + 1 ? chain->ops[i] : MMC_OP_N;
  mmc_op op_b = j == k + 1 ? chain->ops[k] : MMC_OP_N;
  return mmci_gemm_tight(chain->dtype, precision, chain->dims[i], chain->dims[k], chain->dims[j],
                         op_a, op_b);
}
