#include "chain/chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/text.h"
#include "chain/structured_text.h"
#include "chain/traits.h"

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

/* What a chain has room for, besides dims and ops. */
typedef struct room {
  bool same, shared, structure;
  int64_t inverses;
} room;

/* Makes a chain with room for n factors; the caller fills dims, ops and what else there is room
 * for. What describes structure is empty at first. */
static mmc_status allocate_chain(mmc_dtype dtype, int64_t n, room has, mmc_chain **out,
                                 mmci_error *error) {
  size_t count = (size_t)n, structured = has.structure ? count : 0,
         groups = (size_t)has.inverses * sizeof(mmc_inverse),
         bytes = sizeof(mmc_chain) + (count + 1) * sizeof(int64_t) + groups +
                 count * (sizeof(mmc_op) + (has.same ? sizeof(int32_t) : 0) +
                          (has.shared ? sizeof(int32_t) : 0)) +
                 structured * (sizeof(mmc_band) + sizeof(uint32_t) + sizeof(int32_t));
  mmc_chain *chain = mmci_alloc_array(1, bytes);
  if (chain == NULL) return mmci_fail_nomem(error, bytes);
  *chain = (mmc_chain){.dtype = dtype, .n = (int32_t)n, .batch = 1};
  chain->dims = (int64_t *)(chain + 1);
  char *at = (char *)(chain->dims + count + 1);
  if (has.inverses > 0) chain->inverses = (mmc_inverse *)at;
  at += groups;
  if (has.structure) chain->bands = (mmc_band *)at;
  at += structured * sizeof(mmc_band);
  chain->ops = (mmc_op *)at;
  at += count * sizeof(mmc_op);
  if (has.same) {
    chain->same = (int32_t *)at;
    at += count * sizeof(int32_t);
  }
  if (has.shared) {
    chain->shared = memset(at, 0, count * sizeof(int32_t));
    at += count * sizeof(int32_t);
  }
  if (has.structure) {
    chain->traits = (uint32_t *)at;
    chain->stored = (int32_t *)(chain->traits + count);
    for (int32_t i = 0; i < chain->n; i++) {
      chain->traits[i] = 0;
      chain->bands[i] = (mmc_band){0, 0};
      chain->stored[i] = i;
    }
  }
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

/* Checks that each entry names a factor that is the first of its kind, of the same shape and op. */
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

/* ---- structure ------------------------------------------------------------------------------ */

static bool is_complex(const mmc_chain *chain) {
  return mmci_dtype_is_complex(chain->dtype);
}

bool mmci_chain_transposes(const mmc_chain *chain, int32_t i, int32_t j, bool conjugated) {
  if (chain->stored == NULL || chain->stored[i] != chain->stored[j]) return false;
  if (((chain->traits[i] ^ chain->traits[j]) & MMC_INVERSE) != 0) return false;
  uint32_t mirror = conjugated ? MMC_HERMITIAN : MMC_SYMMETRIC;
  bool complex = is_complex(chain);
  mmc_op x = chain->ops[i], y = chain->ops[j];
  if (!complex) return (x == MMC_OP_N) != (y == MMC_OP_N) || (chain->traits[i] & mirror) != 0;
  if (x == y) return (chain->traits[i] & mirror) != 0;
  mmc_op other = x == MMC_OP_N ? y : y == MMC_OP_N ? x : MMC_OP_N;
  return other == (conjugated ? MMC_OP_H : MMC_OP_T);
}

bool mmci_chain_claims(const mmc_chain *chain) {
  bool claims = chain->inverse_count > 0;
  for (int32_t i = 0; i < chain->n && chain->traits != NULL; i++)
    claims = claims || chain->traits[i] != 0;
  return claims;
}

void mmci_chain_forget_structure(mmc_chain *chain) {
  chain->traits = NULL;
  chain->bands = NULL;
  chain->stored = NULL;
}

/* What is claimed of a factor. */
typedef struct claims {
  uint32_t traits;
  mmc_band band;
} claims;

/* Returns the claims of factor i with the traits closed. */
static claims settled_claims(const mmc_chain *chain, int32_t i) {
  claims x = {chain->traits[i] & ~(uint32_t)MMC_INVERSE, chain->bands[i]};
  if (chain->traits[i] != 0)
    mmci_traits_settle(&x.traits, &x.band, chain->dims[i], is_complex(chain));
  x.traits |= chain->traits[i] & MMC_INVERSE;
  return x;
}

/* Closes the traits, and drops what describes structure where nothing can be gained by it. */
static void settle_structure(mmc_chain *chain) {
  if (chain->traits == NULL) return;
  bool gains = chain->inverse_count > 0;
  for (int32_t i = 0; i < chain->n; i++) {
    const claims x = settled_claims(chain, i);
    chain->traits[i] = x.traits;
    chain->bands[i] = x.band;
    gains = gains || x.traits != 0;
  }
  for (int32_t i = 0; i + 1 < chain->n && !gains; i++)
    gains = mmci_chain_transposes(chain, i, i + 1, false) ||
            mmci_chain_transposes(chain, i, i + 1, true);
  if (!gains) mmci_chain_forget_structure(chain);
}

/* Makes of flags in shared what is kept there, or drops them where there is none. */
static void settle_shared(mmc_chain *chain) {
  int32_t *shared = chain->shared;
  if (shared == NULL) return;
  for (int32_t i = 0; i < chain->n; i++) {
    const int64_t first = mmc_chain_stored(chain, i);
    if (shared[i] != 0) shared[first] = 1;
  }
  for (int32_t i = 0; i < chain->n; i++) shared[i] = shared[mmc_chain_stored(chain, i)];
  bool has_shared = false;
  for (int32_t i = chain->n - 1; i >= 0; i--) {
    const bool goes_on = shared[i] != 0 && i + 1 < chain->n && shared[i + 1] > i + 1;
    has_shared = has_shared || shared[i] != 0;
    shared[i] = goes_on ? shared[i + 1] : shared[i] != 0 ? i + 1 : i;
  }
  if (!has_shared || chain->batch <= 1) chain->shared = NULL;
}

static mmc_status check_traits(const mmc_chain *chain, mmci_error *error) {
  for (int32_t i = 0; chain->traits != NULL && i < chain->n; i++) {
    const char *wrong = mmci_traits_wrong(chain->traits[i], chain->dims[i], chain->dims[i + 1]);
    if (wrong != NULL)
      return mmci_fail(error, MMC_E_ARG,
                       "traits[%" PRId32 "]: %s; factor %" PRId32 " is %" PRId64 " x %" PRId64, i,
                       wrong, i + 1, chain->dims[i], chain->dims[i + 1]);
    const mmc_band band = chain->bands[i];
    if ((chain->traits[i] & MMC_BANDED) != 0 && (band.below < 0 || band.above < 0))
      return mmci_fail(error, MMC_E_ARG,
                       "bands[%" PRId32 "]: expected widths from 0 of a banded factor, got %" PRId64
                       " and %" PRId64,
                       i, band.below, band.above);
  }
  return MMC_OK;
}

/* Says whether factors i and j may be stored in one matrix. */
static bool may_share(const mmc_chain *chain, int32_t i, int32_t j) {
  bool turned = (chain->ops[i] == MMC_OP_N) != (chain->ops[j] == MMC_OP_N);
  return chain->dims[i] == chain->dims[turned ? j + 1 : j] &&
         chain->dims[i + 1] == chain->dims[turned ? j : j + 1];
}

static mmc_status check_stored(const mmc_chain *chain, mmci_error *error) {
  for (int32_t i = 0; chain->stored != NULL && i < chain->n; i++) {
    int32_t j = chain->stored[i];
    if (j < 0 || j > i || chain->stored[j] != j)
      return mmci_fail(error, MMC_E_ARG,
                       "stored[%" PRId32 "]: expected %" PRId32
                       " or the first of the factors before that are stored in this matrix",
                       i, i);
    if (!may_share(chain, i, j))
      return mmci_fail(error, MMC_E_ARG,
                       "stored[%" PRId32 "]: factor %" PRId32 " is stored in another shape", i, j);
  }
  return MMC_OK;
}

/* Checks that groups lie in each other or apart, and are square. */
static mmc_status check_inverses(const mmc_chain *chain, mmci_error *error) {
  const mmc_inverse *x = chain->inverses;
  for (int32_t g = 0; g < chain->inverse_count; g++) {
    if (x[g].first < 0 || x[g].last <= x[g].first || x[g].last >= chain->n)
      return mmci_fail(error, MMC_E_ARG,
                       "inverses[%" PRId32 "]: expected two factors or more of the chain's %" PRId32
                       ", got %" PRId64 " to %" PRId64,
                       g, chain->n, x[g].first, x[g].last);
    int64_t rows = chain->dims[x[g].first], cols = chain->dims[x[g].last + 1];
    if (rows != cols)
      return mmci_fail(error, MMC_E_ARG,
                       "inverses[%" PRId32 "]: expected a square product, got %" PRId64
                       " x %" PRId64,
                       g, rows, cols);
    for (int32_t h = 0; h < g; h++) {
      bool apart = x[g].last < x[h].first || x[h].last < x[g].first;
      bool within = (x[g].first >= x[h].first && x[g].last <= x[h].last) ||
                    (x[h].first >= x[g].first && x[h].last <= x[g].last);
      bool equal = x[g].first == x[h].first && x[g].last == x[h].last;
      if (equal || !(apart || within))
        return mmci_fail(error, MMC_E_ARG,
                         "inverses[%" PRId32
                         "]: expected a group apart from or within inverses[%" PRId32 "]",
                         g, h);
    }
  }
  return MMC_OK;
}

static mmc_status check_structure(const mmc_chain *chain, mmci_error *error) {
  mmc_status status = check_traits(chain, error);
  if (status == MMC_OK) status = check_stored(chain, error);
  return status == MMC_OK ? check_inverses(chain, error) : status;
}

/* Tells a chain whose dims, ops and same are there what options say of its structure. */
static mmc_status add_structure(const mmc_chain_options *options, mmc_chain *chain,
                                mmci_error *error) {
  for (int32_t i = 0; chain->traits != NULL && i < chain->n; i++) {
    if (options->traits != NULL) chain->traits[i] = options->traits[i];
    if ((chain->traits[i] & MMC_BANDED) != 0) {
      if (options->bands == NULL)
        return mmci_fail(error, MMC_E_ARG,
                         "bands: expected n bands, as traits[%" PRId32 "] says banded, got NULL",
                         i);
      chain->bands[i] = options->bands[i];
    }
    int64_t first = options->stored != NULL ? options->stored[i]
                    : chain->same != NULL   ? chain->same[i]
                                            : i;
    chain->stored[i] = first < 0 || first > i ? -1 : (int32_t)first;
  }
  chain->inverse_count = (int32_t)options->inverse_count;
  for (int64_t g = 0; g < options->inverse_count; g++) chain->inverses[g] = options->inverses[g];
  mmc_status status = check_structure(chain, error);
  if (status == MMC_OK) settle_structure(chain);
  return status;
}

/* ---- chains --------------------------------------------------------------------------------- */

mmc_status mmci_chain_create_batch(mmc_dtype dtype, int64_t n, const int64_t *dims,
                                   const mmc_op *ops, int64_t batch, const int64_t *same,
                                   mmc_chain **out, mmci_error *error) {
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  options.batch = batch;
  options.same = same;
  return mmci_chain_create_as(dtype, n, dims, ops, &options, out, error);
}

mmc_status mmci_chain_create_as(mmc_dtype dtype, int64_t n, const int64_t *dims, const mmc_op *ops,
                                const mmc_chain_options *options, mmc_chain **out,
                                mmci_error *error) {
  const int64_t batch = options->batch, *same = options->same;
  if (mmc_dtype_name(dtype) == NULL)
    return mmci_fail(error, MMC_E_ARG, "dtype: expected " MMCI_DTYPE_NAMES ", got number %d",
                     (int)dtype);
  if (batch < 0 || batch > MMCI_MAX_BATCH)
    return mmci_fail(error, MMC_E_ARG, "batch: expected 0 to 2^62, got %" PRId64, batch);
  mmc_status status = mmci_dims_check(n, dims, error);
  if (status == MMC_OK) status = check_ops(n, ops, error);
  if (status == MMC_OK) status = check_same(n, dims, ops, same, error);
  const int64_t groups = options->inverse_count,
                most = n < MMCI_MAX_INVERSES ? n : MMCI_MAX_INVERSES;
  if (status == MMC_OK && (groups < 0 || groups > most))
    status =
        mmci_fail(error, MMC_E_ARG,
                  "inverse_count: expected 0 to %" PRId64 " inverses, got %" PRId64, most, groups);
  if (status == MMC_OK && groups > 0 && options->inverses == NULL)
    status = mmci_fail(error, MMC_E_ARG, "inverses: expected inverse_count groups, got NULL");
  const room has = {.same = same != NULL,
                    .shared = options->shared != NULL,
                    .structure = options->traits != NULL || options->stored != NULL || groups > 0,
                    .inverses = groups};
  mmc_chain *chain;
  if (status == MMC_OK) status = allocate_chain(dtype, n, has, &chain, error);
  if (status != MMC_OK) return status;
  chain->batch = batch;
  memcpy(chain->dims, dims, (size_t)(n + 1) * sizeof *dims);
  for (int64_t i = 0; i < n; i++) chain->ops[i] = ops != NULL ? ops[i] : MMC_OP_N;
  for (int64_t i = 0; same != NULL && i < n; i++) chain->same[i] = (int32_t)same[i];
  for (int64_t i = 0; has.shared && i < n; i++) chain->shared[i] = options->shared[i];
  if (has.structure) status = add_structure(options, chain, error);
  if (status == MMC_OK) settle_shared(chain);
  if (status == MMC_OK)
    *out = chain;
  else
    mmc_chain_destroy(chain);
  return status;
}

mmc_status mmci_chain_create(mmc_dtype dtype, int64_t n, const int64_t *dims, const mmc_op *ops,
                             mmc_chain **out, mmci_error *error) {
  return mmci_chain_create_batch(dtype, n, dims, ops, 1, NULL, out, error);
}

/* Products of integers and over semirings gain nothing by what is stored twice, and have no
 * inverses. */
static mmc_status forget_structure(mmc_chain *chain, mmc_semiring semiring, mmci_error *error) {
  if (!mmci_dtype_is_integer(chain->dtype) && semiring == MMC_PLUS_TIMES) return MMC_OK;
  const bool claimed = mmci_chain_claims(chain);
  if (claimed && semiring != MMC_PLUS_TIMES)
    return mmci_fail_argument(error, MMC_E_ARG, "traits",
                              "expected none with semiring %s, whose zeros are others",
                              mmc_semiring_name(semiring));
  if (claimed)
    return mmci_fail_argument(error, MMC_E_ARG, "traits",
                              "expected a dtype of floating-point numbers with them, got %s",
                              mmc_dtype_name(chain->dtype));
  mmci_chain_forget_structure(chain);
  return MMC_OK;
}

static mmc_status set_semiring(mmc_chain *chain, const mmci_rule *rule, mmci_error *error) {
  mmc_status status = mmci_semiring_check(chain->dtype, rule->semiring, error);
  if (status != MMC_OK) return status;
  const char *name = rule->modulus != 0 ? "modulus" : "checked";
  if (rule->modulus != 0 || rule->checked)
    return mmci_fail_argument(error, MMC_E_ARG, name,
                              "expected semiring plus-times with it, got %s",
                              mmc_semiring_name(rule->semiring));
  for (int32_t i = 0; i < chain->n; i++)
    if (chain->ops[i] == MMC_OP_H)
      return mmci_fail_argument(error, MMC_E_ARG, "ops",
                                "expected N or T with semiring %s, which has no conjugates, got H",
                                mmc_semiring_name(rule->semiring));
  /* Those of bool are what its products are in any case. */
  chain->rule.semiring = rule->semiring == MMC_OR_AND ? MMC_PLUS_TIMES : rule->semiring;
  return MMC_OK;
}

mmc_status mmci_chain_set_rule(mmc_chain *chain, mmci_rule rule, mmci_error *error) {
  const char *name = rule.modulus != 0 ? "modulus" : "checked";
  mmc_status status = forget_structure(chain, rule.semiring, error);
  if (status == MMC_OK && rule.semiring != MMC_PLUS_TIMES) return set_semiring(chain, &rule, error);
  if (status != MMC_OK) return status;
  if (rule.modulus == 0 && !rule.checked) return MMC_OK;
  if (!mmci_dtype_is_integer(chain->dtype) || (rule.modulus != 0 && chain->dtype == MMC_BOOL))
    return mmci_fail_argument(error, MMC_E_ARG, name,
                              "expected a dtype of integers with it, got %s",
                              mmc_dtype_name(chain->dtype));
  if (rule.modulus != 0 && rule.checked)
    return mmci_fail_argument(error, MMC_E_ARG, "checked",
                              "expected no modulus with it, with which nothing overflows");
  uint64_t most = mmci_dtype_most(chain->dtype);
  most = most < INT64_MAX ? most + 1 : INT64_MAX;
  if (rule.modulus > most)
    return mmci_fail_argument(error, MMC_E_ARG, name,
                              "expected 1 to %" PRIu64 ", as %s holds its residues, got %" PRIu64,
                              most, mmc_dtype_name(chain->dtype), rule.modulus);
  chain->rule = rule;
  if (chain->dtype == MMC_BOOL) chain->rule.checked = false; /* it never overflows */
  return MMC_OK;
}

mmc_status mmci_chain_copy(const mmc_chain *chain, mmc_chain **out, mmci_error *error) {
  size_t n = (size_t)chain->n;
  mmc_chain *copy;
  const room has = {.same = chain->same != NULL,
                    .shared = chain->shared != NULL,
                    .structure = chain->traits != NULL,
                    .inverses = chain->inverse_count};
  mmc_status status = allocate_chain(chain->dtype, chain->n, has, &copy, error);
  if (status != MMC_OK) return status;
  copy->batch = chain->batch;
  copy->inverse_count = chain->inverse_count;
  copy->rule = chain->rule;
  memcpy(copy->dims, chain->dims, (n + 1) * sizeof *copy->dims);
  memcpy(copy->ops, chain->ops, n * sizeof *copy->ops);
  if (chain->same != NULL) memcpy(copy->same, chain->same, n * sizeof *copy->same);
  if (chain->shared != NULL) memcpy(copy->shared, chain->shared, n * sizeof *copy->shared);
  if (chain->traits != NULL) {
    memcpy(copy->traits, chain->traits, n * sizeof *copy->traits);
    memcpy(copy->bands, chain->bands, n * sizeof *copy->bands);
    memcpy(copy->stored, chain->stored, n * sizeof *copy->stored);
  }
  for (int32_t g = 0; g < chain->inverse_count; g++) copy->inverses[g] = chain->inverses[g];
  *out = copy;
  return MMC_OK;
}

void mmc_chain_destroy(mmc_chain *chain) {
  free(chain);
}

mmc_dtype mmc_chain_dtype(const mmc_chain *chain) {
  return chain != NULL ? chain->dtype : (mmc_dtype)0;
}
int64_t mmc_chain_length(const mmc_chain *chain) {
  return chain != NULL ? chain->n : 0;
}
const int64_t *mmc_chain_dims(const mmc_chain *chain) {
  return chain != NULL ? chain->dims : NULL;
}
const mmc_op *mmc_chain_ops(const mmc_chain *chain) {
  return chain != NULL ? chain->ops : NULL;
}

int64_t mmc_chain_same(const mmc_chain *chain, int64_t i) {
  if (chain == NULL || i < 0 || i >= chain->n) return -1;
  return chain->same != NULL ? chain->same[i] : i;
}

bool mmc_chain_shared(const mmc_chain *chain, int64_t i) {
  return chain != NULL && i >= 0 && i < chain->n && mmci_chain_shares(chain, i);
}

int64_t mmc_chain_stored(const mmc_chain *chain, int64_t i) {
  if (chain == NULL || i < 0 || i >= chain->n) return -1;
  return chain->stored != NULL ? chain->stored[i] : mmc_chain_same(chain, i);
}

uint32_t mmc_chain_traits(const mmc_chain *chain, int64_t i) {
  if (chain == NULL || chain->traits == NULL || i < 0 || i >= chain->n) return 0;
  return chain->traits[i];
}

mmc_band mmc_chain_band(const mmc_chain *chain, int64_t i) {
  if (chain == NULL || chain->traits == NULL || i < 0 || i >= chain->n) return (mmc_band){0, 0};
  return chain->bands[i];
}

const mmc_inverse *mmc_chain_inverses(const mmc_chain *chain, int64_t *count) {
  if (count != NULL) *count = chain != NULL ? chain->inverse_count : 0;
  return chain != NULL ? chain->inverses : NULL;
}

uint64_t mmc_chain_modulus(const mmc_chain *chain) {
  return chain != NULL ? chain->rule.modulus : 0;
}

bool mmc_chain_checked(const mmc_chain *chain) {
  return chain != NULL && chain->rule.checked;
}

mmc_semiring mmc_chain_semiring(const mmc_chain *chain) {
  if (chain == NULL) return MMC_PLUS_TIMES;
  return chain->dtype == MMC_BOOL ? MMC_OR_AND : chain->rule.semiring;
}

int64_t mmc_chain_batch(const mmc_chain *chain) {
  return chain != NULL ? chain->batch : 0;
}

/* ---- text form ----------------------------------------------------------------------------- */

static mmc_status fail_at(const char *text, const char *at, const char *expected,
                          mmci_error *error) {
  char found[16] = "the end";
  if (*at != '\0') snprintf(found, sizeof found, "'%.8s'", at);
  return mmci_fail(error, MMC_E_ARG, "chain, position %td: expected %s, got %s", at - text + 1,
                   expected, found);
}

/* Reads digits; returns where they end, or NULL when there are none or the number exceeds the
 * limit. */
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

/* Counts the factors, with their powers, of a text that begins at the dims; more than
 * MMCI_MAX_FACTORS stand for too many. Also says whether any factor is the same matrix as
 * another. */
static int64_t count_factors(const char *at, bool *repeats) {
  int64_t n = 0, power;
  *repeats = false;
  for (; *at != '\0' && *at != '@' && *at != ':' && *at != '=' && n <= MMCI_MAX_FACTORS; at++) {
    n += *at == 'x';
    if (*at != '^') continue;
    *repeats = true;
    if (n > 0 && parse_dim(at + 1, &power) != NULL && power > 0)
      n = power > MMCI_MAX_FACTORS ? power : n + power - 1;
  }
  *repeats = *repeats || strchr(at, '=') != NULL;
  return n;
}

/* A part of a text that is being read, from at to where it ends. */
typedef struct reader {
  const char *text, *at;
  mmc_chain *chain;
  mmci_error *error;
} reader;

static mmc_status read_number(reader *r, const char *expected, int64_t *out) {
  const char *end = parse_dim(r->at, out);
  if (end == NULL) return fail_at(r->text, r->at, expected, r->error);
  r->at = end;
  return MMC_OK;
}

/* Reads ^power of factor i, which is the same matrix so many times. */
static mmc_status read_power(reader *r, int64_t i, int64_t *power) {
  const int64_t *dims = r->chain->dims;
  *power = 1;
  if (*r->at != '^') return MMC_OK;
  if (dims[i] != dims[i + 1])
    return fail_at(r->text, r->at, "^ behind a square factor only, as in 64x64^8", r->error);
  r->at++;
  if (parse_dim(r->at, power) == NULL || *power == 0)
    return fail_at(r->text, r->at, "how many times, from 1, after ^", r->error);
  return read_number(r, "", power);
}

/* Reads p0xp1^power x ... xpn. */
static mmc_status read_dims(reader *r) {
  mmc_chain *chain = r->chain;
  mmc_status status = read_number(r, "a dim of 0 to 2^62", &chain->dims[0]);
  for (int64_t i = 0, power; i < chain->n && status == MMC_OK; i += power) {
    if (*r->at != 'x') return fail_at(r->text, r->at, "'x'", r->error);
    r->at++;
    status = read_number(r, "a dim of 0 to 2^62", &chain->dims[i + 1]);
    if (status == MMC_OK) status = read_power(r, i, &power);
    for (int64_t t = 0; t < power && status == MMC_OK; t++) {
      chain->dims[i + t + 1] = chain->dims[i + 1];
      chain->ops[i + t] = MMC_OP_N;
      if (chain->same != NULL) chain->same[i + t] = (int32_t)i;
    }
  }
  return status;
}

/* Says whether factor i continues a power whose first factor was written before. */
static bool goes_on(const mmc_chain *chain, int32_t i) {
  return chain->same != NULL && i > 0 && chain->same[i] == chain->same[i - 1];
}

/* Says whether factor i is not written because ^ behind the one before says it. */
static bool is_unwritten(const mmc_chain *chain, int32_t i) {
  return chain->traits == NULL && goes_on(chain, i);
}

/* Reads one letter for every factor that is written. */
static mmc_status read_ops(reader *r) {
  mmc_chain *chain = r->chain;
  for (int32_t i = 0; i < chain->n; i++) {
    if (goes_on(chain, i)) {
      chain->ops[i] = chain->ops[i - 1];
      if (chain->shared != NULL) chain->shared[i] = chain->shared[i - 1];
      continue;
    }
    if (!mmci_op_read(*r->at, chain, i))
      return fail_at(r->text, r->at, "N, T or H for every factor, of a shared one n, t or h",
                     r->error);
    r->at++;
  }
  return MMC_OK;
}

/* Says whether factors are told by words and not by letters. No word consists of n, t and h. */
static bool has_words(const char *at) {
  size_t letters = strcspn(at, "=");
  for (size_t i = 0; i < letters; i++)
    if (at[i] == ',' || at[i] == '(' ||
        (at[i] >= 'a' && at[i] <= 'z' && strchr(MMCI_SHARED_OPS, at[i]) == NULL))
      return true;
  return false;
}

static mmc_status read_words(reader *r) {
  const char *expected = "";
  if (mmci_structure_read(&r->at, r->chain, &expected)) return MMC_OK;
  return fail_at(r->text, r->at, expected, r->error);
}

static bool has_same_claims(const mmc_chain *chain, int32_t i, int32_t j) {
  const claims x = settled_claims(chain, i), y = settled_claims(chain, j);
  return x.traits == y.traits && x.band.below == y.band.below && x.band.above == y.band.above;
}

/* Says whether factor i may be the same matrix as factor f, and notes with which op. Of a chain
 * that says what is stored, versions links the factors that are one matrix with different ops or
 * traits, from the first of them on; -1 ends it. */
static bool take_same(mmc_chain *chain, int32_t i, int64_t f, int32_t *versions) {
  if (f < 0 || f > i) return false;
  bool alike = chain->same[f] == f && chain->dims[f] == chain->dims[i] &&
               chain->dims[f + 1] == chain->dims[i + 1] && chain->ops[f] == chain->ops[i];
  if (chain->stored == NULL) {
    if (alike) chain->same[i] = (int32_t)f;
    return alike;
  }
  if (chain->stored[f] != f || !may_share(chain, i, (int32_t)f)) return false;
  chain->stored[i] = (int32_t)f;
  chain->same[i] = i;
  if (f == i) return true;
  for (int32_t j = (int32_t)f; j >= 0 && chain->same[i] == i; j = versions[j])
    if (chain->ops[j] == chain->ops[i] && has_same_claims(chain, i, j)) chain->same[i] = j;
  if (chain->same[i] != i) return true;
  versions[i] = versions[f];
  versions[f] = i;
  return true;
}

/* Reads one number for every factor that is written, counted from 1: that of the first factor that
 * is the same matrix. */
static mmc_status read_numbers(reader *r, int32_t *versions) {
  mmc_chain *chain = r->chain;
  int32_t begin = 0, begin_same = 0; /* where what ^ repeats begins */
  for (int32_t i = 0; i < chain->n; i++) {
    if (i > 0 && chain->same[i] == begin) {
      chain->same[i] = begin_same;
      if (chain->stored != NULL) chain->stored[i] = chain->stored[begin];
      continue;
    }
    if (i > 0 && *r->at != ',') return fail_at(r->text, r->at, "',' and a number", r->error);
    r->at += i > 0;
    int64_t first;
    const char *end = parse_dim(r->at, &first);
    if (end == NULL || !take_same(chain, i, first - 1, versions))
      return fail_at(r->text, r->at,
                     "the number, from 1, of the first factor that is the same matrix, of the same "
                     "shape",
                     r->error);
    r->at = end;
    begin = i;
    begin_same = chain->same[i];
  }
  return MMC_OK;
}

static mmc_status read_same(reader *r) {
  const size_t n = (size_t)r->chain->n;
  if (r->chain->stored == NULL) return read_numbers(r, NULL);
  int32_t *versions = mmci_alloc_array(n, sizeof *versions);
  if (versions == NULL) return mmci_fail_nomem(r->error, n * sizeof *versions);
  for (size_t i = 0; i < n; i++) versions[i] = -1;
  mmc_status status = read_numbers(r, versions);
  free(versions);
  return status;
}

static mmc_status read_chain(reader *r) {
  mmc_status status = read_dims(r);
  if (status == MMC_OK && *r->at == '@') {
    r->at++;
    status = read_number(r, "a batch of 0 to 2^62 chains", &r->chain->batch);
  }
  if (status == MMC_OK && *r->at == ':') {
    r->at++;
    status = has_words(r->at) ? read_words(r) : read_ops(r);
  }
  if (status == MMC_OK && *r->at == '=') {
    r->at++;
    status = read_same(r);
  }
  if (status == MMC_OK && *r->at != '\0') status = fail_at(r->text, r->at, "the end", r->error);
  if (status == MMC_OK && r->chain->traits != NULL) {
    status = check_structure(r->chain, r->error);
    if (status == MMC_OK) settle_structure(r->chain);
  }
  if (status == MMC_OK) settle_shared(r->chain);
  return status;
}

/* Returns what a text from the dims on needs room for. */
static room room_of(const char *at, bool repeats) {
  const char *colon = strchr(at, ':');
  room has = {.same = repeats};
  if (colon == NULL) return has;
  has.shared = strpbrk(colon, MMCI_SHARED_OPS) != NULL;
  has.structure = has_words(colon + 1) || strchr(at, '=') != NULL;
  for (const char *c = colon; *c != '\0'; c++)
    has.inverses += *c == '(' && !(c[-1] >= 'a' && c[-1] <= 'z'); /* and not "banded(" */
  return has;
}

/* Reads what precedes the dims, "i64%1000000007:", where there is anything; *end says where that
 * is. */
static mmc_status read_dtype(const char *text, mmc_dtype *dtype, mmci_rule *rule, const char **end,
                             mmci_error *error) {
  *end = text;
  if (*text >= '0' && *text <= '9') return MMC_OK;
  const char *colon = strchr(text, ':');
  size_t length = colon != NULL ? strcspn(text, ":%!~") : 0;
  if (colon == NULL || !mmci_dtype_read(text, length, dtype))
    return fail_at(
        text, text,
        "f32:, f64:, c64:, c128:, f16:, bf16:, i8: to i64:, u8: to u64:, bool: or a dim, "
        "as in f64:10x30x5x60",
        error);
  const char *at = text + length;
  if (*at == '%') {
    const char *digits = ++at;
    for (; *at >= '0' && *at <= '9'; at++)
      if (__builtin_mul_overflow(rule->modulus, 10, &rule->modulus) ||
          __builtin_add_overflow(rule->modulus, (uint64_t)(*at - '0'), &rule->modulus))
        rule->modulus = UINT64_MAX;
    if (at == digits || rule->modulus == 0 || rule->modulus > INT64_MAX)
      return fail_at(text, digits, "a modulus of 1 to 2^63 - 1", error);
  } else if (*at == '!') {
    rule->checked = true;
    at++;
  } else if (*at == '~') {
    const size_t name = strcspn(++at, ":");
    if (!mmci_semiring_read(at, name, &rule->semiring))
      return fail_at(text, at, "plus-times, max-plus, min-plus, log or or-and", error);
    at += name;
  }
  if (*at != ':') return fail_at(text, at, "':' behind the dtype", error);
  *end = at + 1;
  return MMC_OK;
}

mmc_status mmci_chain_parse(const char *text, mmc_chain **out, mmci_error *error) {
  if (text == NULL) return mmci_fail(error, MMC_E_ARG, "chain: expected text, got NULL");

  mmc_dtype dtype = MMC_F64;
  mmci_rule rule = {0};
  const char *at;
  mmc_status status = read_dtype(text, &dtype, &rule, &at, error);
  if (status != MMC_OK) return status;

  bool repeats;
  int64_t n = count_factors(at, &repeats);
  if (n == 0) {
    int64_t dim;
    const char *end = parse_dim(at, &dim);
    return end == NULL ? fail_at(text, at, "a dim of 0 to 2^62", error)
                       : fail_at(text, end, "'x' and a second dim, as in 10x30", error);
  }
  /* A text without ^ is longer than its chain; one with ^ must not ask for memory out of proportion
   * to its length. */
  if (strchr(at, '^') != NULL && n > MMCI_MAX_FACTORS_OF_POWERS)
    return mmci_fail(error, MMC_E_ARG,
                     "chain: expected at most %d factors where ^ repeats some, got %" PRId64,
                     MMCI_MAX_FACTORS_OF_POWERS, n);
  status = check_length(n, error);
  const room has = room_of(at, repeats);
  if (status == MMC_OK && has.inverses > MMCI_MAX_INVERSES)
    status = mmci_fail(error, MMC_E_ARG,
                       "chain: expected at most %d groups in parentheses, got %" PRId64,
                       MMCI_MAX_INVERSES, has.inverses);
  mmc_chain *chain;
  if (status == MMC_OK) status = allocate_chain(dtype, n, has, &chain, error);
  if (status != MMC_OK) return status;
  status = read_chain(&(reader){text, at, chain, error});
  if (status == MMC_OK) status = mmci_chain_set_rule(chain, rule, error);
  if (status == MMC_OK)
    *out = chain;
  else
    mmc_chain_destroy(chain);
  return status;
}

/* Returns the factor whose number a text gives for factor i. */
static int32_t first_of(const mmc_chain *chain, int32_t i) {
  if (chain->stored != NULL) return chain->stored[i];
  return chain->same != NULL ? chain->same[i] : i;
}

mmc_status mmc_chain_write(const mmc_chain *chain, mmc_write_fn write, void *user) {
  if (chain == NULL || write == NULL) return MMC_E_ARG;
  mmci_text text;
  mmci_text_start(&text, write, user);
  mmci_text_printf(&text, "%s", mmc_dtype_name(chain->dtype));
  if (chain->rule.modulus != 0) mmci_text_printf(&text, "%%%" PRIu64, chain->rule.modulus);
  if (chain->rule.semiring != MMC_PLUS_TIMES)
    mmci_text_printf(&text, "~%s", mmc_semiring_name(chain->rule.semiring));
  mmci_text_printf(&text, "%s:%" PRId64, chain->rule.checked ? "!" : "", chain->dims[0]);
  bool plain = true, apart = true;
  for (int32_t i = 0, end; i < chain->n; i = end) {
    for (end = i + 1; end < chain->n && is_unwritten(chain, end);) end++;
    mmci_text_printf(&text, "x%" PRId64, chain->dims[i + 1]);
    if (end - i > 1) mmci_text_printf(&text, "^%" PRId32, end - i);
    plain = plain && chain->ops[i] == MMC_OP_N && !mmc_chain_shared(chain, i);
    apart = apart && first_of(chain, i) == i;
  }
  if (chain->batch != 1) mmci_text_printf(&text, "@%" PRId64, chain->batch);
  if (chain->traits != NULL) {
    mmci_structure_write(chain, &text);
    plain = true;
  }
  if (!plain) mmci_text_bytes(&text, ":", 1);
  for (int32_t i = 0; i < chain->n && !plain; i++)
    if (!is_unwritten(chain, i)) mmci_text_printf(&text, "%c", mmci_op_letter(chain, i));
  for (int32_t i = 0; i < chain->n && !apart; i++)
    if (!is_unwritten(chain, i))
      mmci_text_printf(&text, "%c%" PRId32, i == 0 ? '=' : ',', first_of(chain, i) + 1);
  return mmci_text_finish(&text, NULL);
}

void mmci_chain_product_turn(const mmc_chain *chain, int64_t i, int64_t k, int64_t j,
                             mmci_gemm *gemm) {
  const int64_t rows = chain->dims[i], terms = chain->dims[k], cols = chain->dims[j];
  gemm->m = rows;
  gemm->k = terms;
  gemm->n = cols;
  mmci_form_tighten(&gemm->a, chain->dtype, rows, terms, k == i + 1 ? chain->ops[i] : MMC_OP_N);
  mmci_form_tighten(&gemm->b, chain->dtype, terms, cols, j == k + 1 ? chain->ops[k] : MMC_OP_N);
  gemm->ldc = cols > 0 ? cols : 1;
  mmci_gemm_choose_sums(gemm);
}

void mmci_chain_product(const mmc_chain *chain, mmci_precision precision, int64_t i, int64_t k,
                        int64_t j, mmci_gemm *out) {
  *out = (mmci_gemm){.dtype = chain->dtype, .precision = precision, .rule = chain->rule};
  mmci_chain_product_turn(chain, i, k, j, out);
}
