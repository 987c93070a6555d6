/* exhibits.c: writes the page of an experiment and its pictures. */
#include "exhibits.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "../page.h"
#include "../xml.h"

enum { WIDE = 640, NARROW = 350, EXHIBITS_MOST = 64 };

static const struct {
  const char *word, *class;
} verdicts[] = {[CLI_OPEN] = {"not measured", "open"},
                [CLI_HOLDS] = {"holds", "holds"},
                [CLI_BEATEN] = {"beaten", "beaten"},
                [CLI_FAILS] = {"fails", "fails"}};

void cli_answer_set(cli_answer *answer, cli_verdict verdict, const char *format, ...) {
  va_list args;
  answer->verdict = verdict;
  va_start(args, format);
  if (vsnprintf(answer->ours, sizeof answer->ours, format, args) < 0) answer->ours[0] = '\0';
  va_end(args);
}

void cli_answer_add(cli_answer *answer, const char *format, ...) {
  const size_t used = strlen(answer->ours);
  va_list args;
  va_start(args, format);
  if (vsnprintf(answer->ours + used, sizeof answer->ours - used, format, args) < 0)
    answer->ours[used] = '\0';
  va_end(args);
}

void cli_answer_orders(const cli_records *all, cli_answer *a, double left, double right) {
  const cli_record *first = cli_records_find(all, "example", "order", "((A1 A2) A3)"),
                   *second = cli_records_find(all, "example", "order", "(A1 (A2 A3))");
  if (first == NULL || second == NULL) return;
  double l = cli_record_number(first, "multiplications"),
         r = cli_record_number(second, "multiplications");
  cli_answer_set(a, l == left && r == right ? CLI_HOLDS : CLI_FAILS, "%.0f and %.0f", l, r);
}

cli_phrase cli_with_spread(cli_spread spread, const char *unit) {
  cli_phrase out;
  if (spread.count > 1)
    snprintf(out.text, sizeof out.text, "%s (%s to %s)", cli_in_units(spread.median, unit).text,
             cli_in_units(spread.low, unit).text, cli_in_units(spread.high, unit).text);
  else
    snprintf(out.text, sizeof out.text, "%s", cli_in_units(spread.median, unit).text);
  return out;
}

/* Writes a name as a part of an address: "Table I (a)" as "table-i-a". */
static void slug_of(const char *name, char *out, size_t size) {
  size_t length = 0;
  for (const char *c = name; *c != '\0' && length + 2 < size; c++) {
    if (isalnum((unsigned char)*c))
      out[length++] = (char)tolower((unsigned char)*c);
    else if (length > 0 && out[length - 1] != '-')
      out[length++] = '-';
  }
  if (length > 0 && out[length - 1] == '-') length--;
  out[length] = '\0';
}

/* ---- the page -------------------------------------------------------------------------------- */

static void put_verdict(cli_stream *out, const cli_answer *a) {
  cli_print(out, "<b class=\"verdict %s\">%s</b>", verdicts[a->verdict].class,
            verdicts[a->verdict].word);
}

/* Says on what, when and by which mmchain a run was measured. */
static void put_origin(cli_stream *out, const cli_record *about) {
  char joules[600] = "";
  const char *reason = cli_record_text(about, "joules_reason");
  if (reason[0] != '\0')
    snprintf(joules, sizeof joules, "Joules are not measured: %s.", reason);
  else if (isfinite(cli_record_number(about, "idle_watts")))
    snprintf(joules, sizeof joules, "Joules by %s, idle power %.4g W included.",
             cli_record_text(about, "meter"), cli_record_number(about, "idle_watts"));
  cli_page_words(out, "Measured on %s (device %s; processor %s) at %s by mmchain %s, commit %s%s.",
                 cli_record_text(about, "machine"), cli_record_text(about, "device"),
                 cli_record_text(about, "processor"), cli_record_text(about, "when"),
                 cli_record_text(about, "version"), cli_record_text(about, "commit"),
                 cli_record_is(about, "quick") ? ", with the small sizes of --quick" : "");
  double repeats = cli_record_number(about, "repeats");
  const double window_s = cli_record_number(about, "window_s");
  char each[64] = "";
  if (window_s > 0) snprintf(each, sizeof each, " of %.3g s each", window_s);
  if (isfinite(repeats))
    cli_page_words(out,
                   "Every number is the median of %.0f samples%s, unless it says otherwise; "
                   "brackets and thin lines show the least and the most. %s",
                   repeats, each, joules);
  cli_page_words(out, "%s", cli_record_text(about, "command"));
}

/* All exhibits of a publication, with their answers once there are. */
typedef struct shown {
  const cli_exhibit *exhibits[EXHIBITS_MOST];
  cli_answer answers[EXHIBITS_MOST];
  int count;
} shown;

static void put_summary(cli_stream *out, const shown *s) {
  int counts[4] = {0};
  for (int e = 0; e < s->count; e++) counts[s->answers[e].verdict]++;
  cli_page_figures_begin(out);
  static const cli_verdict told[] = {CLI_HOLDS, CLI_BEATEN, CLI_FAILS, CLI_OPEN};
  for (size_t v = 0; v < sizeof told / sizeof told[0]; v++) {
    char number[16];
    snprintf(number, sizeof number, "%d", counts[told[v]]);
    cli_page_figure(out, number, verdicts[told[v]].word);
  }
  cli_page_figures_end(out);
  cli_print(out,
            "<table class=\"summary\">\n<thead><tr><th>of the publication</th><th>it says</th>"
            "<th>here</th></tr></thead>\n<tbody>\n");
  for (int e = 0; e < s->count; e++) {
    char slug[64];
    slug_of(s->exhibits[e]->name, slug, sizeof slug);
    cli_print(out, "<tr><td><a href=\"#%s\">", slug);
    cli_print_xml(out, s->exhibits[e]->name);
    cli_print(out, "</a></td><td>");
    cli_print_xml(out, s->exhibits[e]->theirs);
    cli_print(out, "</td><td>");
    put_verdict(out, &s->answers[e]);
    cli_print(out, " ");
    cli_print_xml(out, s->answers[e].ours);
    cli_print(out, "</td></tr>\n");
  }
  cli_print(out, "</tbody></table>\n");
}

static void put_exhibit(cli_stream *out, const cli_exhibit *e, const cli_answer *answer,
                        const cli_records *all) {
  char slug[64];
  slug_of(e->name, slug, sizeof slug);
  cli_print(out, "<section id=\"%s\"><h2>", slug);
  cli_print_xml(out, e->name);
  cli_print(out, ": ");
  cli_print_xml(out, e->title);
  cli_print(out, "</h2>\n<p><b>The publication:</b> ");
  cli_print_xml(out, e->theirs);
  cli_print(out, "</p>\n<p><b>Here:</b> ");
  cli_print_xml(out, answer->ours);
  cli_print(out, " ");
  put_verdict(out, answer);
  cli_print(out, "</p>\n");
  if (e->draw != NULL) {
    cli_print(out, "<div class=\"picture wide\">\n");
    e->draw(out, all, WIDE, false);
    cli_print(out, "</div>\n<div class=\"picture narrow\">\n");
    e->draw(out, all, NARROW, false);
    cli_print(out, "</div>\n");
  }
  if (e->tell != NULL) e->tell(out, all);
  cli_print(out, "</section>\n");
}

static shown list_exhibits(const cli_source *source, const cli_records *all) {
  enum { PARTS = sizeof source->parts / sizeof source->parts[0] };
  shown s = {.count = 0};
  for (int p = 0; p < PARTS && source->parts[p] != NULL; p++)
    for (int e = 0; e < source->parts[p]->count && s.count < EXHIBITS_MOST; e++, s.count++) {
      const cli_exhibit *exhibit = &source->parts[p]->all[e];
      s.exhibits[s.count] = exhibit;
      cli_answer_set(&s.answers[s.count], CLI_OPEN, "not measured");
      if (exhibit->answer != NULL) exhibit->answer(all, &s.answers[s.count]);
    }
  return s;
}

static void put_page(cli_stream *out, const cli_source *s, const shown *what,
                     const cli_records *all) {
  cli_page_begin(out, s->title);
  cli_page_words(out, "%s", s->citation);
  const cli_record *about;
  for (size_t at = 0; (about = cli_records_next(all, "about", &at)) != NULL;)
    put_origin(out, about);
  if (s->words[0] != '\0') cli_page_words(out, "%s", s->words);
  put_summary(out, what);
  for (int e = 0; e < what->count; e++) put_exhibit(out, what->exhibits[e], &what->answers[e], all);
  cli_page_end(out);
}

/* ---- files ----------------------------------------------------------------------------------- */

static int fail_file(const cli_call *call, const char *path) {
  return cli_fail(call, CLI_BAD, "-o: %s: cannot write: %s", path, strerror(errno));
}

static int path_in(const cli_call *call, const char *directory, const char *name, char *out,
                   size_t size) {
  int length = snprintf(out, size, "%s/%s", directory, name);
  if (length >= 0 && (size_t)length < size) return CLI_DONE;
  return cli_fail(call, CLI_BAD, "-o: expected a shorter name");
}

/* Sets the path of an exhibit's picture. Returns an exit status. */
static int picture_path(const cli_call *call, const char *directory, const cli_exhibit *e,
                        char *path, size_t size) {
  char slug[64], name[80];
  slug_of(e->name, slug, sizeof slug);
  snprintf(name, sizeof name, "%s.svg", slug);
  return path_in(call, directory, name, path, size);
}

/* Writes one picture as a file of its own; where there is nothing to draw, none is left there. */
static int write_picture(cli_call *call, const char *directory, const cli_exhibit *e,
                         const cli_records *all) {
  char path[4096];
  cli_file file;
  int result = picture_path(call, directory, e, path, sizeof path);
  if (result != CLI_DONE) return result;
  if (!cli_file_create(path, &file)) return fail_file(call, path);
  if (!e->draw(&file.stream, all, WIDE, true)) {
    cli_file_discard(&file);
    unlink(path);
    return CLI_DONE;
  }
  return cli_file_commit(&file) ? CLI_DONE : fail_file(call, path);
}

int cli_exhibits_remove(cli_call *call, const char *directory, const cli_source *source) {
  char path[4096];
  int result = path_in(call, directory, "index.html", path, sizeof path);
  const shown what = list_exhibits(source, &(cli_records){0});
  if (result == CLI_DONE) unlink(path);
  for (int e = 0; e < what.count && result == CLI_DONE; e++) {
    if (what.exhibits[e]->draw == NULL) continue;
    result = picture_path(call, directory, what.exhibits[e], path, sizeof path);
    if (result == CLI_DONE) unlink(path);
  }
  return result;
}

int cli_exhibits_write(cli_call *call, const char *directory, const cli_source *source,
                       const cli_records *all) {
  char path[4096];
  cli_file file;
  int result = path_in(call, directory, "index.html", path, sizeof path);
  const shown what = list_exhibits(source, all);
  for (int e = 0; e < what.count && result == CLI_DONE; e++)
    if (what.exhibits[e]->draw != NULL)
      result = write_picture(call, directory, what.exhibits[e], all);
  if (result != CLI_DONE) return result;
  if (!cli_file_create(path, &file)) return fail_file(call, path);
  put_page(&file.stream, source, &what, all);
  return cli_file_commit(&file) ? CLI_DONE : fail_file(call, path);
}
