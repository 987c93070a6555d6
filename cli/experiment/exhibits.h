/* exhibits.h: the page of an experiment: every figure, table and claim of a publication by its
 * number, what it says, what was found here, and a verdict.
 *
 * All that the page shows comes from the records of the experiment, so that it is drawn again from
 * results.jsonl anywhere, and is the same. */
#ifndef MMC_CLI_EXHIBITS_H
#define MMC_CLI_EXHIBITS_H

#include "records.h"

typedef enum cli_verdict {
  CLI_OPEN, /* it cannot be measured here, or was not; the answer says why */
  CLI_HOLDS,
  CLI_BEATEN, /* what was found is better than what the publication has */
  CLI_FAILS
} cli_verdict;

/* What was found about an exhibit. */
typedef struct cli_answer {
  cli_verdict verdict;
  char ours[800]; /* with its spread, or why it was not measured */
} cli_answer;

/* Sets the answer; the text is formatted. */
void cli_answer_set(cli_answer *answer, cli_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds to the answer's text. */
void cli_answer_add(cli_answer *answer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Answers whether the orders of three matrices, as cli_tell_orders() tells them, take so many
 * multiplications. */
void cli_answer_orders(const cli_records *all, cli_answer *answer, double left, double right);

/* One figure, table or claim of the publication. Functions that are NULL are left out. */
typedef struct cli_exhibit {
  const char *name;   /* "Figure 10" */
  const char *title;  /* what it shows */
  const char *theirs; /* what the publication says, with its numbers */
  void (*answer)(const cli_records *all, cli_answer *out);
  /* Draws a picture of this width; alone as cli_chart_bars() takes it. Returns false, having
   * written nothing, when nothing of it was measured. */
  bool (*draw)(cli_stream *out, const cli_records *all, int width, bool alone);
  /* Writes tables and paragraphs. */
  void (*tell)(cli_stream *out, const cli_records *all);
} cli_exhibit;

typedef struct cli_exhibits {
  const cli_exhibit *all;
  int count;
} cli_exhibits;

/* The publication: what the page begins with. */
typedef struct cli_source {
  const char *experiment; /* "tee-acm2" */
  const char *title;
  const char *citation;
  const char *words;            /* how it is read here, and slips in it; may be "" */
  const cli_exhibits *parts[3]; /* one after the other; NULL where there are fewer */
} cli_source;

/* Writes DIR/index.html, and DIR/figure-10.svg and so on for exhibits with pictures. Returns an
 * exit status. */
int cli_exhibits_write(cli_call *call, const char *directory, const cli_source *source,
                       const cli_records *all);

/* Removes the page and the pictures that an earlier run left, which the lines of another would
 * contradict. Returns an exit status. */
int cli_exhibits_remove(cli_call *call, const char *directory, const cli_source *source);

typedef struct cli_phrase {
  char text[120];
} cli_phrase;
/* Returns "905 mJ (900 to 911 mJ)" or, of one value, "905 mJ"; "-" for none. */
cli_phrase cli_with_spread(cli_spread spread, const char *unit);

#endif
