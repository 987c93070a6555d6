#include "profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"

bool cli_profile_start(cli_buffer *csv) {
  static const char names[] = "l,kernel,seconds\n";
  return cli_buffer_write(csv, names, sizeof names - 1) == 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Reads one line of the CSV from a copy, because sscanf() measures the whole string that it is
 * given. */
static bool read_line(const char *line, cli_profile_line *out) {
  char copy[128] = "";
  const size_t length = strcspn(line, "\n");
  memcpy(copy, line, length < sizeof copy ? length : sizeof copy - 1);
  *out = (cli_profile_line){0};
  out->is_range = sscanf(copy, "# range,%" SCNd64 ",%" SCNd64 ",%31[^,]", &out->first, &out->last,
                         out->kernel) == 3;
  if (out->is_range) return true;
  const int fields =
      sscanf(copy, "%" SCNd64 ",%31[^,],%lf", &out->first, out->kernel, &out->seconds);
  out->last = out->first;
  return fields == 3;
}

bool cli_profile_next(const char **at, cli_profile_line *out) {
  while (*at != NULL && **at != '\0') {
    const char *line = *at, *end = strchr(line, '\n');
    *at = end != NULL ? end + 1 : NULL;
    if (read_line(line, out)) return true;
  }
  return false;
}

void cli_profile_print_ranges(cli_call *call, const cli_buffer *csv) {
  bool first_range = true;
  cli_profile_line line;
  for (const char *at = csv->bytes; cli_profile_next(&at, &line);) {
    if (!line.is_range) continue;
    cli_print(&call->out, "%-15s  %" PRId64 "..%" PRId64 " %s\n", first_range ? "diagonals" : "",
              line.first, line.last, line.kernel);
    first_range = false;
  }
}

/* ---- the plot -------------------------------------------------------------------------------- */

enum { KERNELS_MAX = 16 };

/* Lists the names of the kernels, in the order in which they occur. */
static int list_kernels(const cli_buffer *csv, char names[KERNELS_MAX][CLI_PROFILE_NAME_SIZE]) {
  int count = 0;
  cli_profile_line line;
  for (const char *at = csv->bytes; cli_profile_next(&at, &line);) {
    if (line.is_range) continue;
    int k = 0;
    while (k < count && strcmp(names[k], line.kernel) != 0) k++;
    if (k == count && count < KERNELS_MAX) memcpy(names[count++], line.kernel, sizeof names[0]);
  }
  return count;
}

/* Prints a block of data for each kernel, then the plot of all. */
static int print_script(const cli_buffer *csv, cli_buffer *script) {
  char names[KERNELS_MAX][CLI_PROFILE_NAME_SIZE];
  int count = list_kernels(csv, names);
  cli_stream stream = {.file = open_memstream(&script->bytes, &script->size)};
  if (stream.file == NULL) return errno;
  for (int k = 0; k < count; k++) {
    cli_print(&stream, "$kernel%d << END_OF_DATA\n", k);
    cli_profile_line line;
    for (const char *at = csv->bytes; cli_profile_next(&at, &line);)
      if (!line.is_range && strcmp(line.kernel, names[k]) == 0)
        cli_print(&stream, "%" PRId64 " %.17g\n", line.first, line.seconds);
    cli_print(&stream, "END_OF_DATA\n");
  }
  cli_print(&stream,
            "set terminal svg size 900,540 font 'sans-serif' background 'white'\n"
            "set xlabel 'diagonal l'\n"
            "set ylabel 'time (ms)'\n"
            "set yrange [0:*]\n"
            "set key left top\n"
            "set grid\n"
            "set linetype 1 lw 2 lc rgb '#0072b2'\n" /* the hues of chart.c */
            "set linetype 2 lw 2 lc rgb '#e69f00'\n"
            "set linetype 3 lw 2 lc rgb '#009e73'\n"
            "set linetype 4 lw 2 lc rgb '#d55e00'\n"
            "plot");
  for (int k = 0; k < count; k++)
    cli_print(&stream, "%s $kernel%d using 1:($2 * 1000) with lines title '%s'", k > 0 ? "," : "",
              k, names[k]);
  cli_print(&stream, "\n");
  cli_stream_close(&stream);
  return stream.error;
}

/* Returns path with .svg for .csv, a string to free, or NULL. */
static char *picture_path(const char *path) {
  size_t length = strlen(path);
  if (length >= 4 && strcmp(path + length - 4, ".csv") == 0) length -= 4;
  char *out = malloc(length + sizeof ".svg");
  if (out == NULL) return NULL;
  memcpy(out, path, length);
  memcpy(out + length, ".svg", sizeof ".svg");
  return out;
}

int cli_profile_check(cli_call *call, const char *path) {
  char *picture = picture_path(path);
  if (picture == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  int result = cli_check_output(call, "--profile", path);
  if (result == CLI_DONE) result = cli_check_output(call, "--profile", picture);
  free(picture);
  return result;
}

static int draw_profile(cli_call *call, const char *path, const cli_buffer *csv) {
  char found[PATH_MAX];
  if (!cli_program_find("gnuplot", found)) {
    fprintf(stderr, "mmchain order: no plot of the profile: install gnuplot-nox\n");
    return CLI_DONE;
  }
  char *const gnuplot[] = {"gnuplot", NULL};
  char *picture = picture_path(path);
  cli_buffer script = {0}, drawing = {0};
  int result = CLI_DONE;
  if (picture == NULL || print_script(csv, &script) != 0)
    result = cli_fail_memory(call, "the plot takes", 2 * (double)csv->size);
  if (result == CLI_DONE) result = cli_program_run(call, "gnuplot-nox", gnuplot, &script, &drawing);
  if (result == CLI_DONE) result = cli_buffer_save(call, "--profile", picture, &drawing);
  free(picture);
  cli_buffer_free(&script);
  cli_buffer_free(&drawing);
  return result;
}

int cli_profile_write(cli_call *call, const char *path, const cli_buffer *csv) {
  int result = cli_buffer_save(call, "--profile", path, csv);
  return result == CLI_DONE ? draw_profile(call, path, csv) : result;
}
