/* nearest.h: what may be meant by a word that is misspelt. */
#ifndef MMC_CLI_NEAREST_H
#define MMC_CLI_NEAREST_H

#include <stddef.h>

enum { CLI_HINT_SIZE = 320 };

/* The candidate that is nearest so far. */
typedef struct cli_nearest {
  const char *word;
  char best[256];
  size_t distance; /* edits from the word to best; SIZE_MAX while there is none */
} cli_nearest;

/* Begins a search for a word, which must stay where it is. */
cli_nearest cli_nearest_start(const char *word);

/* Considers a candidate. It may be meant when at most a third of the longer word's letters, and at
 * most three, are changed, left out, put in or swapped with a neighbour. */
void cli_nearest_consider(cli_nearest *search, const char *candidate);

/* Writes "; did you mean 'best'?", or nothing where no candidate was near. Returns text. */
char *cli_nearest_hint(const cli_nearest *search, char text[CLI_HINT_SIZE]);

/* Writes "; did you mean 'best'?" for the files in the folder of a path, or nothing when the
 * path is there or no file's name is near. Returns text. */
char *cli_file_hint(const char *path, char text[CLI_HINT_SIZE]);

#endif
