#include "random.h"

#include <math.h>
#include <stdlib.h>

#include "half.h"
#include "kinds_fill.h"

/* ---- numbers --------------------------------------------------------------------------------- */

#define STEP UINT64_C(0x9E3779B97F4A7C15)

static uint64_t next_bits(uint64_t *state) {
  uint64_t z = *state += STEP;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

cli_random cli_random_start(uint64_t seed, uint64_t stream) {
  uint64_t state = seed;
  uint64_t mixed = next_bits(&state) ^ stream;
  return (cli_random){.state = next_bits(&mixed)};
}

uint64_t cli_random_bits(cli_random *random) {
  return next_bits(&random->state);
}

double cli_random_normal(cli_random *random) {
  if (random->has_spare) {
    random->has_spare = false;
    return random->spare;
  }
  const double two_pi = 6.283185307179586477;
  double u = (double)((next_bits(&random->state) >> 11) + 1) * 0x1p-53;
  double v = (double)(next_bits(&random->state) >> 11) * 0x1p-53;
  double radius = sqrt(-2 * log(u));
  random->spare = radius * sin(two_pi * v);
  random->has_spare = true;
  return radius * cos(two_pi * v);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Numbers that a thread makes in a row; even, as they come in pairs. */
enum { BLOCK = 1 << 16 };

static void fill_elements(cli_random *random, mmc_dtype dtype, size_t begin, size_t end,
                          double scale, void *data) {
  bool is_single = dtype == MMC_F32 || dtype == MMC_C64, is_half = cli_is_half(dtype);
  uint16_t *halves = data;
  float *singles = data;
  double *doubles = data;
  for (size_t i = begin; i < end; i++) {
    double value = scale * cli_random_normal(random);
    if (is_half)
      halves[i] = cli_half_round(dtype, value);
    else if (is_single)
      singles[i] = (float)value;
    else
      doubles[i] = value;
  }
}

bool cli_dtype_is_integer(mmc_dtype dtype) {
  return dtype >= MMC_I8;
}

/* How integers are drawn: least + bits mod count; a count of 0 stands for 2^64. */
typedef struct integers {
  uint64_t least, count;
} integers;

static integers integers_of(const mmc_chain *chain) {
  const mmc_dtype dtype = mmc_chain_dtype(chain);
  const int64_t *dims = mmc_chain_dims(chain), n = mmc_chain_length(chain);
  const size_t bits = 8 * mmc_dtype_size(dtype);
  bool is_signed = dtype < MMC_U8;
  if (dtype == MMC_BOOL) return (integers){0, 2};
  if (mmc_chain_modulus(chain) != 0) return (integers){0, mmc_chain_modulus(chain)};
  if (!mmc_chain_checked(chain)) return (integers){0, bits < 64 ? UINT64_C(1) << bits : 0};
  double most = ldexp(1, (int)bits - is_signed);
  for (int64_t i = 1; i < n; i++) most /= dims[i] > 0 ? (double)dims[i] : 1;
  double root = floor(pow(most, 1 / (double)n) * (1 - 0x1p-40));
  uint64_t side = root < 1 ? 1 : root > 0x1p62 ? UINT64_C(1) << 62 : (uint64_t)root;
  return is_signed ? (integers){0 - side, 2 * side + 1} : (integers){0, side + 1};
}

static void put_integer(size_t size, uint64_t value, void *data, size_t i) {
  if (size == 1)
    ((uint8_t *)data)[i] = (uint8_t)value;
  else if (size == 2)
    ((uint16_t *)data)[i] = (uint16_t)value;
  else if (size == 4)
    ((uint32_t *)data)[i] = (uint32_t)value;
  else
    ((uint64_t *)data)[i] = value;
}

/* Fills count elements with integers. */
static void fill_integers(cli_random *random, mmc_dtype dtype, integers of, size_t count,
                          void *data) {
  const size_t size = mmc_dtype_size(dtype);
  const uint64_t start = random->state;
  int64_t blocks = (int64_t)((count + BLOCK - 1) / BLOCK);
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (int64_t b = 0; b < blocks; b++) {
    size_t first = (size_t)b * BLOCK, end = b == blocks - 1 ? count : first + BLOCK;
    uint64_t state = start + first * STEP;
    for (size_t i = first; i < end; i++) {
      uint64_t bits = next_bits(&state);
      put_integer(size, of.least + (of.count != 0 ? bits % of.count : bits), data, i);
    }
  }
  random->state = start + count * STEP;
}

void cli_random_fill(cli_random *random, mmc_dtype dtype, size_t count, double scale, void *data) {
  if (dtype == MMC_C64 || dtype == MMC_C128) {
    count *= 2;
    scale *= sqrt(0.5);
  }
  size_t begin = random->has_spare && count > 0 ? 1 : 0;
  fill_elements(random, dtype, 0, begin, scale, data);
  /* Every number takes one step of the state, so the first of a block is known without those
   * before. */
  const cli_random start = *random;
  int64_t blocks = (int64_t)((count - begin + BLOCK - 1) / BLOCK);
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (int64_t b = 0; b < blocks; b++) {
    cli_random own = start;
    size_t first = begin + (size_t)b * BLOCK;
    own.state += (first - begin) * STEP;
    fill_elements(&own, dtype, first, b == blocks - 1 ? count : first + BLOCK, scale, data);
    if (b == blocks - 1) *random = own;
  }
}

mmc_matrix cli_stored_factor(const mmc_chain *chain, int64_t i) {
  const int64_t *dims = mmc_chain_dims(chain);
  bool turned = mmc_chain_ops(chain)[i] != MMC_OP_N;
  return (mmc_matrix){
      .rows = dims[turned ? i + 1 : i], .cols = dims[turned ? i : i + 1], .layout = MMC_ROW_MAJOR};
}

void cli_random_fill_factor(const mmc_chain *chain, int64_t i, uint64_t seed, void *data,
                            mmc_progress_fn progress, void *user) {
  enum { PART = 1 << 24 }; /* elements; even, as numbers come in pairs */
  const int64_t *dims = mmc_chain_dims(chain);
  mmc_dtype dtype = mmc_chain_dtype(chain);
  size_t count = (size_t)cli_factor_count(chain, i) * (size_t)dims[i] * (size_t)dims[i + 1];
  cli_random random = cli_random_start(seed, (uint64_t)i);
  for (size_t begin = 0; begin < count; begin += PART) {
    size_t part = count - begin < PART ? count - begin : PART;
    void *to = (char *)data + begin * mmc_dtype_size(dtype);
    if (cli_dtype_is_integer(dtype))
      fill_integers(&random, dtype, integers_of(chain), part, to);
    else
      cli_random_fill(&random, dtype, part, 1 / sqrt((double)dims[i + 1]), to);
    if (progress != NULL && progress(user, (double)(begin + part) / (double)count) != 0) return;
  }
  cli_kinds_fill(chain, i, &random, data);
}

int64_t cli_factor_count(const mmc_chain *chain, int64_t i) {
  return mmc_chain_shared(chain, i) ? 1 : mmc_chain_batch(chain);
}

double cli_matrix_bytes(mmc_dtype dtype, int64_t batch, int64_t rows, int64_t cols) {
  return (double)batch * (double)rows * (double)cols * (double)mmc_dtype_size(dtype);
}

bool cli_matrix_allocate(mmc_dtype dtype, int64_t batch, mmc_matrix *matrix) {
  double bytes = cli_matrix_bytes(dtype, batch, matrix->rows, matrix->cols);
  if (bytes == 0) return true;
  matrix->stride = batch > 1 ? matrix->rows * matrix->cols : 0;
  const double exact = 0x1p53; /* more bytes than any machine has */
  matrix->data = bytes < exact ? malloc((size_t)bytes) : NULL;
  return matrix->data != NULL;
}
