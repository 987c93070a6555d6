/* test_structured.c: chains whose factors have structure, against loops in double precision: every
 * trait, op, side, dtype and layout, sides of 0, 1 and what is no multiple of anything.
 *
 * test_structured [COUNT [SEED]] draws so many chains. */
#include <mmchain.h>

#include "../structured_chains.h"
#include "chain/structured.h"

static int executed, left_out, kernels[64];
static double worst;

/* A matrix as it lies, with a guard behind every line. */
static mmc_matrix lay_out(uint64_t *state, mmc_dtype dtype, int64_t rows, int64_t cols) {
  mmc_matrix x = {.rows = rows, .cols = cols, .layout = (mmc_layout)random_below(state, 2)};
  int64_t length = x.layout == MMC_ROW_MAJOR ? cols : rows,
          lines = x.layout == MMC_ROW_MAJOR ? rows : cols;
  x.ld = length + random_below(state, 3);
  size_t bytes = (size_t)(x.ld * lines + 1) * mmc_dtype_size(dtype);
  x.data = malloc(bytes);
  memset(x.data, 0x7f, bytes);
  return x;
}

static unsigned char *place(const mmc_matrix *x, mmc_dtype dtype, int64_t r, int64_t c) {
  int64_t at = x->layout == MMC_ROW_MAJOR ? r * x->ld + c : c * x->ld + r;
  return (unsigned char *)x->data + (size_t)at * mmc_dtype_size(dtype);
}

static mmc_matrix store(uint64_t *state, mmc_dtype dtype, const dense *x) {
  mmc_matrix out = lay_out(state, dtype, x->rows, x->cols);
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++) {
      double complex value = x->at[r * x->cols + c];
      element_write(dtype, place(&out, dtype, r, c), (element){creal(value), cimag(value)});
    }
  return out;
}

static bool guards_are_kept(const mmc_matrix *x, mmc_dtype dtype) {
  int64_t length = x->layout == MMC_ROW_MAJOR ? x->cols : x->rows,
          lines = x->layout == MMC_ROW_MAJOR ? x->rows : x->cols;
  size_t size = mmc_dtype_size(dtype);
  bool kept = true;
  for (int64_t l = 0; l < lines; l++)
    for (size_t b = (size_t)(l * x->ld + length) * size; b < (size_t)((l + 1) * x->ld) * size; b++)
      kept = kept && ((const unsigned char *)x->data)[b] == 0x7f;
  return kept;
}

static double difference(const mmc_matrix *x, mmc_dtype dtype, const dense *y) {
  double most = 0;
  for (int64_t r = 0; r < y->rows; r++)
    for (int64_t c = 0; c < y->cols; c++) {
      element e = element_read(dtype, place(x, dtype, r, c));
      double d =
          cabs(CMPLX(e.re, mmci_dtype_is_complex(dtype) ? e.im : 0) - y->at[r * y->cols + c]);
      if (!(d <= most)) most = d;
    }
  return most;
}

static void count_kernels(const mmc_plan *plan) {
  for (int64_t s = 0; s < mmc_plan_step_count(plan); s++)
    for (int k = 0; k < MMCI_STRUCTURE_KERNELS; k++)
      kernels[k] += strcmp(mmc_plan_step_kernel(plan, s),
                           mmci_structure_kernel_name((mmci_structure_kernel)k)) == 0;
}

/* Executes a chain, and compares. */
static void check_made(mmc_context *context, uint64_t seed, uint64_t *state, structured_chain *made,
                       const mmc_plan_options *options) {
  structured_chain x = *made;
  double growth = 1;
  bool singular = false;
  dense wanted = structured_product(&x, 0, x.n, false, &growth, &singular);
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_matrix factors[CHAIN_MOST], out = lay_out(state, x.dtype, x.dims[0], x.dims[x.n]);
  for (int64_t i = 0; i < x.n; i++)
    factors[i] = x.stored[i] == i ? store(state, x.dtype, &x.values[i]) : factors[x.stored[i]];
  mmc_status status = mmc_plan_create(context, x.chain, options, &plan);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
  char text[512];
  mmc_context_message(context, text, sizeof text);
  double tolerance = 64 * dtype_facts[x.dtype].epsilon * growth * SIDE_MOST;
  if (singular || growth > 1e5) {
    left_out++;
  } else if (status != MMC_OK) {
    fail(&x, seed, text);
  } else {
    double d = difference(&out, x.dtype, &wanted);
    executed++;
    count_kernels(plan);
    if (d / tolerance > worst) worst = d / tolerance;
    if (!(d <= tolerance)) {
      snprintf(text, sizeof text, "differs by %g, tolerance %g", d, tolerance);
      fail(&x, seed, text);
    }
    if (!guards_are_kept(&out, x.dtype)) fail(&x, seed, "wrote between lines");
  }
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  for (int64_t i = 0; i < x.n; i++)
    if (x.stored[i] == i) free(factors[i].data);
  free(out.data);
  free(wanted.at);
  structured_chain_free(&x);
}

static void check_chain(mmc_context *context, uint64_t seed) {
  static const int64_t some[] = {1, 2, 3, 7, 17, 33, 40, 0};
  uint64_t state = seed;
  structured_chain x;
  const int64_t sides[2] = {some[random_below(&state, 7)], some[random_below(&state, 8)]};
  if (!structured_chain_make(&state, (mmc_dtype)random_below(&state, 4), CHAIN_MOST, sides, &x)) {
    fail(&x, seed, "no chain");
    return;
  }
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  if (random_bits(&state) % 2 != 0) options.objective = "time";
  if (x.inverse_count == 0 && random_below(&state, 4) == 0) options.solver = "left-to-right";
  check_made(context, seed, &state, &x, &options);
}

/* A vector on either side of a symmetric or Hermitian matrix large enough for half of it to be
 * read.
 */
static void check_vector(mmc_context *context, uint64_t seed) {
  uint64_t state = seed;
  const bool right = random_bits(&state) % 2 != 0;
  structured_chain x = {.dtype = (mmc_dtype)random_below(&state, 4), .n = 2};
  const int64_t side = 150 + random_below(&state, 9);
  for (int64_t i = 0; i < 2; i++) {
    const bool square = right == (i == 1);
    x.dims[i] = square || i == 1 ? side : 1;
    x.dims[i + 1] = square || i == 0 ? side : 1;
    x.ops[i] = (mmc_op)random_below(&state, 3);
    x.stored[i] = i;
    x.traits[i] = square ? MMC_HERMITIAN : 0;
    const bool turned = x.ops[i] != MMC_OP_N;
    x.values[i] = random_matrix(&state, x.dtype, turned ? x.dims[i + 1] : x.dims[i],
                                turned ? x.dims[i] : x.dims[i + 1], x.traits[i], x.bands[i]);
  }
  mmc_chain_options has = MMC_CHAIN_OPTIONS_INIT;
  has.traits = x.traits;
  mmci_error error = {0};
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.objective = "time";
  if (mmci_chain_create_as(x.dtype, x.n, x.dims, x.ops, &has, &x.chain, &error) != MMC_OK)
    fail(&x, seed, error.text);
  else
    check_made(context, seed, &state, &x, &options);
}

int main(int argc, char **argv) {
  int64_t count = argc > 1 ? atoll(argv[1]) : 4000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  mmc_context *context;
  if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
  for (int64_t i = 0; i < count && failures < 20; i++) {
    check_chain(context, seed + (uint64_t)i);
    if (i % 20 == 0) check_vector(context, seed + (uint64_t)i);
  }
  printf("%d chains executed, %d left out as nearly singular, worst error %.2g of the tolerance\n",
         executed, left_out, worst);
  printf("steps:");
  for (int k = 0; k < MMCI_STRUCTURE_KERNELS; k++) {
    printf(" %s %d", mmci_structure_kernel_name((mmci_structure_kernel)k), kernels[k]);
    if (count >= 1000 && kernels[k] == 0) failures++;
  }
  printf("\n");
  mmc_context_destroy(context);
  return failures != 0;
}
