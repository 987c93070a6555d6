#include "dims.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "nearest.h"
#include "options.h"
#include "progress.h"

static bool is_joint(char c) {
  return c == ',' || c == 'x';
}

static bool is_separator(char c) {
  return isspace((unsigned char)c) || is_joint(c);
}

static int append_dim(cli_call *call, int64_t dim, cli_dims *dims) {
  if (dims->count == dims->capacity) {
    int64_t capacity = 2 * dims->capacity + 16;
    int64_t *grown = realloc(dims->dims, (size_t)capacity * sizeof *grown);
    if (grown == NULL) return cli_fail_memory(call, "the dims take", 8 * (double)capacity);
    dims->dims = grown;
    dims->capacity = capacity;
  }
  dims->dims[dims->count++] = dim;
  return CLI_DONE;
}

int cli_dims_append(cli_call *call, const char *name, const char *text, cli_dims *dims) {
  enum { SHOWN = 24 };
  int64_t line = 1;
  const int64_t first = dims->count;
  const char *line_start = text, *at = text;
  for (;;) {
    bool joins = false; /* whether a joint was met, which needs a dim before and one behind it */
    while (isspace((unsigned char)*at) || *at == '#' ||
           (is_joint(*at) && !joins && dims->count > first)) {
      if (*at == '#') {
        at += strcspn(at, "\n");
        continue;
      }
      joins = joins || is_joint(*at);
      if (*at++ == '\n') {
        line++;
        line_start = at;
      }
    }
    if (*at == '\0' && !joins) return CLI_DONE;
    const char *start = at;
    uint64_t dim = 0;
    cli_digits digits = cli_digits_read(&at, CLI_DIM_MAX, &dim);
    bool whole = *at == '\0' || is_separator(*at) || *at == '#';
    if (!whole || digits == CLI_DIGITS_NONE) {
      int length = start[0] != '\0';
      while (length > 0 && length < SHOWN && start[length] != '\0' && !is_separator(start[length]))
        length++;
      const char *quote = length > 0 ? "'" : "";
      return cli_fail(call, CLI_BAD,
                      "%s, line %" PRId64 ", column %td: expected a whole number, got %s%.*s%s",
                      name, line, start - line_start + 1, quote, length > 0 ? length : SHOWN,
                      length > 0 ? start : "the end", quote);
    }
    if (digits == CLI_DIGITS_TOO_LARGE)
      return cli_fail(call, CLI_BAD,
                      "%s, line %" PRId64
                      ", column %td: expected a dim of at most 2^62, got "
                      "'%.*s%s'",
                      name, line, start - line_start + 1,
                      at - start > SHOWN ? SHOWN : (int)(at - start), start,
                      at - start > SHOWN ? "..." : "");
    int status = append_dim(call, (int64_t)dim, dims);
    if (status != CLI_DONE) return status;
  }
}

/* Reads all of a file, with a final NUL. A NUL inside would end the numbers early, so it becomes a
 * character that is no number. */
static int read_all(cli_call *call, const char *name, FILE *file, cli_buffer *out) {
  char bytes[1 << 14];
  size_t size;
  while ((size = fread(bytes, 1, sizeof bytes, file)) > 0) {
    for (char *nul; (nul = memchr(bytes, '\0', size)) != NULL;) *nul = '\1';
    if (cli_buffer_write(out, bytes, size) != 0)
      return cli_fail_memory(call, "the dims take", 2 * (double)out->size);
  }
  if (cli_interrupted()) return cli_fail(call, CLI_INTERRUPTED, "interrupted");
  if (ferror(file)) return cli_fail(call, CLI_BAD, "%s: cannot read: %s", name, strerror(errno));
  return CLI_DONE;
}

int cli_dims_read(cli_call *call, const char *path, cli_dims *dims) {
  bool standard_input = strcmp(path, "-") == 0;
  const char *name = standard_input ? "standard input" : path;
  int status = cli_note_input(call, "", "--dims", standard_input ? "/dev/stdin" : path);
  if (status != CLI_DONE) return status;
  FILE *file = standard_input ? stdin : fopen(path, "re");
  if (file == NULL) {
    char hint[CLI_HINT_SIZE];
    const char *why = strerror(errno);
    return cli_fail(call, CLI_BAD, "--dims: %s: cannot read: %s%s", name, why,
                    cli_file_hint(name, hint));
  }
  cli_buffer text = {0};
  status = read_all(call, name, file, &text);
  if (!standard_input) fclose(file);
  if (status == CLI_DONE && text.bytes != NULL)
    status = cli_dims_append(call, name, text.bytes, dims);
  cli_buffer_free(&text);
  return status;
}
