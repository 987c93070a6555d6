#include "chains.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "factors.h"
#include "options.h"

/* ---- words ----------------------------------------------------------------------------------- */

static bool is_space(char c) {
  return isspace((unsigned char)c) != 0;
}

bool cli_words_split(const char *line, cli_words *out) {
  size_t length = strcspn(line, "#");
  cli_words words = {.line = strndup(line, length),
                     .words = calloc(length / 2 + 1, sizeof *words.words)};
  if (words.line == NULL || words.words == NULL) {
    cli_words_free(&words);
    return false;
  }
  char *at = words.line;
  for (;;) {
    while (is_space(*at)) *at++ = '\0';
    if (*at == '\0') break;
    words.words[words.count++] = at;
    while (*at != '\0' && !is_space(*at)) at++;
  }
  *out = words;
  return true;
}

void cli_words_free(cli_words *words) {
  free(words->words);
  free(words->line);
  *words = (cli_words){0};
}

static bool all_digits(const char *word) {
  return word[0] != '\0' && word[strspn(word, "0123456789")] == '\0';
}

bool cli_word_is_factor(const char *word) {
  if (cli_factor_is_file(word)) return true;
  const char *x = strchr(word, 'x');
  return x != NULL && strchr(x + 1, 'x') == NULL && strchr(x, '^') == NULL;
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Parses the text form; the message names the word. */
static int parse(cli_call *call, const char *where, const char *word, mmc_chain **out) {
  mmc_status status = mmc_chain_parse(call->context, word, out);
  if (status == MMC_OK) return CLI_DONE;
  enum { SHOWN = 60 };
  char before[512];
  snprintf(before, sizeof before, "%.400s%.*s%s: ", where, SHOWN, word,
           strlen(word) > SHOWN ? "..." : "");
  return cli_fail_status(call, status, before);
}

static int create_chain(cli_call *call, const char *where, mmc_dtype dtype, int64_t n,
                        const int64_t *dims, const mmc_op *ops, const mmc_chain_options *options,
                        mmc_chain **out) {
  mmc_status status = mmc_chain_create_batch(call->context, dtype, n, dims, ops, options, out);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, where);
}

static int chain_of_dims(cli_call *call, const char *where, int count, char **words, int64_t *dims,
                         mmc_chain **out) {
  for (int i = 0; i < count; i++) {
    const char *at = words[i];
    uint64_t dim;
    if (cli_digits_read(&at, CLI_DIM_MAX, &dim) != CLI_DIGITS_FINE)
      return cli_fail(call, CLI_BAD, "%s%s: expected a dim of 0 to 2^62", where, words[i]);
    dims[i] = (int64_t)dim;
  }
  const mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  return create_chain(call, where, MMC_F64, count - 1, dims, NULL, &options, out);
}

/* Joins the dims, ops, dtype and batch of one factor after another; each must fit the one
 * before. */
static int chain_of_factors(cli_call *call, const char *where, int count, char **words,
                            int64_t *dims, mmc_op *ops, uint32_t *traits, mmc_band *bands,
                            mmc_chain **out) {
  mmc_dtype dtype = MMC_F64;
  const char *dtype_word = NULL, *batch_word = NULL;
  mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
  for (int i = 0; i < count; i++) {
    mmc_chain *factor;
    int status = parse(call, where, words[i], &factor);
    if (status != CLI_DONE) return status;
    int64_t length = mmc_chain_length(factor);
    int64_t rows = mmc_chain_dims(factor)[0], cols = mmc_chain_dims(factor)[1];
    mmc_dtype own = mmc_chain_dtype(factor);
    int64_t own_batch = mmc_chain_batch(factor);
    uint64_t modulus = mmc_chain_modulus(factor);
    bool checked = mmc_chain_checked(factor);
    mmc_semiring semiring = mmc_chain_semiring(factor);
    ops[i] = mmc_chain_ops(factor)[0];
    traits[i] = mmc_chain_traits(factor, 0);
    bands[i] = mmc_chain_band(factor, 0);
    mmc_chain_destroy(factor);
    if (length != 1)
      return cli_fail(call, CLI_BAD, "%s%s: expected one factor among several, as in 10x30", where,
                      words[i]);
    if (!isdigit((unsigned char)words[i][0])) {
      if (dtype_word != NULL && (own != dtype || modulus != options.modulus ||
                                 checked != options.checked || semiring != options.semiring))
        return cli_fail(call, CLI_BAD, "%s%s and %s: expected the same dtype everywhere", where,
                        dtype_word, words[i]);
      dtype = own;
      options.modulus = modulus;
      options.checked = checked;
      options.semiring = semiring;
      dtype_word = words[i];
    }
    if (own_batch != 1) {
      if (batch_word != NULL && own_batch != options.batch)
        return cli_fail(call, CLI_BAD, "%s%s and %s: expected the same batch everywhere", where,
                        batch_word, words[i]);
      options.batch = own_batch;
      batch_word = words[i];
    }
    if (i > 0 && dims[i] != rows)
      return cli_fail(call, CLI_BAD,
                      "%s%s and %s: expected %" PRId64 " rows in the second, got %" PRId64, where,
                      words[i - 1], words[i], dims[i], rows);
    dims[i] = rows;
    dims[i + 1] = cols;
  }
  options.traits = traits;
  options.bands = bands;
  return create_chain(call, where, dtype, count, dims, ops, &options, out);
}

int cli_chain_of_words(cli_call *call, const char *where, int count, char **words,
                       mmc_chain **out) {
  if (count <= 0)
    return cli_fail(call, CLI_BAD, "%sexpected a chain, as in 10x30x5x60 or A.npy B.npy:T", where);
  int files = 0;
  for (int i = 0; i < count; i++) files += cli_factor_is_file(words[i]);
  if (files > 0) {
    cli_factors factors;
    int status = cli_factors_open(call, count, words, false, (cli_rule){0}, &factors);
    if (status != CLI_DONE) return status;
    *out = factors.chain;
    factors.chain = NULL;
    cli_factors_close(&factors);
    return CLI_DONE;
  }
  if (count == 1) return parse(call, where, words[0], out);

  int64_t *dims = calloc((size_t)count + 1, sizeof *dims);
  mmc_op *ops = calloc((size_t)count, sizeof *ops);
  uint32_t *traits = calloc((size_t)count, sizeof *traits);
  mmc_band *bands = calloc((size_t)count, sizeof *bands);
  int status;
  if (dims == NULL || ops == NULL || traits == NULL || bands == NULL)
    status = cli_fail_memory(call, "the dims take", 8.0 * count);
  else if (all_digits(words[0]))
    status = chain_of_dims(call, where, count, words, dims, out);
  else
    status = chain_of_factors(call, where, count, words, dims, ops, traits, bands, out);
  free(dims);
  free(ops);
  free(traits);
  free(bands);
  return status;
}

/* ---- arguments ------------------------------------------------------------------------------- */

bool cli_line_next(cli_call *call, const char *where, FILE *file, char **line, size_t *capacity,
                   int *status) {
  const ssize_t length = getline(line, capacity, file);
  if (length < 0) return false;
  if (strlen(*line) == (size_t)length) return true;
  *status = cli_fail(call, CLI_BAD, "%s: expected text, got a NUL", where);
  return false;
}

/* Reads the only line of standard input that holds words. */
static int read_line(cli_call *call, cli_words *out) {
  cli_words words = {0};
  char *line = NULL;
  size_t capacity = 0;
  int status = cli_note_input(call, "", "standard input", "/dev/stdin");
  while (status == CLI_DONE &&
         cli_line_next(call, "standard input", stdin, &line, &capacity, &status)) {
    cli_words more;
    if (!cli_words_split(line, &more)) {
      status = cli_fail_memory(call, "a line of standard input takes", (double)capacity);
    } else if (more.count > 0 && words.count > 0) {
      status = cli_fail(call, CLI_BAD, "standard input: expected one chain, got a second line");
      cli_words_free(&more);
    } else if (more.count > 0) {
      cli_words_free(&words);
      words = more;
    } else {
      cli_words_free(&more);
    }
  }
  free(line);
  if (status == CLI_DONE && ferror(stdin))
    status = cli_fail(call, CLI_BAD, "standard input: cannot be read");
  if (status == CLI_DONE)
    *out = words;
  else
    cli_words_free(&words);
  return status;
}

int cli_chain_of_arguments(cli_call *call, int count, char **arguments, mmc_chain **out) {
  bool standard_input = count == 1 && strcmp(arguments[0], "-") == 0;
  cli_words words = {0};
  if (standard_input) {
    int status = read_line(call, &words);
    if (status != CLI_DONE) return status;
    status = cli_chain_of_words(call, "standard input: ", words.count, words.words, out);
    cli_words_free(&words);
    return status;
  }
  /* '10x30 30x5' in quotes is two factors as well. */
  if (count == 1 && !cli_factor_is_file(arguments[0])) {
    if (!cli_words_split(arguments[0], &words))
      return cli_fail_memory(call, "the chain takes", (double)strlen(arguments[0]));
    int status = cli_chain_of_words(call, "", words.count, words.words, out);
    cli_words_free(&words);
    return status;
  }
  return cli_chain_of_words(call, "", count, arguments, out);
}
