#include "structure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

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
             {"orthogonal", MMC_ORTHOGONAL},
             {"permutation", MMC_PERMUTATION},
             {"tridiagonal", MMC_BANDED},
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

/* Returns the length without ":banded(1,2)" at the end; length when there is none. */
static size_t without_band(const char *argument, size_t length, mmc_band *band) {
  static const char word[] = ":banded(";
  const size_t size = sizeof word - 1;
  size_t begin = length;
  while (begin > 0 && argument[--begin] != ':') continue;
  if (begin == 0 || length - begin <= size || memcmp(argument + begin, word, size) != 0)
    return length;
  const char *at = argument + begin + size;
  uint64_t widths[2];
  for (int w = 0; w < 2; w++) {
    if (cli_digits_read(&at, INT64_MAX, &widths[w]) != CLI_DIGITS_FINE ||
        *at != (w == 0 ? ',' : ')'))
      return length;
    at++;
  }
  if (at != argument + length) return length;
  *band = (mmc_band){(int64_t)widths[0], (int64_t)widths[1]};
  return begin;
}

size_t cli_without_traits(const char *argument, size_t length, uint32_t *traits, mmc_band *band) {
  for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
    const size_t size = strlen(words[w].word);
    if (length < size + 2 || argument[length - size - 1] != ':' ||
        memcmp(argument + length - size, words[w].word, size) != 0)
      continue;
    if (needs_member(argument, length - size - 1)) return length;
    *traits |= words[w].traits;
    if (words[w].traits == MMC_BANDED) *band = (mmc_band){1, 1};
    length -= size + 1;
    w = (size_t)-1; /* from the beginning */
  }
  const size_t left = without_band(argument, length, band);
  if (left == length || needs_member(argument, left)) return length;
  *traits |= MMC_BANDED;
  return cli_without_traits(argument, left, traits, band);
}

char *cli_traits_hint(const char *spec, char text[CLI_HINT_SIZE]) {
  text[0] = '\0';
  for (const char *at = spec; text[0] == '\0' && *at != '\0';) {
    const size_t length = strcspn(at, ":");
    char *word = strndup(at, length);
    if (word == NULL) return text;
    cli_nearest search = cli_nearest_start(word);
    cli_nearest_consider(&search, "each");
    cli_nearest_consider(&search, "banded(1,2)");
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
                                uint32_t traits, mmc_band band) {
  const number value = load(dtype, x, r, c);
  const double epsilon = dtype == MMC_F32 || dtype == MMC_C64 ? 0x1p-18 : 0x1p-44;
  if ((traits & MMC_ZERO) != 0 && !is(value, 0)) return "zero";
  if ((traits & MMC_IDENTITY) != 0 && !is(value, r == c)) return "identity";
  if ((traits & MMC_DIAGONAL) == MMC_DIAGONAL && c != r && !is(value, 0)) return "diagonal";
  if ((traits & MMC_LOWER) != 0 && c > r && !is(value, 0)) return "lower triangular";
  if ((traits & MMC_UPPER) != 0 && c < r && !is(value, 0)) return "upper triangular";
  if ((traits & MMC_BANDED) != 0 && (r - c > band.below || c - r > band.above) && !is(value, 0))
    return "of that band";
  if ((traits & MMC_PERMUTATION) != 0 && !is(value, 0) && !is(value, 1)) return "a permutation";
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

/* Checks that each row and each column has one element that is not zero. */
static int check_permutation(cli_call *call, const char *name, mmc_dtype dtype,
                             const mmc_matrix *x) {
  const int64_t n = x->rows;
  int64_t *ones = calloc(2 * (size_t)n + 1, sizeof *ones); /* of rows, then of columns */
  if (ones == NULL) return cli_fail_memory(call, "a permutation to check takes", 16.0 * (double)n);
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = 0; c < n; c++) {
      const int64_t one = !is(load(dtype, x, r, c), 0);
      ones[r] += one;
      ones[n + c] += one;
    }
  int result = CLI_DONE;
  for (int64_t i = 0; i < 2 * n && result == CLI_DONE; i++)
    if (ones[i] != 1)
      result = cli_fail(call, CLI_BAD,
                        "--check: %s is said to be a permutation, but %s %" PRId64 " has %" PRId64
                        " ones: nothing is written",
                        name, i < n ? "row" : "column", (i < n ? i : i - n) + 1, ones[i]);
  free(ones);
  return result;
}

/* Checks that Q^H (Q x) is x for a vector x of numbers 1 and -1 at random: of a Q that is not
 * orthogonal, the difference (Q^H Q - 1) x hardly ever vanishes. */
static int check_orthogonal(cli_call *call, const char *name, mmc_dtype dtype,
                            const mmc_matrix *q) {
  const int64_t n = q->rows;
  const double epsilon = dtype == MMC_F32 || dtype == MMC_C64 ? 0x1p-23 : 0x1p-52;
  double *x = calloc(5 * (size_t)n + 1, sizeof *x), *y = x + n, *z = y + 2 * n, most = 0;
  if (x == NULL)
    return cli_fail_memory(call, "an orthogonal matrix to check takes", 40.0 * (double)n);
  uint64_t state = 1;
  for (int64_t i = 0; i < n; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    x[i] = state >> 63 != 0 ? 1 : -1;
  }
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = 0; c < n; c++) {
      const number value = load(dtype, q, r, c);
      y[2 * r] += value.re * x[c];
      y[2 * r + 1] += value.im * x[c];
    }
  for (int64_t r = 0; r < n; r++)
    for (int64_t c = 0; c < n; c++) {
      const number value = load(dtype, q, r, c);
      z[2 * c] += value.re * y[2 * r] + value.im * y[2 * r + 1];
      z[2 * c + 1] += value.re * y[2 * r + 1] - value.im * y[2 * r];
    }
  for (int64_t i = 0; i < n; i++) {
    const double difference = hypot(z[2 * i] - x[i], z[2 * i + 1]);
    if (!(difference <= most)) most = difference;
  }
  free(x);
  if (most <= 64 * epsilon * ((double)n + 8)) return CLI_DONE;
  return cli_fail(
      call, CLI_BAD,
      "--check: %s is said to be orthogonal, but its inverse is not its transposed: of a "
      "random x of ones it makes one that differs by %.3g: nothing is written",
      name, most);
}

int cli_claims_check(cli_call *call, const char *name, mmc_dtype dtype, const mmc_matrix *matrix,
                     uint32_t traits, mmc_band band) {
  const bool readable =
      dtype == MMC_F32 || dtype == MMC_F64 || dtype == MMC_C64 || dtype == MMC_C128;
  if (!readable || (traits & ~(uint32_t)MMC_INVERSE) == 0) return CLI_DONE;
  for (int64_t r = 0; r < matrix->rows; r++)
    for (int64_t c = 0; c < matrix->cols; c++) {
      const char *what = contradicted(dtype, matrix, r, c, traits, band);
      if (what == NULL) continue;
      const number value = load(dtype, matrix, r, c);
      char text[64];
      snprintf(text, sizeof text, value.im != 0 ? "%.6g%+.6gi" : "%.6g", value.re, value.im);
      return cli_fail(call, CLI_BAD,
                      "--check: %s is said to be %s, but element (%" PRId64 ", %" PRId64
                      ") is %s: nothing is written",
                      name, what, r + 1, c + 1, text);
    }
  if ((traits & (MMC_PERMUTATION | MMC_IDENTITY)) == MMC_PERMUTATION)
    return check_permutation(call, name, dtype, matrix);
  if ((traits & (MMC_ORTHOGONAL | MMC_IDENTITY)) == MMC_ORTHOGONAL)
    return check_orthogonal(call, name, dtype, matrix);
  return CLI_DONE;
}
