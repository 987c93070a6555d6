#include "suite.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chains.h"

/* Appends the chain and takes it over; name is copied. */
static int append_chain(cli_call *call, const char *name, mmc_chain *chain, cli_suite *suite) {
  if (suite->count == suite->capacity) {
    int capacity = 2 * suite->capacity + 8;
    cli_suite_entry *grown = realloc(suite->entries, (size_t)capacity * sizeof *grown);
    if (grown == NULL) {
      mmc_chain_destroy(chain);
      return cli_fail_memory(call, "the list of chains takes", (double)capacity * sizeof *grown);
    }
    suite->entries = grown;
    suite->capacity = capacity;
  }
  char *copy = name != NULL ? strdup(name) : NULL;
  if (name != NULL && copy == NULL) {
    mmc_chain_destroy(chain);
    return cli_fail_memory(call, "a name takes", (double)strlen(name));
  }
  suite->entries[suite->count++] = (cli_suite_entry){.name = copy, .chain = chain};
  return CLI_DONE;
}

/* Reads a line, whose first word is a name when it ends with a colon. */
static int append_line(cli_call *call, const char *where, const char *line, cli_suite *suite) {
  cli_words words;
  if (!cli_words_split(line, &words))
    return cli_fail_memory(call, "a line takes", (double)strlen(line));
  int result = CLI_DONE;
  if (words.count > 0) {
    char *name = words.words[0];
    size_t length = strlen(name);
    bool named = length > 1 && name[length - 1] == ':';
    if (named) name[length - 1] = '\0';
    mmc_chain *chain;
    result = cli_chain_of_words(call, where, words.count - named, words.words + named, &chain);
    if (result == CLI_DONE) result = append_chain(call, named ? name : NULL, chain, suite);
  }
  cli_words_free(&words);
  return result;
}

int cli_suite_read(cli_call *call, const char *path, cli_suite *suite) {
  bool standard_input = strcmp(path, "-") == 0;
  const char *name = standard_input ? "standard input" : path;
  int result = cli_note_input(call, "", "--suite", standard_input ? "/dev/stdin" : path);
  if (result != CLI_DONE) return result;
  FILE *file = standard_input ? stdin : fopen(path, "re");
  if (file == NULL)
    return cli_fail(call, CLI_BAD, "--suite: %s: cannot read: %s", name, strerror(errno));
  char *line = NULL;
  size_t capacity = 0;
  for (long number = 1;
       result == CLI_DONE && cli_line_next(call, name, file, &line, &capacity, &result); number++) {
    char where[512];
    snprintf(where, sizeof where, "%.400s:%ld: ", name, number);
    result = append_line(call, where, line, suite);
  }
  if (result == CLI_DONE && ferror(file))
    result = cli_fail(call, CLI_BAD, "--suite: %s: cannot read: %s", name, strerror(errno));
  free(line);
  if (!standard_input) fclose(file);
  return result;
}

int cli_suite_of_arguments(cli_call *call, int count, char **arguments, cli_suite *suite) {
  int factors = 0;
  for (int i = 0; i < count; i++) factors += cli_word_is_factor(arguments[i]);
  bool together = factors == count;
  for (int i = 0; i < count; i++) {
    mmc_chain *chain;
    int result = cli_chain_of_arguments(call, together ? count : 1, arguments + i, &chain);
    if (result == CLI_DONE) result = append_chain(call, NULL, chain, suite);
    if (result != CLI_DONE || together) return result;
  }
  return CLI_DONE;
}

int cli_suite_set_dtype(cli_call *call, const char *name, cli_suite *suite) {
  mmc_dtype dtype = MMC_F32;
  const char *known;
  while ((known = mmc_dtype_name(dtype)) != NULL && strcmp(known, name) != 0)
    dtype = (mmc_dtype)(dtype + 1);
  if (known == NULL)
    return cli_fail(
        call, CLI_BAD,
        "--dtype: expected f32, f64, c64, c128, f16, bf16, i8 to i64, u8 to u64 or bool, got "
        "'%s'",
        name);
  for (int i = 0; i < suite->count; i++) {
    mmc_chain *chain = suite->entries[i].chain, *changed;
    mmc_chain_options options = MMC_CHAIN_OPTIONS_INIT;
    options.batch = mmc_chain_batch(chain);
    mmc_status status =
        mmc_chain_create_batch(call->context, dtype, mmc_chain_length(chain), mmc_chain_dims(chain),
                               mmc_chain_ops(chain), &options, &changed);
    if (status != MMC_OK) return cli_fail_status(call, status, "");
    mmc_chain_destroy(chain);
    suite->entries[i].chain = changed;
  }
  return CLI_DONE;
}

void cli_suite_free(cli_suite *suite) {
  for (int i = 0; i < suite->count; i++) {
    free(suite->entries[i].name);
    mmc_chain_destroy(suite->entries[i].chain);
  }
  free(suite->entries);
  *suite = (cli_suite){0};
}
