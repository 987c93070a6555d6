/* laboratory.h: what experiments are made with: the device, the meter, and the lines of results. */
#ifndef MMC_CLI_LABORATORY_H
#define MMC_CLI_LABORATORY_H

#include <stdio.h>

#include "../command.h"
#include "../energy.h"
#include "../progress.h"

enum { CLI_REPEATS_MOST = 32 };

typedef struct cli_laboratory {
  cli_call *call;
  const char *experiment; /* its name */
  const char *device;
  bool is_gpu, quick, json;
  double window_s;   /* seconds of a sample */
  int repeats;       /* samples of everything that is measured */
  double budget_s;   /* seconds of searches that take any; see each experiment */
  char machine[128]; /* "NVIDIA H200" */
  cli_energy energy;
  const char *directory; /* where the results go; NULL means nowhere */
  cli_stream kept;       /* results.jsonl there, which has every line as soon as it ends */
  FILE *results;         /* writes to lines */
  char *lines;           /* the results so far, a line of JSON each */
  size_t size;           /* their bytes, after fflush(results) */
  size_t told;           /* how many of these bytes were kept and printed */
  cli_stream line;       /* the line that is being written, to results */
  cli_progress progress;
} cli_laboratory;

/* Names the machine and opens the lines of results, and results.jsonl. Returns an exit status. */
int cli_laboratory_open(cli_laboratory *laboratory);
/* Writes the line about the machine; after the meter was opened. command is what was asked for. */
void cli_laboratory_tell_about(cli_laboratory *laboratory, const char *command);
void cli_laboratory_close(cli_laboratory *laboratory);

/* Write one line of results: begin, any fields, end. Numbers that are not finite are null, and so
 * are texts that are NULL or "". The end writes the line to results.jsonl, so that it stays when
 * the program is ended in whatever way, and prints it where --json was asked for. */
void cli_line_begin(cli_laboratory *laboratory, const char *part);
void cli_line_text(cli_laboratory *laboratory, const char *name, const char *text);
void cli_line_number(cli_laboratory *laboratory, const char *name, double value);
void cli_line_count(cli_laboratory *laboratory, const char *name, int64_t value);
void cli_line_exact(cli_laboratory *laboratory, const char *name, mmc_count value);
void cli_line_truth(cli_laboratory *laboratory, const char *name, bool value);
void cli_line_numbers(cli_laboratory *laboratory, const char *name, const double *values,
                      int count);
void cli_line_end(cli_laboratory *laboratory);
/* Writes a line for each order of a chain of three matrices: its multiplications. Returns an exit
 * status. */
int cli_tell_orders(cli_laboratory *laboratory, const char *chain);
/* Brings results.jsonl to the disk. Returns an exit status, after saying which line was not
 * written. */
int cli_laboratory_save(cli_laboratory *laboratory);

/* Prints a line of text where --json was not asked for. */
void cli_say(cli_laboratory *laboratory, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shows how far the work is. Returns CLI_DONE, or CLI_INTERRUPTED after saying so. */
int cli_laboratory_show(cli_laboratory *laboratory, double done, const char *words);

/* Returns the seconds since 1970. */
double cli_unix_s(void);

#endif
