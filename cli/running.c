#include "running.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "half.h"
#include "random.h"

/* One entry of a vector, and of the noise that goes with it. */
typedef struct entry {
  double re, im, noise_re, noise_im;
} entry;

/* The vectors of one scan. */
typedef struct walk {
  const cli_running *running;
  entry *v, *next;
  const entry *u;
  double *sizes;
  int64_t exponent; /* v is times 2^exponent, where results have exponents */
  cli_random random;
} walk;

/* Computes y = x M, or M x from the end. sizes, unless NULL, gathers |x| |M|. Returns whether all
 * of M is finite. */
static bool multiply(const walk *w, const mmc_matrix *m, const entry *x, entry *y, double *sizes) {
  const int64_t n = w->running->n;
  bool finite = true;
  for (int64_t i = 0; i < n; i++) y[i] = (entry){0};
  for (int64_t i = 0; i < n && sizes != NULL; i++) sizes[i] = 0;
  const bool by_rows = m->layout == MMC_ROW_MAJOR;
  const int64_t ld = m->ld != 0 ? m->ld : n;
  cli_piece p;
  for (int64_t line = 0; line < n; line++)
    for (int64_t begin = 0; begin < n; begin += CLI_PIECE) {
      const int64_t taken = n - begin < CLI_PIECE ? n - begin : CLI_PIECE;
      if (!cli_elements_load(w->running->dtype, false, m->data, line * ld + begin, taken, &p))
        finite = false;
      for (int64_t e = 0; e < taken; e++) {
        const bool sums_line = by_rows == w->running->reverse; /* a line is summed up */
        const int64_t from = sums_line ? begin + e : line, to = sums_line ? line : begin + e;
        const entry *a = &x[from];
        y[to].re += p.re[e] * a->re - p.im[e] * a->im;
        y[to].im += p.re[e] * a->im + p.im[e] * a->re;
        y[to].noise_re += p.re[e] * a->noise_re - p.im[e] * a->noise_im;
        y[to].noise_im += p.re[e] * a->noise_im + p.im[e] * a->noise_re;
        if (sizes != NULL) sizes[to] += hypot(p.re[e], p.im[e]) * hypot(a->re, a->im);
      }
    }
  return finite;
}

/* Multiplies a vector by 2^by. */
static void scale_by(entry *x, int64_t n, int by) {
  for (int64_t i = 0; i < n; i++) {
    x[i].re = ldexp(x[i].re, by);
    x[i].im = ldexp(x[i].im, by);
    x[i].noise_re = ldexp(x[i].noise_re, by);
    x[i].noise_im = ldexp(x[i].noise_im, by);
  }
}

/* Brings the vector to the size of 1. */
static void normalise(walk *w) {
  double most = 0;
  int exponent;
  for (int64_t i = 0; i < w->running->n; i++)
    most = fmax(most, fmax(fabs(w->v[i].re), fabs(w->v[i].im)));
  if (!isfinite(most) || most == 0) return;
  frexp(most, &exponent);
  scale_by(w->v, w->running->n, -exponent);
  w->exponent += exponent;
}

/* Moves the vector on by a factor. Returns whether it is finite. */
static bool step(walk *w, const mmc_matrix *factor) {
  const int64_t n = w->running->n;
  bool finite = multiply(w, factor, w->v, w->next, w->sizes);
  for (int64_t i = 0; i < n; i++) {
    entry *y = &w->next[i];
    y->noise_re += w->sizes[i] / sqrt((double)n) * cli_random_normal(&w->random);
    y->noise_im += w->sizes[i] / sqrt((double)n) * cli_random_normal(&w->random);
    finite = finite && isfinite(y->re) && isfinite(y->im);
  }
  entry *old = w->v;
  w->v = w->next;
  w->next = old;
  if (w->running->operands->exponents != NULL) normalise(w);
  return finite;
}

/* Returns the tolerance for a product of so many factors. */
static double tolerance_of(const cli_running *r, int64_t after) {
  const bool is_double = r->dtype == MMC_F64 || r->dtype == MMC_C128;
  const bool is_complex = r->dtype == MMC_C64 || r->dtype == MMC_C128;
  const double eps = is_double ? DBL_EPSILON : (double)FLT_EPSILON;
  double each = (double)(r->n + 1) * eps;
  if (cli_is_half(r->dtype)) each += cli_half_epsilon(r->dtype);
  return 4 * (is_complex ? 2 : 1) * each * (double)(after + 1);
}

/* Compares a product of so many factors, number t of all, with the vector. */
static void compare(walk *w, const mmc_matrix *product, int64_t t, int64_t after,
                    cli_running_residual *worst) {
  const int64_t n = w->running->n, *exponents = w->running->operands->exponents;
  double difference = 0, scale = 0, size = 0;
  const bool finite = multiply(w, product, w->u, w->next, NULL);
  if (exponents != NULL) {
    const int64_t most = 4096, by = exponents[t] - w->exponent;
    scale_by(w->next, n, (int)(by > most ? most : by < -most ? -most : by));
  }
  for (int64_t i = 0; i < n; i++) {
    difference = fmax(difference, hypot(w->next[i].re - w->v[i].re, w->next[i].im - w->v[i].im));
    size = fmax(size, hypot(w->v[i].re, w->v[i].im));
    scale = fmax(scale, hypot(w->v[i].noise_re, w->v[i].noise_im));
  }
  scale = fmax(scale, size);
  const double tolerance = tolerance_of(w->running, after);
  const bool vanishes = size < cli_dtype_least(w->running->dtype) * (double)n / tolerance;
  if (!finite || vanishes) {
    *(finite ? &worst->vanished : &worst->skipped) += 1;
    return;
  }
  const double value = difference == 0 ? 0 : difference / scale;
  worst->checked++;
  worst->value = fmax(worst->value, value * worst->tolerance / tolerance);
}

/* Returns matrix t of scan b of an operand. */
static mmc_matrix matrix_at(const cli_running *r, const mmc_matrix *first, int64_t step, int64_t b,
                            int64_t t) {
  mmc_matrix m = *first;
  if (m.data != NULL)
    m.data = (char *)m.data + (b * m.stride + t * step) * (int64_t)mmc_dtype_size(r->dtype);
  return m;
}

static void check_scan(walk *w, int64_t b, cli_running_residual *worst) {
  const cli_running *r = w->running;
  const mmc_scan_operands *o = r->operands;
  memcpy(w->v, w->u, (size_t)r->n * sizeof *w->v);
  w->exponent = 0;
  bool finite = true;
  if (r->initial) {
    const mmc_matrix initial = matrix_at(r, &o->initial, 0, b, 0);
    finite = step(w, &initial);
  }
  for (int64_t i = 0; i < r->length; i++) {
    const int64_t t = r->reverse ? r->length - 1 - i : i;
    const mmc_matrix product = matrix_at(r, &o->out, o->out_step, b, t);
    const mmc_matrix factor = matrix_at(r, &o->factors, o->factors_step, b, t);
    if (r->exclusive && finite) compare(w, &product, b * r->length + t, i, worst);
    if (r->exclusive && !finite) worst->skipped++;
    finite = finite && step(w, &factor);
    if (!r->exclusive && finite) compare(w, &product, b * r->length + t, i + 1, worst);
    if (!r->exclusive && !finite) worst->skipped++;
  }
}

bool cli_running_check(const cli_running *running, cli_running_residual *out) {
  *out = (cli_running_residual){.tolerance = tolerance_of(running, running->length)};
  const size_t n = (size_t)running->n;
  entry *vectors = calloc(3 * n + 1, sizeof *vectors);
  double *sizes = calloc(n + 1, sizeof *sizes);
  bool has_room = vectors != NULL && sizes != NULL;
  walk w = {.running = running, .sizes = sizes, .random = cli_random_start(CLI_CHECK_SEED, 0)};
  for (size_t i = 0; i < n && has_room; i++)
    vectors[i] = (entry){.re = cli_random_normal(&w.random)};
  for (int64_t b = 0; b < running->batch && has_room && n > 0; b++) {
    w.u = vectors;
    w.v = vectors + n;
    w.next = vectors + 2 * n;
    check_scan(&w, b, out);
  }
  free(vectors);
  free(sizes);
  return has_room;
}
