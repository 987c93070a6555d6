/* test_structured.c: chains whose factors have structure, against loops in double precision: every
 * trait, op, side, dtype and layout, sides of 0, 1 and what is no multiple of anything; what is
 * said of matrices that have no inverse.
 *
 * test_structured [COUNT [SEED [DEVICE [large]]]] draws so many chains. On a device matrices are on
 * the host or in its memory. Large products are checked with vectors.
 * Exit status 77: the device is not here. */
#include <inttypes.h>
#include <mmchain.h>
#include <unistd.h>

#include "../structured_chains.h"
#include "api/api.h"
#include "chain/structured.h"
#include "planner/offers.h"

static int executed, left_out, lines, kernels[64];
static double worst;
static const char *device; /* NULL: the host's */

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

/* A diagonal matrix as the row of its diagonal, or a permutation as that of its index. */
static mmc_matrix store_line(uint64_t *state, mmc_dtype dtype, uint32_t traits, const dense *x) {
  const bool is_diagonal = (traits & MMC_DIAGONAL) == MMC_DIAGONAL;
  dense line = {1, x->rows, malloc((size_t)x->rows * sizeof *line.at)};
  for (int64_t r = 0; r < x->rows; r++) {
    int64_t one = 0;
    while (!is_diagonal && creal(x->at[r * x->cols + one]) == 0) one++;
    line.at[r] = is_diagonal ? x->at[r * x->cols + r] : (double)one;
  }
  const mmc_matrix out = store(state, dtype, &line);
  free(line.at);
  return out;
}

/* Stores factors as lines, some of those that the plan takes. */
static void make_lines(uint64_t *state, const structured_chain *x, const mmc_plan *plan,
                       mmc_matrix *factors) {
  for (int64_t i = 0; i < x->n; i++) {
    if (x->stored[i] != i) {
      factors[i] = factors[x->stored[i]];
    } else if (mmc_plan_takes_line(plan, i) && random_below(state, 4) != 0) {
      free(factors[i].data);
      factors[i] = store_line(state, x->dtype, mmc_chain_traits(x->chain, i), &x->values[i]);
      lines++;
    }
  }
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

/* ---- memory of the device -------------------------------------------------------------------- */

/* What of an execution is in the device's memory. */
typedef struct placing {
  mmc_memory *memory[CHAIN_MOST + 1];
} placing;

static size_t bytes_of(const mmc_matrix *x, mmc_dtype dtype) {
  const int64_t lines = x->layout == MMC_ROW_MAJOR ? x->rows : x->cols;
  return (size_t)(x->ld * lines + 1) * mmc_dtype_size(dtype);
}

/* Moves a matrix to the device, or leaves it where it is; at random. */
static void place_matrix(mmc_context *context, uint64_t *state, mmc_dtype dtype, mmc_matrix *x,
                         mmc_memory **memory) {
  *memory = NULL;
  if (device == NULL || random_below(state, 3) == 0) return;
  const size_t bytes = bytes_of(x, dtype);
  if (mmc_memory_create(context, device, bytes, memory) != MMC_OK ||
      mmc_memory_write(*memory, 0, x->data, bytes) != MMC_OK) {
    printf("no memory on the device\n");
    exit(1);
  }
  x->data = mmc_memory_address(*memory);
  x->location = MMC_DEVICE;
}

/* Brings a matrix back to where it was. */
static void fetch_matrix(mmc_dtype dtype, mmc_matrix *x, void *data, mmc_memory *memory) {
  if (memory == NULL) return;
  x->data = data;
  x->location = MMC_HOST;
  if (mmc_memory_read(memory, 0, data, bytes_of(x, dtype)) != MMC_OK) exit(1);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static void count_kernels(const mmc_plan *plan) {
  for (int64_t s = 0; s < mmc_plan_step_count(plan); s++)
    for (int k = 0; k < MMCI_STRUCTURE_KERNELS; k++)
      kernels[k] += strcmp(mmc_plan_step_kernel(plan, s),
                           mmci_structure_kernel_name((mmci_structure_kernel)k)) == 0;
}

/* Writes NaN to the half that a triangle does not have. */
static void spoil(const mmc_matrix *x, mmc_dtype dtype, uint32_t traits) {
  const double nan = (double)NAN;
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t c = 0; c < x->cols; c++)
      if ((traits & MMC_LOWER) != 0 ? c > r : c < r)
        element_write(dtype, place(x, dtype, r, c), (element){nan, nan});
}

/* Executes a chain, and compares; spoils says that of the first factor, a triangle, the other half
 * is not to be read. */
static void check_made(mmc_context *context, uint64_t seed, uint64_t *state, structured_chain *made,
                       const mmc_plan_options *options, bool spoils) {
  structured_chain x = *made;
  double growth = 1;
  bool singular = false;
  dense wanted = structured_product(&x, 0, x.n, false, &growth, &singular);
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_matrix factors[CHAIN_MOST], out = lay_out(state, x.dtype, x.dims[0], x.dims[x.n]);
  for (int64_t i = 0; i < x.n; i++)
    factors[i] = x.stored[i] == i ? store(state, x.dtype, &x.values[i]) : factors[x.stored[i]];
  if (spoils) spoil(&factors[0], x.dtype, x.traits[0]);
  placing there = {0};
  void *here = out.data;
  mmc_matrix given[CHAIN_MOST];
  for (int64_t i = 0; i < x.n; i++) {
    given[i] = factors[i];
    if (x.stored[i] == i)
      place_matrix(context, state, x.dtype, &given[i], &there.memory[i]);
    else
      given[i] = given[x.stored[i]];
  }
  place_matrix(context, state, x.dtype, &out, &there.memory[x.n]);
  mmc_status status = mmc_plan_create(context, x.chain, options, &plan);
  if (status == MMC_OK && device == NULL) {
    make_lines(state, &x, plan, factors);
    memcpy(given, factors, sizeof given);
  }
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, given, &out);
  if (status == MMC_OK && device != NULL && random_below(state, 2) == 0) {
    status = mmc_enqueue(run, NULL, given, &out);
    if (status == MMC_OK) status = mmc_wait(run);
  } else if (status == MMC_OK) {
    status = mmc_execute(run, given, &out);
  }
  fetch_matrix(x.dtype, &out, here, there.memory[x.n]);
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
  for (int64_t i = 0; i <= x.n; i++) mmc_memory_destroy(there.memory[i]);
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
  options.device = device;
  if (random_bits(&state) % 2 != 0) options.objective = "time";
  if (x.inverse_count == 0 && random_below(&state, 4) == 0) options.solver = "left-to-right";
  check_made(context, seed, &state, &x, &options, false);
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
  options.device = device;
  if (mmci_chain_create_as(x.dtype, x.n, x.dims, x.ops, &has, &x.chain, &error) != MMC_OK)
    fail(&x, seed, error.text);
  else
    check_made(context, seed, &state, &x, &options, false);
}

/* Two triangles of a side of several strips. What lies in the other half of the left one, of which
 * TRTRMM reads half, is not read. */
static void check_triangles(mmc_context *context, uint64_t seed, int64_t most) {
  static const uint32_t words[] = {MMC_LOWER, MMC_UPPER, MMC_LOWER | MMC_UNIT,
                                   MMC_UPPER | MMC_UNIT};
  uint64_t state = seed;
  structured_chain x = {.dtype = (mmc_dtype)random_below(&state, 4), .n = 2};
  const int64_t side = random_below(&state, most);
  for (int64_t i = 0; i <= 2; i++) x.dims[i] = side;
  for (int64_t i = 0; i < 2; i++) {
    x.ops[i] = (mmc_op)random_below(&state, 3);
    x.stored[i] = i;
    x.traits[i] = words[random_below(&state, 4)];
    x.values[i] = random_matrix(&state, x.dtype, side, side, x.traits[i], x.bands[i]);
  }
  mmc_chain_options has = MMC_CHAIN_OPTIONS_INIT;
  has.traits = x.traits;
  mmci_error error = {0};
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = device;
  if (mmci_chain_create_as(x.dtype, x.n, x.dims, x.ops, &has, &x.chain, &error) != MMC_OK)
    fail(&x, seed, error.text);
  else
    check_made(context, seed, &state, &x, &options, true);
}

/* ---- matrices without an inverse ------------------------------------------------------------- */

/* Executes a chain of a 4 x 4 matrix, with a 4 x 2 one of ones behind it where the text has two. */
static void check_singular(mmc_context *context, const char *text, const double square[16],
                           const char *expected) {
  double ones[8] = {1, 1, 1, 1, 1, 1, 1, 1}, result[16];
  double own[16];
  memcpy(own, square, sizeof own);
  for (int i = 0; i < 16; i++) result[i] = 7;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  char said[512] = "";
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = device;
  mmc_status status = mmc_chain_parse(context, text, &chain);
  if (status == MMC_OK) status = mmc_plan_create(context, chain, &options, &plan);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  const bool alone = strchr(text, 'x') == strrchr(text, 'x');
  const mmc_matrix factors[] = {{.data = own, .rows = 4, .cols = 4, .ld = 4},
                                {.data = ones, .rows = 4, .cols = 2, .ld = 2}};
  mmc_matrix out = {.data = result, .rows = 4, .cols = alone ? 4 : 2, .ld = alone ? 4 : 2};
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
  mmc_context_message(context, said, sizeof said);
  if (status != MMC_E_ARG || strstr(said, expected) == NULL) {
    printf("%s: status %d, '%s', expected '%s'\n", text, (int)status, said, expected);
    failures++;
  }
  for (int i = 0; i < 16 && device != NULL; i++)
    if (result[i] != 7) {
      printf("%s: wrote a result\n", text);
      failures++;
      break;
    }
  /* The run goes on with a matrix that has an inverse. */
  for (int i = 0; i < 16; i++) own[i] = i % 5 == 0 ? 2 : 0;
  status = run != NULL ? mmc_execute(run, factors, &out) : MMC_E_ARG;
  if (status != MMC_OK || !(fabs(result[0] - 0.5) < 1e-12)) {
    printf("%s: then %g, status %d\n", text, result[0], (int)status);
    failures++;
  }
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
}

static void check_all_singular(mmc_context *context) {
  static const double lower[16] = {1, 0, 0, 0, 2, 3, 0, 0, 1, 1, 0, 0, 1, 2, 3, 4};
  static const double diagonal[16] = {1, 0, 0, 0, 0, -0.0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4};
  static const double indefinite[16] = {2, 1, 0, 0, 1, 3, 0, 0, 0, 0, 1, 2, 0, 0, 2, 1};
  static const double singular[16] = {1, 2, 3, 4, 2, 4, 6, 9, 0, 0, 1, 1, 0, 0, 2, 2};
  check_singular(context, "f64:4x4x2:lower.inv,N", lower, "factor 1 is singular: pivot 3 is zero");
  check_singular(context, "f64:4x4:lower.inv", lower, "factor 1 is singular: pivot 3 is zero");
  check_singular(context, "f64:4x4x2:diagonal.inv,N", diagonal,
                 "factor 1 is singular: pivot 2 is zero");
  check_singular(context, "f64:4x4:diagonal.inv", diagonal,
                 "factor 1 is singular: pivot 2 is zero");
  check_singular(context, "f64:4x4x2:spd.inv,N", indefinite,
                 "factor 1 is not positive definite: pivot 4 is not positive");
  check_singular(context, "f64:4x4:spd.inv", indefinite,
                 "factor 1 is not positive definite: pivot 4 is not positive");
  check_singular(context, "f64:4x4x2:inv,N", singular, "factor 1 is singular: pivot");
  check_singular(context, "f64:4x4:inv", singular, "factor 1 is singular: pivot");
}

/* ---- large products -------------------------------------------------------------------------- */

typedef struct large {
  mmc_dtype dtype;
  mmc_matrix matrix;
  mmc_op op;
} large;

static double complex element_of(const large *x, int64_t r, int64_t c) {
  const bool turned = x->op != MMC_OP_N;
  const element e =
      element_read(x->dtype, place(&x->matrix, x->dtype, turned ? c : r, turned ? r : c));
  const double im = mmci_dtype_is_complex(x->dtype) ? e.im : 0;
  return CMPLX(e.re, x->op == MMC_OP_H ? -im : im);
}

/* y := op(X) t, or op(X)^T t. */
static void apply_large(const large *x, bool transposed, const double complex *t,
                        double complex *y) {
  const bool turned = x->op != MMC_OP_N;
  const int64_t rows = turned ? x->matrix.cols : x->matrix.rows,
                cols = turned ? x->matrix.rows : x->matrix.cols;
  for (int64_t i = 0; i < (transposed ? cols : rows); i++) y[i] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      if (transposed)
        y[c] += element_of(x, r, c) * t[r];
      else
        y[r] += element_of(x, r, c) * t[c];
}

/* A matrix as it is stored; what traits say of it holds, and its inverse is tame. */
static large make_large(uint64_t *state, mmc_dtype dtype, int64_t rows, int64_t cols, mmc_op op,
                        uint32_t traits) {
  const bool turned = op != MMC_OP_N;
  large x = {.dtype = dtype, .op = op};
  x.matrix = lay_out(state, dtype, turned ? cols : rows, turned ? rows : cols);
  const int64_t m = x.matrix.rows, n = x.matrix.cols;
  for (int64_t r = 0; r < m; r++)
    for (int64_t c = 0; c < n; c++) {
      element e = {random_unit(state) - 0.5, random_unit(state) - 0.5};
      const bool symmetric = (traits & MMC_POSITIVE_DEFINITE) != 0;
      if (symmetric && c < r) {
        e = element_read(dtype, place(&x.matrix, dtype, c, r));
        e.im = -e.im;
      }
      if (((traits & MMC_LOWER) != 0 && c > r) || ((traits & MMC_UPPER) != 0 && c < r))
        e = (element){0, 0};
      if (r == c && traits != 0) e = (element){(double)(symmetric ? n : 20) + e.re, 0};
      if (r == c && (traits & MMC_UNIT) != 0) e = (element){1, 0};
      const double share = (traits & MMC_UNIT) != 0 ? (double)n : 20; /* of the diagonal */
      if (r != c && (traits & (MMC_LOWER | MMC_UPPER)) != 0) e.re /= share, e.im /= share;
      element_write(dtype, place(&x.matrix, dtype, r, c), e);
    }
  return x;
}

/* Computes F1 F2 of large sides on the device, F1 or F2 by its inverse where traits say so, and
 * compares with a random vector. */
static void check_large(mmc_context *context, uint64_t seed, const char *kernel, mmc_dtype dtype,
                        const int64_t dims[3], const uint32_t traits[2], bool mirrored) {
  enum { MOST = 2000 };
  static double complex t[MOST], u[MOST], v[MOST], w[MOST];
  uint64_t state = seed;
  const mmc_op ops_of[3] = {MMC_OP_N, MMC_OP_T, MMC_OP_H};
  mmc_op ops[2] = {ops_of[random_below(&state, 3)], ops_of[random_below(&state, 3)]};
  const int64_t stored[2] = {0, mirrored ? 0 : 1};
  if (mirrored) ops[1] = ops[0] == MMC_OP_N ? MMC_OP_H : MMC_OP_N;
  if (mirrored && ops[0] == MMC_OP_T) ops[0] = MMC_OP_H;
  large x[2];
  for (int f = 0; f < 2; f++)
    if (stored[f] == f) x[f] = make_large(&state, dtype, dims[f], dims[f + 1], ops[f], traits[f]);
  if (mirrored) x[1] = (large){dtype, x[0].matrix, ops[1]};
  large out = {.dtype = dtype, .matrix = lay_out(&state, dtype, dims[0], dims[2]), .op = MMC_OP_N};
  mmc_chain_options has = MMC_CHAIN_OPTIONS_INIT;
  has.traits = traits;
  has.stored = stored;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmci_error error = {0};
  mmc_plan_options options = MMC_PLAN_OPTIONS_INIT;
  options.device = device;
  options.objective = "flops";
  placing there = {0};
  mmc_matrix given[2] = {x[0].matrix, x[1].matrix}, result = out.matrix;
  for (int f = 0; f < 2; f++)
    if (stored[f] == f) place_matrix(context, &state, dtype, &given[f], &there.memory[f]);
  if (mirrored) given[1] = given[0];
  place_matrix(context, &state, dtype, &result, &there.memory[2]);
  mmc_status status = mmci_chain_create_as(dtype, 2, dims, ops, &has, &chain, &error);
  if (status == MMC_OK) status = mmc_plan_create(context, chain, &options, &plan);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, given, &result);
  if (status == MMC_OK) status = mmc_execute(run, given, &result);
  fetch_matrix(dtype, &result, out.matrix.data, there.memory[2]);
  char text[512];
  mmc_context_message(context, text, sizeof text);
  const bool left = (traits[0] & MMC_INVERSE) != 0, right = (traits[1] & MMC_INVERSE) != 0;
  double most = 0, scale = 0;
  const int64_t given_length = right ? dims[0] : dims[2], length = left    ? dims[0]
                                                                   : right ? dims[2]
                                                                           : dims[0];
  for (int64_t i = 0; i < given_length; i++) t[i] = CMPLX(random_unit(&state) - 0.5, 0);
  /* F1 F2 t; or F1 (R t) against F2 t; or (t R) F2 against t F1. */
  if (right) {
    apply_large(&out, true, t, u);
    apply_large(&x[1], true, u, v);
    apply_large(&x[0], true, t, w);
  } else if (left) {
    apply_large(&out, false, t, u);
    apply_large(&x[0], false, u, v);
    apply_large(&x[1], false, t, w);
  } else {
    apply_large(&out, false, t, v);
    apply_large(&x[1], false, t, u);
    apply_large(&x[0], false, u, w);
  }
  for (int64_t i = 0; i < length; i++) {
    const double d = cabs(v[i] - w[i]);
    if (!(d <= most)) most = d;
    scale = fmax(scale, cabs(w[i]));
  }
  for (int64_t r = 0; mirrored && r < dims[0]; r++)
    for (int64_t c = 0; c < r; c++)
      if (element_of(&out, r, c) != conj(element_of(&out, c, r))) most = (double)INFINITY;
  const double tolerance = 64 * dtype_facts[dtype].epsilon * scale * sqrt((double)dims[1]);
  const char *used = plan != NULL ? mmc_plan_step_kernel(plan, 0) : "none";
  if (status != MMC_OK || strcmp(used, kernel) != 0 || !(most <= tolerance) ||
      !guards_are_kept(&out.matrix, dtype)) {
    printf("%s (%s) %s %" PRId64 "x%" PRId64 "x%" PRId64 ", seed %" PRIu64
           ": status %d, differs by %g, tolerance %g: %s\n",
           kernel, used, mmc_dtype_name(dtype), dims[0], dims[1], dims[2], seed, (int)status, most,
           tolerance, text);
    failures++;
  }
  executed++;
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  for (int f = 0; f < 3; f++) mmc_memory_destroy(there.memory[f]);
  for (int f = 0; f < 2; f++)
    if (stored[f] == f) free(x[f].matrix.data);
  free(out.matrix.data);
}

static void check_all_large(mmc_context *context, uint64_t seed) {
  static const struct {
    const char *kernel;
    uint32_t left, right;
    bool mirrored;
  } cases[] = {{"syrk", 0, 0, true},
               {"trmm", MMC_LOWER, 0, false},
               {"trmm", 0, MMC_UPPER, false},
               {"trmm", MMC_UPPER | MMC_UNIT, 0, false},
               {"trtrmm", MMC_LOWER, MMC_LOWER, false},
               {"trtrmm", MMC_UPPER, MMC_UPPER | MMC_UNIT, false},
               {"trtrmm", MMC_LOWER | MMC_UNIT, MMC_UPPER, false},
               {"trtrmm", MMC_UPPER, MMC_LOWER, false},
               {"trsm", MMC_LOWER | MMC_INVERSE, 0, false},
               {"trsm", MMC_UPPER | MMC_UNIT | MMC_INVERSE, 0, false},
               {"trsm", 0, MMC_UPPER | MMC_INVERSE, false},
               {"trsm", 0, MMC_LOWER | MMC_INVERSE, false},
               {"posv", MMC_POSITIVE_DEFINITE | MMC_INVERSE, 0, false},
               {"posv", 0, MMC_POSITIVE_DEFINITE | MMC_INVERSE, false},
               {"gesv", MMC_INVERSE, 0, false},
               {"gesv", 0, MMC_INVERSE, false}};
  uint64_t state = seed;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
    for (int dtype = 0; dtype < 4; dtype++) {
      const int64_t side = 1024 + random_below(&state, 200),
                    other = 1024 + random_below(&state, 90);
      const int64_t square[3] = {side, side, other}, behind[3] = {other, side, side},
                    wide[3] = {side, other, side}, all[3] = {side, side, side};
      const uint32_t traits[2] = {cases[c].left, cases[c].right};
      check_large(context, seed + 100 * c + (uint64_t)dtype, cases[c].kernel, (mmc_dtype)dtype,
                  cases[c].mirrored                           ? wide
                  : cases[c].left != 0 && cases[c].right != 0 ? all
                  : cases[c].left != 0                        ? square
                                                              : behind,
                  traits, cases[c].mirrored);
    }
}

/* ---- what tuning finds ------------------------------------------------------------------------
 */

/* Puts a store in a folder where SYMM was found to be fast, so that plans for time take it; returns
 * whether there is a store. */
static bool tell_shares(mmc_context *context) {
  mmci_opened on;
  mmci_error error = {0};
  mmc_status status =
      mmci_context_open_device(context, device != NULL ? device : "cpu", &on, &error);
  for (int dtype = 0; dtype < 4 && status == MMC_OK; dtype++)
    for (int small = 0; small < 2 && status == MMC_OK; small++) {
      char name[MMCI_PIECE_NAME_SIZE];
      mmci_fingerprint fingerprint;
      mmci_structure_piece_name(MMCI_PIECE_SYMM, small != 0, name);
      mmci_offers_fingerprint(&on, (mmc_dtype)dtype, "native", &fingerprint);
      const mmci_wisdom_record fact = {.kind = MMCI_WISDOM_FACT,
                                       .fingerprint = &fingerprint,
                                       .fact = {name, small != 0 ? 0 : 0.1, 0, 1}};
      status = mmci_wisdom_put(context->wisdom, &fact, &error);
    }
  return status == MMC_OK;
}

static void remove_store(const char *folder) {
  static const char *const names[] = {"wisdom.db", "wisdom.db-wal", "wisdom.db-shm"};
  for (int i = 0; i < 3; i++) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/mmchain-structured-XXXXXX", path[64];
  int64_t count = argc > 1 ? atoll(argv[1]) : 4000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  mmc_context *context;
  mmc_memory *probe = NULL;
  device = argc > 3 ? argv[3] : NULL;
  if (mkdtemp(folder) == NULL) return 1;
  snprintf(path, sizeof path, "%s/wisdom.db", folder);
  mmc_context_options where = MMC_CONTEXT_OPTIONS_INIT;
  where.wisdom_path = path;
  if (mmc_context_create(&where, &context) != MMC_OK) return 1;
  if (device != NULL && mmc_memory_create(context, device, 1, &probe) != MMC_OK) {
    char text[512];
    mmc_context_message(context, text, sizeof text);
    printf("%s\n", text);
    mmc_context_destroy(context);
    remove_store(folder);
    return 77;
  }
  mmc_memory_destroy(probe);
  const bool has_store = tell_shares(context);
  check_all_singular(context);
  if (argc > 4) check_all_large(context, seed);
  for (int64_t i = 0; i < count && failures < 20; i++) {
    check_chain(context, seed + (uint64_t)i);
    if (i % 20 == 0) check_vector(context, seed + (uint64_t)i);
    if (i % 10 == 0) check_triangles(context, seed + (uint64_t)i, argc > 4 ? 700 : 170);
  }
  printf(
      "%d chains executed, %d left out as nearly singular, worst error %.2g of the tolerance\n"
      "%d factors given as lines\n",
      executed, left_out, worst, lines);
  if (count >= 1000 && lines == 0 && device == NULL) failures++;
  printf("steps:");
  for (int k = 0; k < MMCI_STRUCTURE_KERNELS; k++) {
    printf(" %s %d", mmci_structure_kernel_name((mmci_structure_kernel)k), kernels[k]);
    if (count >= 1000 && kernels[k] == 0 && device == NULL &&
        (k != MMCI_STRUCTURE_SYMM || has_store))
      failures++;
  }
  printf("\n");
  mmc_context_destroy(context);
  remove_store(folder);
  return failures != 0;
}
