/* us9836434.c: the methods of US patent 9,836,434 B2 (Lvov, Xiong and Zolotov), as it describes
 * them, on the machine at hand, beside what mmchain makes of them.
 *
 * Method 300 cuts one product as long as a cut is measured to be faster, 400 does so for a set of
 * products, 600 cuts any product by an array of efficiencies. Here their cuts are executed as the
 * patent executes them, by calls in place, in turns with the plain call and with mmchain's plan for
 * time after tuning. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../random.h"
#include "../timing.h"
#include "experiment.h"
#include "products.h"
#include "records.h"
#include "us9836434_page.h"

enum { TIMES_MOST = 8192, SIZES_MOST = 64, DEPTH_MOST = 3, LEAST_OF = 3, SEED = 2015 };

/* The times of single calls with one k and dtype, by m and n; each is measured once. */
typedef struct times {
  const cli_operands *bench;
  int64_t k, ld_n;
  struct {
    int64_t m, n;
    double seconds;
  } * known;
  int count;
  int64_t measurements;
} times;

/* What is compared: one product and its ways. */
typedef struct sizes {
  int64_t m, k, n;
} sizes;

static mmc_status time_piece(times *t, int64_t m, int64_t n, double *seconds) {
  for (int i = 0; i < t->count; i++)
    if (t->known[i].m == m && t->known[i].n == n) {
      *seconds = t->known[i].seconds;
      return MMC_OK;
    }
  cli_cut whole = cli_cut_whole(m, n);
  cli_way way;
  mmc_status status = cli_way_of_cut(t->bench, t->k, t->ld_n, &whole, &way);
  if (status != MMC_OK) return status;
  status = cli_way_time(t->bench, &way, LEAST_OF, seconds);
  cli_way_free(&way);
  t->measurements++;
  if (status == MMC_OK && t->count < TIMES_MOST) {
    t->known[t->count].m = m;
    t->known[t->count].n = n;
    t->known[t->count++].seconds = *seconds;
  }
  return status;
}

/* ---- method 300 ------------------------------------------------------------------------------ */

/* The step between cuts of an axis: all cuts up to the stated size, so many beyond. */
static int64_t step_of(const cli_laboratory *x, int64_t size) {
  int64_t all = x->quick ? 16 : 64, most = x->quick ? 8 : 32;
  if (size <= all) return 1;
  int64_t step = (size + most - 1) / most;
  return (step + 7) / 8 * 8;
}

/* Finds the fastest cut in two of a piece along one axis. */
static mmc_status best_cut(times *t, const cli_piece *p, bool columns, double *least, int64_t *at) {
  int64_t size = columns ? p->n : p->m, step = step_of(t->bench->lab, size);
  mmc_status status = MMC_OK;
  for (int64_t first = step; first < size && status == MMC_OK; first += step) {
    double one, two;
    status = columns ? time_piece(t, p->m, first, &one) : time_piece(t, first, p->n, &one);
    if (status == MMC_OK)
      status = columns ? time_piece(t, p->m, size - first, &two)
                       : time_piece(t, size - first, p->n, &two);
    if (status == MMC_OK && one + two < *least) {
      *least = one + two;
      *at = columns ? first : -first;
    }
  }
  return status;
}

/* Cuts a piece for as long as a cut's time, the sum of its parts', is less than the whole's: along
 * n or m, whichever is best, at up to three levels. */
static mmc_status method_300(times *t, const cli_piece *p, int depth, bool rows_too, cli_cut *out) {
  double least;
  int64_t at = 0;
  mmc_status status = time_piece(t, p->m, p->n, &least);
  bool room = depth < DEPTH_MOST && out->count + 2 <= CLI_PIECES_MOST >> (DEPTH_MOST - depth - 1);
  if (status == MMC_OK && room) status = best_cut(t, p, true, &least, &at);
  if (status == MMC_OK && room && rows_too) status = best_cut(t, p, false, &least, &at);
  if (status != MMC_OK) return status;
  if (at == 0 || out->count + 2 > CLI_PIECES_MOST) {
    out->pieces[out->count++] = *p;
    return MMC_OK;
  }
  cli_piece first = *p, second = *p;
  if (at > 0) {
    first.n = at;
    second.n -= at;
    second.col += at;
  } else {
    first.m = -at;
    second.m += at;
    second.row -= at;
  }
  status = method_300(t, &first, depth + 1, rows_too, out);
  return status == MMC_OK ? method_300(t, &second, depth + 1, rows_too, out) : status;
}

/* ---- one product by several ways ------------------------------------------------------------- */

/* Compares the plain call with the cut that was found, mmchain's recipe and, unless it is NULL, a
 * cut that is given. A way that is the plain call is not measured again. */
static mmc_status compare_cut(const cli_operands *b, const sizes *s, const cli_cut *given,
                              const cli_cut *found, mmc_context *tuned, cli_laboratory *x,
                              const char *part, const char *series) {
  cli_way ways[CLI_WAYS_MOST] = {{.count = 0}};
  const char *const names[] = {"plain_samples", "patent_samples", "tuned_samples", "given_samples"};
  double samples[CLI_WAYS_MOST][CLI_REPEATS_MOST], plan_s = NAN;
  cli_cut whole = cli_cut_whole(s->m, s->n);
  char text[CLI_CUT_TEXT] = "";
  mmc_step_time step = {.split = ""};
  bool asked[CLI_WAYS_MOST] = {true, found->count > 1, false, given != NULL};
  mmc_status status = cli_way_of_cut(b, s->k, s->n, &whole, &ways[0]);
  if (status == MMC_OK && asked[1]) status = cli_way_of_cut(b, s->k, s->n, found, &ways[1]);
  if (status == MMC_OK) status = cli_way_of_plan(b, tuned, s->m, s->k, s->n, &ways[2], &plan_s);
  if (status == MMC_OK) {
    mmc_plan_step_time(ways[2].plans[0], 0, &step);
    asked[2] = step.split[0] != '\0';
  }
  if (status == MMC_OK && asked[3]) status = cli_way_of_cut(b, s->k, s->n, given, &ways[3]);
  if (status == MMC_OK) status = cli_ways_compare(b, ways, asked, samples);
  if (status == MMC_OK) {
    cli_cut_format(found, text);
    cli_line_begin(x, part);
    cli_line_text(x, "series", series);
    cli_line_count(x, "m", s->m);
    cli_line_count(x, "k", s->k);
    cli_line_count(x, "n", s->n);
    cli_line_text(x, "cut", text);
    cli_line_text(x, "recipe", asked[2] ? step.split : "whole");
    cli_line_text(x, "source", step.source);
    cli_line_number(x, "plan_s", plan_s);
    for (int w = 0; w < CLI_WAYS_MOST; w++)
      cli_line_numbers(x, names[w], samples[w], asked[w] ? x->repeats : 0);
    cli_line_end(x);
    double plain = cli_spread_of(samples[0], x->repeats).median;
    cli_say(x,
            "%-8s %5" PRId64 " x %5" PRId64 " x %5" PRId64
            "  plain %.4g s, method 300 %.3f (%s), mmchain %.3f (%s)",
            part, s->m, s->k, s->n, plain,
            asked[1] ? cli_spread_of(samples[1], x->repeats).median / plain : 1, text,
            asked[2] ? cli_spread_of(samples[2], x->repeats).median / plain : 1,
            asked[2] ? step.split : "whole");
  }
  for (int w = 0; w < CLI_WAYS_MOST; w++) cli_way_free(&ways[w]);
  return status;
}

/* ---- what is measured ------------------------------------------------------------------------ */

typedef struct ladder {
  const char *name;
  mmc_dtype dtype;
  int64_t m, k, step, most, quick_most;
} ladder;

static const ladder host_ladders[] = {{"f64, 4 x 4096", MMC_F64, 4, 4096, 4, 128, 16},
                                      {"f64, 8 x 1024", MMC_F64, 8, 1024, 8, 256, 32}};
static const ladder gpu_ladders[] = {{"f32, 256 x 3072", MMC_F32, 256, 3072, 64, 2048, 256},
                                     {"f32, 4096 x 4096", MMC_F32, 4096, 4096, 256, 4096, 512}};
enum { LADDERS = 2 };

/* What the experiment holds while it runs. */
typedef struct state {
  cli_laboratory *lab;
  mmc_context *tuned; /* a context with a wisdom store of its own */
  char store[256];    /* its file */
  times times;
} state;

static int fail_tuned(state *x, mmc_status status) {
  char message[512];
  return cli_fail(x->lab->call, CLI_FAILED, "%s",
                  mmc_context_message(x->tuned, message, sizeof message));
  (void)status;
}

static int fail(state *x, mmc_status status) {
  return cli_fail_status(x->lab->call, status, "");
}

static int show_tuning(void *user, const mmc_tune_progress *p) {
  state *x = user;
  double done = isfinite(p->spent) ? p->spent : 0;
  return cli_laboratory_show(x->lab, done, "tuning") != CLI_DONE;
}

/* Tunes products within a share of the budget. */
static int tune(state *x, mmc_dtype dtype, const sizes *set, int count, double share) {
  mmc_tune_product products[SIZES_MOST];
  for (int i = 0; i < count; i++)
    products[i] = (mmc_tune_product){.dtype = dtype, .m = set[i].m, .k = set[i].k, .n = set[i].n};
  mmc_tune_options options = MMC_TUNE_OPTIONS_INIT;
  options.device = x->lab->device;
  options.products = products;
  options.product_count = count;
  options.budget_s = share * x->lab->budget_s;
  options.progress = show_tuning;
  options.user = x;
  mmc_tune_report report;
  double start = cli_now_s();
  mmc_status status = mmc_tune(x->tuned, &options, &report);
  if (status == MMC_E_INTERRUPTED) return CLI_INTERRUPTED;
  if (status != MMC_OK) return fail_tuned(x, status);
  cli_line_begin(x->lab, "tuning");
  cli_line_count(x->lab, "products", report.products);
  cli_line_count(x->lab, "decided", report.decided);
  cli_line_count(x->lab, "measurements", report.measurements);
  cli_line_number(x->lab, "seconds", cli_now_s() - start);
  cli_line_end(x->lab);
  return CLI_DONE;
}

static void start_times(state *x, const cli_operands *bench, int64_t k, int64_t ld_n) {
  x->times.bench = bench;
  x->times.k = k;
  x->times.ld_n = ld_n;
  x->times.count = 0;
}

/* Compares a set of products after it was tuned. */
static int run_set(state *x, const char *part, const char *series, mmc_dtype dtype,
                   const sizes *set, int count, bool rows_too, const cli_cut *given, double share) {
  cli_operands bench = {.lab = x->lab, .dtype = dtype, .sample_s = x->lab->window_s};
  sizes most = {1, 1, 1};
  for (int i = 0; i < count; i++) {
    if (set[i].m > most.m) most.m = set[i].m;
    if (set[i].k > most.k) most.k = set[i].k;
    if (set[i].n > most.n) most.n = set[i].n;
  }
  int result = tune(x, dtype, set, count, share);
  if (result == CLI_DONE) result = cli_operands_open(&bench, most.m, most.k, most.n);
  for (int i = 0; i < count && result == CLI_DONE; i++) {
    /* Parts are timed with the leading dimensions of the largest product of the series. */
    if (i == 0 || set[i].k != set[i - 1].k || rows_too)
      start_times(x, &bench, set[i].k, rows_too ? set[i].n : most.n);
    cli_cut found = {.count = 0};
    cli_piece whole = {.m = set[i].m, .n = set[i].n};
    mmc_status status = method_300(&x->times, &whole, 0, rows_too, &found);
    if (status == MMC_OK)
      status = compare_cut(&bench, &set[i], given, &found, x->tuned, x->lab, part, series);
    if (status != MMC_OK) result = fail(x, status);
    if (result == CLI_DONE) result = cli_laboratory_show(x->lab, (double)(i + 1) / count, part);
  }
  x->times.bench = NULL;
  cli_operands_close(&bench);
  return result;
}

static int run_ladders(state *x) {
  const ladder *ladders = x->lab->is_gpu ? gpu_ladders : host_ladders;
  int result = CLI_DONE;
  for (int l = 0; l < LADDERS && result == CLI_DONE; l++) {
    sizes set[SIZES_MOST];
    int count = 0;
    int64_t most = x->lab->quick ? ladders[l].quick_most : ladders[l].most;
    for (int64_t n = ladders[l].step; n <= most && count < SIZES_MOST; n += ladders[l].step)
      set[count++] = (sizes){ladders[l].m, ladders[l].k, n};
    result = run_set(x, "ladder", ladders[l].name, ladders[l].dtype, set, count, false, NULL, 0.3);
  }
  return result;
}

/* The patent's own example: 256 x 3072 by 3072 x 2048, cut into 1920 and 128 columns. */
static int run_example(state *x) {
  static const cli_cut cut = {.pieces = {{.m = 256, .n = 1920}, {.col = 1920, .m = 256, .n = 128}},
                              .count = 2};
  static const cli_cut quick_cut = {.pieces = {{.m = 32, .n = 240}, {.col = 240, .m = 32, .n = 16}},
                                    .count = 2};
  const sizes set[] = {x->lab->quick ? (sizes){32, 384, 256} : (sizes){256, 3072, 2048}};
  return run_set(x, "example", x->lab->quick ? "an eighth of the patent's sides" : "the patent's",
                 MMC_F32, set, 1, true, x->lab->quick ? &quick_cut : &cut, 0.1);
}

/* Log-uniform between two sizes. */
static int64_t random_size(cli_random *random, double least, double most) {
  double share = (double)(cli_random_bits(random) >> 11) * 0x1p-53;
  return (int64_t)llround(least * exp(share * log(most / least)));
}

static int run_random_set(state *x) {
  sizes set[SIZES_MOST];
  int count = x->lab->quick ? 2 : 12;
  double most = x->lab->quick ? 64 : x->lab->is_gpu ? 4096 : 512;
  cli_random random = cli_random_start(SEED, 400);
  for (int i = 0; i < count; i++)
    set[i] = (sizes){random_size(&random, 16, most), random_size(&random, 16, most),
                     random_size(&random, 16, most)};
  return run_set(x, "set", "random sizes", x->lab->is_gpu ? MMC_F32 : MMC_F64, set, count, true,
                 NULL, 0.3);
}

/* ---- method 600 ------------------------------------------------------------------------------ */

enum { AXIS_MOST = 256, GRID_MOST = 16 };

/* Finds the step of a ladder: of the rises of the time from each size to the next, the period
 * behind whose multiples most lie, beyond what chance puts there. 0 when there is no ladder. */
static int64_t find_step(const double *seconds, int64_t count) {
  double total = 0, rises[AXIS_MOST] = {0};
  double values[AXIS_MOST];
  for (int64_t i = 1; i < count; i++) values[i - 1] = seconds[i + 1] - seconds[i];
  double typical = 0;
  for (int64_t i = 0; i + 1 < count; i++) typical += fabs(values[i]);
  typical /= (double)(count > 1 ? count - 1 : 1);
  for (int64_t i = 1; i < count; i++) {
    double rise = seconds[i + 1] - seconds[i];
    rises[i] = rise > typical ? fmin(rise, 8 * typical) : 0; /* one cliff is no ladder */
    total += rises[i];
  }
  double best = 0.3;
  int64_t step = 0;
  for (int64_t period = 2; period <= count / 3 && total > 0; period++) {
    double hit = 0;
    for (int64_t at = period; at < count; at += period) hit += rises[at];
    double score = hit / total - 1 / (double)period;
    if (score > best + 0.02) {
      best = score;
      step = period;
    }
  }
  return step;
}

/* Times every size of one axis up to most, the other two held at `other`, and tells the curve. */
static int run_axis(state *x, const cli_operands *bench, int axis, int64_t most, int64_t other,
                    int64_t *step) {
  static const char *const names[] = {"m", "n", "k"};
  double at[AXIS_MOST + 1], seconds[AXIS_MOST + 2] = {0};
  mmc_status status = MMC_OK;
  for (int64_t size = 1; size <= most && status == MMC_OK; size++) {
    int64_t m = axis == 0 ? size : other, n = axis == 1 ? size : other,
            k = axis == 2 ? size : other;
    start_times(x, bench, k, n);
    status = time_piece(&x->times, m, n, &seconds[size]);
    at[size - 1] = (double)size;
  }
  if (status != MMC_OK) return fail(x, status);
  *step = find_step(seconds, most);
  cli_line_begin(x->lab, "axis");
  cli_line_text(x->lab, "axis", names[axis]);
  cli_line_count(x->lab, "other", other);
  cli_line_count(x->lab, "step", *step);
  cli_line_numbers(x->lab, "sizes", at, (int)most);
  cli_line_numbers(x->lab, "seconds", seconds + 1, (int)most);
  cli_line_end(x->lab);
  cli_say(x->lab, "steps    along %s: %" PRId64 " (0: no ladder)", names[axis], *step);
  return CLI_DONE;
}

/* The efficiency array as times: grid[a] multiples of step[a] along m, n and k. */
typedef struct array {
  int64_t step[3];
  int count;
  double seconds[GRID_MOST][GRID_MOST][GRID_MOST];
} array;

static double array_time(const array *a, int64_t m, int64_t n, int64_t k) {
  int64_t i = (m + a->step[0] - 1) / a->step[0], j = (n + a->step[1] - 1) / a->step[1],
          l = (k + a->step[2] - 1) / a->step[2];
  return a->seconds[i - 1][j - 1][l - 1];
}

static int fill_array(state *x, const cli_operands *bench, array *a) {
  for (int i = 0; i < a->count; i++)
    for (int j = 0; j < a->count; j++)
      for (int l = 0; l < a->count; l++) {
        int64_t m = (i + 1) * a->step[0], n = (j + 1) * a->step[1], k = (l + 1) * a->step[2];
        start_times(x, bench, k, n);
        mmc_status status = time_piece(&x->times, m, n, &a->seconds[i][j][l]);
        if (status != MMC_OK) return fail(x, status);
        int done = (i * a->count + j) * a->count + l;
        if (done % 64 == 0 &&
            cli_laboratory_show(x->lab, (double)done / (a->count * a->count * a->count),
                                "the array") != CLI_DONE)
          return CLI_INTERRUPTED;
      }
  return CLI_DONE;
}

/* The best cut in two, of rows or of columns, as the array has it; whole when none is better. */
static cli_cut choose(const array *a, const sizes *s, double *predicted) {
  double whole = array_time(a, s->m, s->n, s->k), least = whole;
  cli_cut best = cli_cut_whole(s->m, s->n);
  for (int64_t m = a->step[0]; m < s->m; m += a->step[0]) {
    double t = array_time(a, m, s->n, s->k) + array_time(a, s->m - m, s->n, s->k);
    if (!(t < least)) continue;
    least = t;
    best = (cli_cut){.pieces = {{.m = m, .n = s->n}, {.row = m, .m = s->m - m, .n = s->n}},
                     .count = 2};
  }
  for (int64_t n = a->step[1]; n < s->n; n += a->step[1]) {
    double t = array_time(a, s->m, n, s->k) + array_time(a, s->m, s->n - n, s->k);
    if (!(t < least)) continue;
    least = t;
    best = (cli_cut){.pieces = {{.m = s->m, .n = n}, {.col = n, .m = s->m, .n = s->n - n}},
                     .count = 2};
  }
  *predicted = whole / least;
  return best;
}

/* Tries the array's choices on sizes that are not in it. */
static int try_choices(state *x, const cli_operands *bench, const array *a) {
  int count = x->lab->quick ? 6 : 40;
  cli_random random = cli_random_start(SEED, 600);
  for (int i = 0; i < count; i++) {
    sizes s = {random_size(&random, 2, (double)(a->step[0] * a->count)),
               random_size(&random, 2, (double)(a->step[2] * a->count)),
               random_size(&random, 2, (double)(a->step[1] * a->count))};
    double predicted, samples[CLI_WAYS_MOST][CLI_REPEATS_MOST], start = cli_now_s();
    cli_cut cut = choose(a, &s, &predicted), whole = cli_cut_whole(s.m, s.n);
    double choice_s = cli_now_s() - start;
    cli_way ways[CLI_WAYS_MOST] = {{.count = 0}};
    const bool asked[CLI_WAYS_MOST] = {true, cut.count > 1};
    mmc_status status = cli_way_of_cut(bench, s.k, s.n, &whole, &ways[0]);
    if (status == MMC_OK) status = cli_way_of_cut(bench, s.k, s.n, &cut, &ways[1]);
    if (status == MMC_OK && asked[1]) status = cli_ways_compare(bench, ways, asked, samples);
    for (int w = 0; w < 2; w++) cli_way_free(&ways[w]);
    if (status != MMC_OK) return fail(x, status);
    char text[CLI_CUT_TEXT];
    cli_cut_format(&cut, text);
    cli_line_begin(x->lab, "choice");
    cli_line_count(x->lab, "m", s.m);
    cli_line_count(x->lab, "k", s.k);
    cli_line_count(x->lab, "n", s.n);
    cli_line_text(x->lab, "cut", text);
    cli_line_number(x->lab, "predicted", predicted);
    cli_line_number(x->lab, "choice_s", choice_s);
    cli_line_numbers(x->lab, "plain_samples", samples[0], asked[1] ? x->lab->repeats : 0);
    cli_line_numbers(x->lab, "patent_samples", samples[1], asked[1] ? x->lab->repeats : 0);
    cli_line_end(x->lab);
  }
  return CLI_DONE;
}

static int run_array(state *x) {
  cli_operands bench = {
      .lab = x->lab, .dtype = x->lab->is_gpu ? MMC_F32 : MMC_F64, .sample_s = x->lab->window_s / 4};
  int64_t most = x->lab->quick ? 24 : 128, other = x->lab->is_gpu ? 256 : x->lab->quick ? 16 : 64;
  array *a = calloc(1, sizeof *a);
  if (a == NULL) return cli_fail_memory(x->lab->call, "the array takes", sizeof *a);
  a->count = x->lab->quick ? 4 : x->lab->is_gpu ? 10 : 12;
  int64_t fallback = x->lab->is_gpu ? 64 : 8;
  int64_t room = 64 * GRID_MOST > most ? 64 * GRID_MOST : most;
  int result = cli_operands_open(&bench, room, room, room);
  for (int axis = 0; axis < 3 && result == CLI_DONE; axis++) {
    result = run_axis(x, &bench, axis, most, other, &a->step[axis]);
    if (a->step[axis] == 0 || a->step[axis] > 64) a->step[axis] = fallback;
  }
  if (result == CLI_DONE) {
    cli_line_begin(x->lab, "array");
    cli_line_count(x->lab, "step_m", a->step[0]);
    cli_line_count(x->lab, "step_n", a->step[1]);
    cli_line_count(x->lab, "step_k", a->step[2]);
    cli_line_count(x->lab, "multiples", a->count);
    cli_line_end(x->lab);
    result = fill_array(x, &bench, a);
  }
  if (result == CLI_DONE) result = try_choices(x, &bench, a);
  x->times.bench = NULL;
  cli_operands_close(&bench);
  free(a);
  return result;
}

/* ---- the experiment -------------------------------------------------------------------------- */

/* Opens a context with an empty wisdom store of its own, so that the machine's stays as it is. */
static int open_state(state *x) {
  const char *directory = getenv("TMPDIR");
  snprintf(x->store, sizeof x->store, "%s/mmchain-XXXXXX",
           directory != NULL && directory[0] != '\0' ? directory : "/tmp");
  int file = mkstemp(x->store);
  if (file < 0)
    return cli_fail(x->lab->call, CLI_FAILED, "%s: cannot make a wisdom store there", x->store);
  close(file);
  unlink(x->store);
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.wisdom_path = x->store;
  x->times.known = malloc(TIMES_MOST * sizeof *x->times.known);
  if (x->times.known == NULL) return cli_fail_memory(x->lab->call, "the times take", 1 << 18);
  mmc_status status = mmc_context_create(&options, &x->tuned);
  return status == MMC_OK ? CLI_DONE : fail(x, status);
}

static void close_state(state *x) {
  mmc_context_destroy(x->tuned);
  free(x->times.known);
  static const char *const ends[] = {"", "-wal", "-shm"};
  for (int e = 0; e < 3; e++) {
    char path[300];
    snprintf(path, sizeof path, "%s%s", x->store, ends[e]);
    unlink(path);
  }
}

static int run(cli_laboratory *lab, const cli_experiment_options *o) {
  state x = {.lab = lab};
  int result = open_state(&x);
  if (result == CLI_DONE && cli_experiment_wants(o->part, "example")) result = run_example(&x);
  if (result == CLI_DONE && cli_experiment_wants(o->part, "ladder")) result = run_ladders(&x);
  if (result == CLI_DONE && cli_experiment_wants(o->part, "set")) result = run_random_set(&x);
  if (result == CLI_DONE && cli_experiment_wants(o->part, "array")) result = run_array(&x);
  close_state(&x);
  return result;
}

const cli_experiment cli_experiment_us9836434 = {
    .name = "us9836434",
    .summary =
        "the methods of US patent 9,836,434 B2 (Lvov, Xiong and Zolotov): products cut where\n"
        "               a library's efficiency is uneven, as the patent cuts them (300, 400, 600)\n"
        "               and as mmchain does, against the plain call; --only example, ladder, set\n"
        "               or array",
    .parts = {"example", "ladder", "set", "array"},
    .window_s = {4e-3, 5e-4},
    .budget_s = {90, 2},
    .repeats = {9, 2},
    .run = run,
    .source = &cli_us9836434_source,
};
