#include "structure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- traits ---------------------------------------------------------------------------------- */

static const struct {
  const char *word;
  uint32_t traits;
} words[] = {{"lower", MMC_LOWER},
             {"upper", MMC_UPPER},
             {"diagonal", MMC_DIAGONAL},
             {"unit", MMC_UNIT},
             {"symmetric", MMC_SYMMETRIC},
             {"hermitian", MMC_HERMITIAN},
             {"spd", MMC_POSITIVE_DEFINITE},
             {"identity", MMC_IDENTITY},
             {"zero", MMC_ZERO},
             {"inv", MMC_INVERSE}};

/* Says whether the first length characters are a file that still needs the name of an array. */
static bool needs_member(const char *argument, size_t length) {
  char *name = strndup(argument, length);
  size_t path_length = 0;
  const char *format = name != NULL ? mmc_file_format(name, &path_length) : NULL;
  bool needs = format != NULL && path_length == length && strcmp(format, "npy") != 0 &&
               strcmp(format, "matrix-market") != 0;
  free(name);
  return needs;
}

size_t cli_without_traits(const char *argument, size_t length, uint32_t *traits) {
  for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
    const size_t size = strlen(words[w].word);
    if (length < size + 2 || argument[length - size - 1] != ':' ||
        memcmp(argument + length - size, words[w].word, size) != 0)
      continue;
    if (needs_member(argument, length - size - 1)) return length;
    *traits |= words[w].traits;
    length -= size + 1;
    w = (size_t)-1; /* from the beginning */
  }
  return length;
}

char *cli_traits_hint(const char *spec, char text[CLI_HINT_SIZE]) {
  text[0] = '\0';
  for (const char *at = spec; text[0] == '\0' && *at != '\0';) {
    const size_t length = strcspn(at, ":");
    char *word = strndup(at, length);
    if (word == NULL) return text;
    cli_nearest search = cli_nearest_start(word);
    cli_nearest_consider(&search, "each");
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
      cli_nearest_consider(&search, words[w].word);
    if (search.distance > 0) cli_nearest_hint(&search, text);
    free(word);
    at += length + (at[length] == ':');
  }
  return text;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Returns the parenthesis that closes the one at the beginning; NULL when there is none. */
static const char *closing(const char *argument) {
  int depth = 0;
  for (const char *at = argument; *at != '\0'; at++) {
    depth += (*at == '(') - (*at == ')');
    if (depth == 0) return at;
  }
  return NULL;
}

bool cli_is_group(const char *argument) {
  if (argument[0] != '(') return false;
  const char *close = closing(argument);
  return close != NULL && (close[1] == '\0' || close[1] == ':');
}

/* Room for groups: each takes a parenthesis. */
static bool allocate_groups(int count, char **arguments, cli_groups *out) {
  size_t length = 1, places = (size_t)count + 1;
  for (int i = 0; i < count; i++) {
    length += strlen(arguments[i]) + 1;
    places += strlen(arguments[i]);
  }
  *out = (cli_groups){.arguments = calloc(places, sizeof *out->arguments),
                      .inverses = calloc(places, sizeof *out->inverses),
                      .text = calloc(length, 1)};
  return out->arguments != NULL && out->inverses != NULL && out->text != NULL;
}

/* Takes an argument, whose copy at text may be written to, apart. */
static int take_argument(cli_call *call, char *text, cli_groups *out) {
  if (!cli_is_group(text)) {
    out->arguments[out->count++] = text;
    return CLI_DONE;
  }
  char *close = (char *)closing(text), *end = close;
  const bool inverts = strcmp(close + 1, ":inv") == 0;
  if (close[1] != '\0' && !inverts)
    return cli_fail(call, CLI_BAD, "%s: expected :inv or nothing behind a group, got '%s'", text,
                    close + 1);
  *close = '\0';
  const int first = out->count;
  for (char *at = text + 1; at < end;) {
    at += strspn(at, " \t");
    if (at >= end) break;
    char *next = at;
    for (int depth = 0; next < end && (depth > 0 || (*next != ' ' && *next != '\t')); next++)
      depth += (*next == '(') - (*next == ')');
    *next = '\0';
    int result = take_argument(call, at, out);
    if (result != CLI_DONE) return result;
    at = next + 1;
  }
  if (out->count == first) return cli_fail(call, CLI_BAD, "(): expected factors in a group");
  if (inverts)
    out->inverses[out->inverse_count++] = (mmc_inverse){.first = first, .last = out->count - 1};
  return CLI_DONE;
}

int cli_groups_open(cli_call *call, int count, char **arguments, cli_groups *out) {
  if (!allocate_groups(count, arguments, out)) {
    cli_groups_free(out);
    return cli_fail_memory(call, "the list of factors takes", (double)count);
  }
  char *at = out->text;
  int result = CLI_DONE;
  for (int i = 0; i < count && result == CLI_DONE; i++) {
    size_t length = strlen(arguments[i]) + 1;
    memcpy(at, arguments[i], length);
    result = take_argument(call, at, out);
    at += length;
  }
  if (result != CLI_DONE) cli_groups_free(out);
  return result;
}

void cli_groups_free(cli_groups *groups) {
  free(groups->arguments);
  free(groups->inverses);
  free(groups->text);
  *groups = (cli_groups){0};
}

/* ---- claims ---------------------------------------------------------------------------------- */

typedef struct number {
  double re, im;
} number;

static number load(mmc_dtype dtype, const mmc_matrix *x, int64_t r, int64_t c) {
  int64_t length = x->layout == MMC_ROW_MAJOR ? x->cols : x->rows, ld = x->ld != 0 ? x->ld : length;
  int64_t at = x->layout == MMC_ROW_MAJOR ? r * ld + c : c * ld + r;
  const float *singles = x->data;
  const double *doubles = x->data;
  switch (dtype) {
    case MMC_F32:
      return (number){(double)singles[at], 0};
    case MMC_C64:
      return (number){(double)singles[2 * at], (double)singles[2 * at + 1]};
    case MMC_C128:
      return (number){doubles[2 * at], doubles[2 * at + 1]};
    default:
      return (number){doubles[at], 0};
  }
}

static bool is(number x, double re) {
  return x.re == re && x.im == 0;
}

/* Returns the name of a trait that element (r, c) contradicts; NULL for none. Halves are compared
 * up to rounding, as who computes them rounds them apart. */
static const char *contradicted(mmc_dtype dtype, const mmc_matrix *x, int64_t r, int64_t c,
                                uint32_t traits) {
  const number value = load(dtype, x, r, c);
  const double epsilon = dtype == MMC_F32 || dtype == MMC_C64 ? 0x1p-18 : 0x1p-44;
  if ((traits & MMC_ZERO) != 0 && !is(value, 0)) return "zero";
  if ((traits & MMC_IDENTITY) != 0 && !is(value, r == c)) return "identity";
  if ((traits & MMC_LOWER) != 0 && c > r && !is(value, 0)) return "lower triangular";
  if ((traits & MMC_UPPER) != 0 && c < r && !is(value, 0)) return "upper triangular";
  if ((traits & MMC_UNIT) != 0 && c == r && !is(value, 1)) return "unit triangular";
  if ((traits & MMC_POSITIVE_DEFINITE) != 0 && c == r && !(value.re > 0))
    return "positive definite";
  if (c > r || x->rows != x->cols) return NULL;
  const number other = load(dtype, x, c, r);
  const double size = epsilon * (fabs(value.re) + fabs(value.im) + fabs(other.re) + fabs(other.im));
  if ((traits & MMC_SYMMETRIC) != 0 &&
      !(fabs(value.re - other.re) <= size && fabs(value.im - other.im) <= size))
    return "symmetric";
  if ((traits & MMC_HERMITIAN) != 0 &&
      !(fabs(value.re - other.re) <= size && fabs(value.im + other.im) <= size))
    return "Hermitian";
  return NULL;
}

int cli_claims_check(cli_call *call, const char *name, mmc_dtype dtype, const mmc_matrix *matrix,
                     uint32_t traits) {
  const bool readable =
      dtype == MMC_F32 || dtype == MMC_F64 || dtype == MMC_C64 || dtype == MMC_C128;
  if (!readable || (traits & ~(uint32_t)MMC_INVERSE) == 0) return CLI_DONE;
  for (int64_t r = 0; r < matrix->rows; r++)
    for (int64_t c = 0; c < matrix->cols; c++) {
      const char *what = contradicted(dtype, matrix, r, c, traits);
      if (what == NULL) continue;
      const number value = load(dtype, matrix, r, c);
      char text[64];
      snprintf(text, sizeof text, value.im != 0 ? "%.6g%+.6gi" : "%.6g", value.re, value.im);
      return cli_fail(call, CLI_BAD,
                      "--check: %s is said to be %s, but element (%" PRId64 ", %" PRId64
                      ") is %s: nothing is written",
                      name, what, r + 1, c + 1, text);
    }
  return CLI_DONE;
}
