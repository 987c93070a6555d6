/* bench_cards.c: chains on several GPUs of this host against one of them.
 *
 *     bench_cards DEVICE ROUNDS CHAIN [PRECISION] ...
 *
 * Factors lie in the cards' memory: on one card whole, on several in the pieces that the plan asks
 * for. Both are executed in turns; a line says the medians, their ratio, and the largest difference
 * of elements of the two results, relative to the largest element. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

enum { ROUNDS_MAX = 200, FACTORS_MAX = 64, CARDS_MAX = 16, SAMPLES = 4096 };

static mmc_context *context;

static void fail(const char *what) {
  char message[480];
  mmc_context_message(context, message, sizeof message);
  fprintf(stderr, "bench_cards: %s: %s\n", what, message);
  exit(1);
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Elements are those of a table of random numbers. */
enum { TABLE = 1 << 20 };

static uint64_t next(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static uint16_t bf16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static double of_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static char *make_table(mmc_dtype dtype) {
  const size_t size = mmc_dtype_size(dtype);
  char *table = malloc((size_t)TABLE * size);
  uint64_t state = 88172645463325252;
  if (table == NULL) exit(1);
  for (size_t i = 0; i < TABLE; i++) {
    const double unit = (double)(next(&state) >> 11) * 0x1p-53 - 0.5;
    const float single = (float)(unit / 32);
    const uint16_t half = bf16_of(single);
    const double wide = unit / 32;
    memcpy(table + i * size,
           dtype == MMC_F64    ? (const void *)&wide
           : dtype == MMC_BF16 ? (const void *)&half
                               : (const void *)&single,
           size);
  }
  return table;
}

static double element(mmc_dtype dtype, const char *at) {
  double wide;
  float single;
  uint16_t half;
  memcpy(&half, at, sizeof half);
  if (dtype == MMC_BF16) return of_bf16(half);
  memcpy(&single, at, sizeof single);
  if (dtype == MMC_F32) return single;
  memcpy(&wide, at, sizeof wide);
  return wide;
}

/* ---- matrices -------------------------------------------------------------------------------- */

typedef struct held {
  mmc_matrix matrices[FACTORS_MAX + 1][CARDS_MAX];
  mmc_memory *memories[FACTORS_MAX + 1][CARDS_MAX];
  mmc_pieces pieces[FACTORS_MAX + 1];
} held;

static void release(held *h) {
  for (int i = 0; i <= FACTORS_MAX; i++)
    for (int c = 0; c < CARDS_MAX; c++) mmc_memory_destroy(h->memories[i][c]);
  free(h);
}

/* Puts a factor, or room for the result, where it is to be. Every row is a part of the table, and
 * its number says which, so that pieces of a matrix hold what the whole holds. */
static void put(held *h, const mmc_plan *plan, int64_t i, int64_t rows, int64_t cols,
                mmc_dtype dtype, const char *table, mmc_cut cut) {
  const int64_t count = mmc_plan_device_count(plan);
  h->pieces[i] = (mmc_pieces){cut, h->matrices[i]};
  for (int64_t c = 0; c < (cut == MMC_CUT_NONE ? 1 : count); c++) {
    int64_t row = 0, col = 0, height = rows, width = cols;
    if (cut == MMC_CUT_ROWS) {
      height = (rows + count - 1) / count;
      row = c * height;
      if (row + height > rows) height = rows - row;
    } else if (cut == MMC_CUT_COLS) {
      width = (cols + count - 1) / count;
      col = c * width;
      if (col + width > cols) width = cols - col;
    }
    mmc_memory *memory;
    const size_t size = mmc_dtype_size(dtype);
    if (mmc_memory_create(context, mmc_plan_device_name(plan, c),
                          (size_t)height * (size_t)width * size, &memory) != MMC_OK)
      fail("memory");
    enum { BLOCK = 64 };
    char *block = malloc((size_t)BLOCK * (size_t)width * size);
    if (block == NULL) exit(1);
    for (int64_t r = 0; table != NULL && r < height; r += BLOCK) {
      const int64_t lines = height - r < BLOCK ? height - r : BLOCK;
      for (int64_t l = 0; l < lines; l++) {
        uint64_t state = (uint64_t)(i + 1) * 1000003u + (uint64_t)(row + r + l) * 2654435761u;
        const size_t from = (size_t)(next(&state) % (TABLE / 2));
        if (width > TABLE / 2 - col) fail("columns"); /* the table is longer than rows */
        memcpy(block + (size_t)(l * width) * size, table + (from + (size_t)col) * size,
               (size_t)width * size);
      }
      if (mmc_memory_write(memory, (size_t)(r * width) * size, block,
                           (size_t)(lines * width) * size) != MMC_OK)
        fail("writing");
    }
    free(block);
    h->memories[i][c] = memory;
    h->matrices[i][c] = (mmc_matrix){
        .data = mmc_memory_address(memory), .rows = height, .cols = width, .location = MMC_DEVICE};
  }
}

static double sample(const held *h, int64_t n, mmc_dtype dtype, int64_t row, int64_t col,
                     int64_t rows, int64_t cols, int64_t count) {
  const mmc_cut cut = h->pieces[n].cut;
  const int64_t height = (rows + count - 1) / count, width = (cols + count - 1) / count;
  const int64_t c = cut == MMC_CUT_ROWS ? row / height : cut == MMC_CUT_COLS ? col / width : 0;
  if (cut == MMC_CUT_ROWS) row -= c * height;
  if (cut == MMC_CUT_COLS) col -= c * width;
  const size_t size = mmc_dtype_size(dtype);
  char bytes[16];
  if (mmc_memory_read(h->memories[n][c], (size_t)(row * h->matrices[n][c].cols + col) * size, bytes,
                      size) != MMC_OK)
    fail("reading");
  return element(dtype, bytes);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static void measure(const char *device, int rounds, const char *text, const char *precision) {
  mmc_chain *chain;
  if (mmc_chain_parse(context, text, &chain) != MMC_OK) fail(text);
  const int64_t n = mmc_chain_length(chain), *dims = mmc_chain_dims(chain);
  const mmc_dtype dtype = mmc_chain_dtype(chain);
  char first[32];
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.precision = precision;
  options.location = MMC_DEVICE;
  options.device = device;
  mmc_plan *plans[2];
  mmc_run *runs[2];
  if (mmc_plan_create(context, chain, &options, &plans[1]) != MMC_OK) fail("plan");
  snprintf(first, sizeof first, "%s", mmc_plan_device_name(plans[1], 0));
  options.device = first;
  options.objective = "time";
  if (mmc_plan_create(context, chain, &options, &plans[0]) != MMC_OK) fail("plan");
  for (int p = 0; p < 2; p++)
    if (mmc_run_create(plans[p], &runs[p]) != MMC_OK) fail("run");
  char *table = make_table(dtype);
  held *h[2];
  double seconds[2][ROUNDS_MAX];
  const int64_t count = mmc_plan_device_count(plans[1]);
  const bool alone = mmc_plan_cut(plans[1], 0) == MMC_CUT_NONE;
  for (int p = 0; p < 2; p++) {
    h[p] = calloc(1, sizeof *h[p]);
    if (h[p] == NULL) exit(1);
    for (int64_t i = 0; i <= n; i++)
      put(h[p], plans[p], i, dims[i < n ? i : 0], dims[i < n ? i + 1 : n], dtype,
          i < n ? table : NULL, p == 0 ? MMC_CUT_NONE : mmc_plan_cut(plans[1], i));
  }
  mmc_matrix factors[2][FACTORS_MAX];
  for (int p = 0; p < 2; p++)
    for (int64_t i = 0; i < n; i++) factors[p][i] = h[p]->matrices[i][0];
  for (int r = -2; r < rounds; r++)
    for (int p = 0; p < 2; p++) {
      const double begin = now_s();
      const mmc_status status = p == 0 || alone
                                    ? mmc_execute(runs[p], factors[p], &h[p]->matrices[n][0])
                                    : mmc_execute_pieces(runs[p], h[p]->pieces, &h[p]->pieces[n]);
      if (status != MMC_OK) fail("execute");
      if (r >= 0) seconds[p][r] = now_s() - begin;
    }
  double largest = 0, difference = 0;
  uint64_t state = 42;
  for (int s = 0; s < SAMPLES; s++) {
    const int64_t row = (int64_t)(next(&state) % (uint64_t)dims[0]);
    const int64_t col = (int64_t)(next(&state) % (uint64_t)dims[n]);
    const double x = sample(h[0], n, dtype, row, col, dims[0], dims[n], 1);
    const double y = sample(h[1], n, dtype, row, col, dims[0], dims[n], count);
    if (!(fabs(x) <= largest)) largest = fabs(x);
    if (!(fabs(x - y) <= difference)) difference = fabs(x - y);
  }
  for (int p = 0; p < 2; p++) qsort(seconds[p], (size_t)rounds, sizeof(double), ascending);
  printf("%-60s %-8s one %.4f ms, %s %.4f ms (%.4f to %.4f), ratio %.3f, difference %.2g%s\n", text,
         precision, 1e3 * seconds[0][rounds / 2], device, 1e3 * seconds[1][rounds / 2],
         1e3 * seconds[1][0], 1e3 * seconds[1][rounds - 1],
         seconds[0][rounds / 2] / seconds[1][rounds / 2], difference / largest,
         alone ? ", alone" : "");
  fflush(stdout);
  for (int p = 0; p < 2; p++) {
    release(h[p]);
    mmc_run_destroy(runs[p]);
    mmc_plan_destroy(plans[p]);
  }
  free(table);
  mmc_chain_destroy(chain);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: bench_cards DEVICE ROUNDS CHAIN [native|faithful|fast] ...\n");
    return 2;
  }
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  const int rounds = atoi(argv[2]) < 1            ? 1
                     : atoi(argv[2]) > ROUNDS_MAX ? ROUNDS_MAX
                                                  : atoi(argv[2]);
  for (int a = 3; a < argc; a++) {
    const char *next_word = a + 1 < argc ? argv[a + 1] : "";
    const bool named = strcmp(next_word, "native") == 0 || strcmp(next_word, "faithful") == 0 ||
                       strcmp(next_word, "fast") == 0;
    measure(argv[1], rounds, argv[a], named ? next_word : "native");
    a += named;
  }
  mmc_context_destroy(context);
  return 0;
}
