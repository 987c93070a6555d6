/* chains.h: chains as the command line spells them.
 *
 *     f32:10x30x5x60:NTN       the text form of mmc_chain_parse()
 *     10 30 5 60               dims
 *     10x30 30x5 5x60          factors; a dtype before the first, an op after any: f32:10x30:T
 *     A.npy B.npy:T            the shapes of files
 *     -                        one line of standard input that is one of the first three
 *
 * A line of text is split at white space, and what follows a # is dropped. */
#ifndef MMC_CLI_CHAINS_H
#define MMC_CLI_CHAINS_H

#include "command.h"

/* The words of a line; {0} is none. */
typedef struct cli_words {
  char **words; /* count words, which point into line */
  int count;
  char *line;
} cli_words;

/* Splits a copy of line. Returns false when memory is short. */
bool cli_words_split(const char *line, cli_words *out);
void cli_words_free(cli_words *words);

/* Says whether a word is one factor of several that make a chain: 10x30, or a .npy file. */
bool cli_word_is_factor(const char *word);

/* Makes a chain of words. where begins messages: "" or "suite.txt:3: ". Returns CLI_DONE, or the
 * exit status after saying why there is none. */
int cli_chain_of_words(cli_call *call, const char *where, int count, char **words, mmc_chain **out);
/* Makes the chain of a command's arguments. */
int cli_chain_of_arguments(cli_call *call, int count, char **arguments, mmc_chain **out);

/* Reads the next line of a file, as getline() does. Returns false at its end, and at a line with a
 * NUL, which would end it early: then *status is CLI_BAD, after saying so. */
bool cli_line_next(cli_call *call, const char *where, FILE *file, char **line, size_t *capacity,
                   int *status);

#endif
