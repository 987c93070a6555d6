/* tee_acm2_figures.c: draws the poster's figures from trials, by gnuplot, as bars in groups. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../programs.h"
#include "tee_acm2_figures.h"

/* Where a trial stands in a figure: its group, its bar in that, and how high it is; a plain trial
 * is what others are compared with. */
typedef double (*value_fn)(const cli_trial *trial, const cli_trial *plain);

typedef struct figure {
  int number;
  const char *part;   /* of the experiment, whose trials are in it */
  const char *suffix; /* of the names of its trials; "" means any */
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

/* ---- scripts --------------------------------------------------------------------------------- */

static void print_value(cli_stream *out, double value) {
  if (isfinite(value))
    cli_print(out, " %.6g", value);
  else
    cli_print(out, " ?");
}

/* Prints text that stands between double quotes of gnuplot. */
static void print_label(cli_stream *out, const char *text) {
  cli_print(out, "\"");
  for (; *text != '\0'; text++)
    if (*text != '"' && *text != '\\') cli_print(out, "%c", *text);
  cli_print(out, "\"");
}

static void print_group(cli_stream *out, const cli_trial *t, bool with_family) {
  char label[128];
  bool ordered = strcmp(t->part, "chains") == 0;
  snprintf(label, sizeof label, "%s%s%s%s%s", t->name, ordered ? " " : "", ordered ? t->order : "",
           with_family ? " " : "", with_family ? t->family : "");
  print_label(out, label);
}

/* Prints a line for each trial: its label and the two parts of its bar. */
static void print_stacks(cli_stream *out, const cli_trials *all, const figure *f) {
  cli_print(out, "bar %s %s\n", f->stacked[0], f->stacked[1]);
  for (size_t i = 0; i < all->count; i++) {
    const cli_trial *t = &all->trials[i];
    if (!is_in(f, t) || !t->measured) continue;
    print_group(out, t, true);
    print_value(out, value_of(all, t, f->value));
    print_value(out, value_of(all, t, f->second));
    cli_print(out, "\n");
  }
}

enum { BARS_MAX = 32 };

/* Lists the families of kernels that were measured, in that order. */
static int list_bars(const cli_trials *all, const figure *f, const char *bars[BARS_MAX]) {
  int count = 0;
  for (size_t i = 0; i < all->count; i++) {
    if (!is_in(f, &all->trials[i]) || !all->trials[i].measured) continue;
    int b = 0;
    while (b < count && strcmp(bars[b], all->trials[i].family) != 0) b++;
    if (b == count && count < BARS_MAX) bars[count++] = all->trials[i].family;
  }
  return count;
}

/* Prints a line for each group: its label and a value for each bar. */
static int print_bars(cli_stream *out, const cli_trials *all, const figure *f) {
  const char *bars[BARS_MAX];
  int count = list_bars(all, f, bars);
  cli_print(out, "group");
  for (int b = 0; b < count; b++) {
    cli_print(out, " ");
    print_label(out, bars[b]);
  }
  cli_print(out, "\n");
  for (size_t i = 0; i < all->count; i++) {
    const cli_trial *t = &all->trials[i];
    if (!is_in(f, t)) continue;
    size_t first = 0;
    while (!is_in(f, &all->trials[first]) || !same_group(&all->trials[first], t)) first++;
    if (first != i) continue;
    print_group(out, t, false);
    for (int b = 0; b < count; b++) {
      double value = NAN;
      for (size_t j = i; j < all->count; j++) {
        const cli_trial *u = &all->trials[j];
        if (is_in(f, u) && same_group(u, t) && strcmp(u->family, bars[b]) == 0 && u->measured)
          value = value_of(all, u, f->value);
      }
      print_value(out, value);
    }
    cli_print(out, "\n");
  }
  return count;
}

static int print_script(const cli_trials *all, const figure *f, cli_buffer *script) {
  cli_stream out = {.file = open_memstream(&script->bytes, &script->size)};
  if (out.file == NULL) return errno;
  int columns = 2;
  cli_print(&out, "$data << END_OF_DATA\n");
  if (f->second != NULL)
    print_stacks(&out, all, f);
  else
    columns = print_bars(&out, all, f);
  cli_print(&out,
            "END_OF_DATA\n"
            "set terminal svg size 1000,560 font 'sans-serif' background 'white' noenhanced\n"
            "set datafile missing '?'\n"
            "set style data histogram\n"
            "set style histogram %s\n"
            "set style fill solid 0.8 border -1\n"
            "set boxwidth 0.9\n"
            "set key outside right top\n"
            "set grid ytics\n"
            "set yrange [*<0:*]\n"
            "set xtics rotate by -45 nomirror\n"
            "set ylabel '%s'\n"
            "set title ",
            f->second != NULL ? "rowstacked" : "clustered gap 1", f->y);
  char title[256];
  snprintf(title, sizeof title, "Figure %d: %s (%s)", f->number, f->title, all->machine);
  print_label(&out, title);
  cli_print(&out, "\nplot");
  for (int c = 0; c < columns; c++)
    cli_print(&out, "%s $data using %d%s title columnheader", c > 0 ? "," : "", c + 2,
              c == 0 ? ":xtic(1)" : "");
  cli_print(&out, "\n");
  cli_stream_close(&out);
  return out.error;
}

/* Draws the figure, or writes gnuplot's input where that is not installed. */
static int draw(cli_call *call, const char *directory, const cli_trials *all, const figure *f,
                bool with_gnuplot) {
  char path[4096];
  char *const gnuplot[] = {"gnuplot", NULL};
  cli_buffer script = {0}, drawing = {0};
  int length = snprintf(path, sizeof path, "%s/figure-%02d.%s", directory, f->number,
                        with_gnuplot ? "svg" : "gp");
  int result = CLI_DONE;
  if (length < 0 || (size_t)length >= sizeof path)
    result = cli_fail(call, CLI_BAD, "-o: expected a shorter name");
  else if (print_script(all, f, &script) != 0)
    result = cli_fail_memory(call, "the plot takes", 1 << 16);
  if (result == CLI_DONE && with_gnuplot)
    result = cli_program_run(call, "gnuplot-nox", gnuplot, &script, &drawing);
  if (result == CLI_DONE)
    result = cli_buffer_save(call, "-o", path, with_gnuplot ? &drawing : &script);
  cli_buffer_free(&script);
  cli_buffer_free(&drawing);
  return result;
}

int cli_tee_acm2_draw(cli_call *call, const char *directory, const cli_trials *trials) {
  char found[PATH_MAX];
  bool with_gnuplot = cli_program_find("gnuplot", found);
  int result = CLI_DONE;
  if (!with_gnuplot)
    fprintf(stderr,
            "mmchain bench: figures as gnuplot's input, figure-NN.gp: install "
            "gnuplot-nox for pictures\n");
  for (size_t f = 0; f < sizeof figures / sizeof figures[0] && result == CLI_DONE; f++) {
    if (is_known(trials, &figures[f]))
      result = draw(call, directory, trials, &figures[f], with_gnuplot);
    else
      fprintf(stderr, "mmchain bench: no figure %d: nothing of it was measured\n",
              figures[f].number);
  }
  fprintf(stderr, "mmchain bench: no figure 15: hardware counters are not readable here\n");
  return result;
}
