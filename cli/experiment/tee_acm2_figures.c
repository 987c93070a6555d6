/* tee_acm2_figures.c: draws the poster's figures from trials, as bars in groups. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../chart.h"
#include "tee_acm2_figures.h"

/* Where a trial stands in a figure: its group, its bar in that, and how high it is; a plain trial
 * is what others are compared with. */
typedef double (*value_fn)(const cli_trial *trial, const cli_trial *plain);

typedef struct figure {
  int number;
  const char *part;   /* the part of the experiment whose trials are shown */
  const char *suffix; /* how the names of its trials end; "" means any */
  const char *title, *y;
  value_fn value;  /* NaN when not known */
  value_fn second; /* stacked on top; NULL when there is none */
  const char *stacked[2];
  bool plain_too; /* plain trials have bars of their own */
} figure;

/* ---- values ---------------------------------------------------------------------------------- */

static double power_ratio(const cli_trial *t, const cli_trial *plain) {
  return t->energy.watts / plain->energy.watts;
}

static double energy_ratio(const cli_trial *t, const cli_trial *plain) {
  return t->energy.joules / plain->energy.joules;
}

static double sampling_error(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return 100 * t->energy.crosscheck;
}

static double positive(double value) {
  return value > 0 ? value : NAN;
}

static double shared_kib(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return positive((double)t->info.shared_bytes_per_block / 1024);
}

static double registers(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return positive((double)t->info.registers_per_thread);
}

static double loads_gb(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return 4e-9 * t->words;
}

static double creation(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return t->plan_s + t->create_s;
}

static double computation(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return t->seconds;
}

static double joules(const cli_trial *t, const cli_trial *plain) {
  (void)plain;
  return t->energy.joules;
}

static const figure figures[] = {
    {9,
     "single",
     "",
     "power as sampled, above that by the counter",
     "%",
     sampling_error,
     NULL,
     {NULL},
     true},
    {10,
     "single",
     "",
     "power of one product, plain = 1",
     "power",
     power_ratio,
     NULL,
     {NULL},
     false},
    {11,
     "single",
     "",
     "energy of one product, plain = 1",
     "energy",
     energy_ratio,
     NULL,
     {NULL},
     false},
    {12, "tiles", "", "shared memory of a block", "KiB", shared_kib, NULL, {NULL}, true},
    {13, "tiles", "", "registers of a thread", "registers", registers, NULL, {NULL}, true},
    {14,
     "tiles",
     "",
     "loads of one product by the theorem, for each tile",
     "GB",
     loads_gb,
     NULL,
     {NULL},
     true},
    {16,
     "fused",
     "",
     "power of two products in one kernel, two kernels = 1",
     "power",
     power_ratio,
     NULL,
     {NULL},
     false},
    {17,
     "fused",
     "",
     "energy of two products in one kernel, two kernels = 1",
     "energy",
     energy_ratio,
     NULL,
     {NULL},
     false},
    {18,
     "chains",
     "-6",
     "time of creation and computation, 6 matrices",
     "s",
     creation,
     computation,
     {"creation", "computation"},
     true},
    {19,
     "chains",
     "-12",
     "time of creation and computation, 12 matrices",
     "s",
     creation,
     computation,
     {"creation", "computation"},
     true},
    {20, "chains", "-6", "energy of computation, 6 matrices", "J", joules, NULL, {NULL}, true},
    {21, "chains", "-12", "energy of computation, 12 matrices", "J", joules, NULL, {NULL}, true},
};

/* ---- groups and bars ------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_in(const figure *f, const cli_trial *t) {
  return strcmp(t->part, f->part) == 0 && ends_with(t->name, f->suffix) &&
         (f->plain_too || strcmp(t->family, "plain") != 0);
}

static bool same_group(const cli_trial *a, const cli_trial *b) {
  return strcmp(a->name, b->name) == 0 && strcmp(a->order, b->order) == 0;
}

/* Returns the trial that t is compared with: NULL when there is none. */
static const cli_trial *plain_of(const cli_trials *all, const cli_trial *t) {
  for (size_t i = 0; i < all->count; i++) {
    const cli_trial *p = &all->trials[i];
    if (strcmp(p->part, t->part) == 0 && same_group(p, t) && strcmp(p->family, "plain") == 0)
      return p;
  }
  return NULL;
}

static double value_of(const cli_trials *all, const cli_trial *t, value_fn value) {
  const cli_trial *plain = plain_of(all, t);
  return plain != NULL || strcmp(t->part, "tiles") == 0 ? value(t, plain) : NAN;
}

static bool is_known(const cli_trials *all, const figure *f) {
  for (size_t i = 0; i < all->count; i++)
    if (is_in(f, &all->trials[i]) && isfinite(value_of(all, &all->trials[i], f->value)))
      return true;
  return false;
}

/* ---- drawing --------------------------------------------------------------------------------- */

enum { BARS_MAX = 32, WIDTH = 760 };

/* What a bar says, and the heading of its group. */
typedef struct labels {
  char group[96], value[48];
} labels;

/* Returns the hue of a family: families have them in the order in which they were measured. */
static int hue_of(const cli_trials *all, const figure *f, const char *family) {
  const char *families[BARS_MAX];
  int count = 0;
  for (size_t i = 0; i < all->count && count < BARS_MAX; i++) {
    if (!is_in(f, &all->trials[i]) || !all->trials[i].measured) continue;
    int b = 0;
    while (b < count && strcmp(families[b], all->trials[i].family) != 0) b++;
    if (b == count) families[count++] = all->trials[i].family;
  }
  for (int b = 0; b < count; b++)
    if (strcmp(families[b], family) == 0) return b;
  return 0;
}

static cli_bar bar_of(const cli_trials *all, const figure *f, const cli_trial *t, labels *words) {
  bool ordered = strcmp(t->part, "chains") == 0,
       scaled = strcmp(f->y, "s") == 0 || strcmp(f->y, "J") == 0;
  bool ratio = strcmp(f->y, "power") == 0 || strcmp(f->y, "energy") == 0;
  cli_bar bar = {.group = words->group,
                 .name = t->family,
                 .note = "",
                 .hue = hue_of(all, f, t->family),
                 .value = value_of(all, t, f->value),
                 .more = f->second != NULL ? value_of(all, t, f->second) : (double)NAN,
                 .low = NAN,
                 .high = NAN};
  snprintf(words->group, sizeof words->group, "%s%s%s", t->name, ordered ? " " : "",
           ordered ? t->order : "");
  snprintf(words->value, sizeof words->value, "%.3g%s%s", bar.value, ratio ? "" : " ",
           ratio ? "" : f->y);
  if (!scaled) bar.text = words->value;
  return bar;
}

/* Collects the bars of a figure, those of a group one after the other. Returns how many. */
static int collect(const cli_trials *all, const figure *f, cli_bar *bars, labels *words) {
  int count = 0;
  for (size_t i = 0; i < all->count; i++) {
    const cli_trial *t = &all->trials[i];
    if (!is_in(f, t)) continue;
    size_t first = 0;
    while (!is_in(f, &all->trials[first]) || !same_group(&all->trials[first], t)) first++;
    if (first != i) continue;
    for (size_t j = i; j < all->count; j++) {
      const cli_trial *u = &all->trials[j];
      if (!is_in(f, u) || !same_group(u, t) || !u->measured ||
          !isfinite(value_of(all, u, f->value)))
        continue;
      bars[count] = bar_of(all, f, u, &words[count]);
      count++;
    }
  }
  return count;
}

static int draw_figure(cli_call *call, const char *directory, const cli_trials *all,
                       const figure *f) {
  char path[4096], title[128];
  cli_bar *bars = calloc(all->count, sizeof *bars);
  labels *words = calloc(all->count, sizeof *words);
  int length = snprintf(path, sizeof path, "%s/figure-%02d.svg", directory, f->number),
      result = CLI_DONE;
  cli_file file;
  if (bars == NULL || words == NULL) {
    result = cli_fail_memory(call, "the figure takes", (double)all->count * sizeof *bars);
  } else if (length < 0 || (size_t)length >= sizeof path) {
    result = cli_fail(call, CLI_BAD, "-o: expected a shorter name");
  } else if (cli_file_create(path, &file)) {
    snprintf(title, sizeof title, "Figure %d: %s", f->number, f->title);
    cli_bars chart = {.title = title,
                      .subtitle = all->machine,
                      .unit = f->y,
                      .parts = {f->stacked[0], f->stacked[1]},
                      .bars = bars,
                      .count = collect(all, f, bars, words),
                      .width = WIDTH};
    cli_chart_bars(&file.stream, &chart, true);
    if (!cli_file_commit(&file))
      result = cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
  } else {
    result = cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
  }
  free(bars);
  free(words);
  return result;
}

int cli_tee_acm2_draw(cli_call *call, const char *directory, const cli_trials *trials) {
  int result = CLI_DONE;
  for (size_t f = 0; f < sizeof figures / sizeof figures[0] && result == CLI_DONE; f++) {
    if (is_known(trials, &figures[f]))
      result = draw_figure(call, directory, trials, &figures[f]);
    else
      fprintf(stderr, "mmchain bench: no figure %d: nothing of it was measured\n",
              figures[f].number);
  }
  fprintf(stderr, "mmchain bench: no figure 15: hardware counters are not readable here\n");
  return result;
}
