/* nearest.c: the distance is the number of letters to change, leave out, put in or swap with the
 * next one (Damerau 1964, in the form in which no letter is edited twice). */
#include "nearest.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { LONGEST = 63 };

static size_t fewer_edits(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Returns the distance of words of at most LONGEST letters; SIZE_MAX for longer ones. */
static size_t distance(const char *a, const char *b) {
  const size_t m = strlen(a), n = strlen(b);
  size_t rows[3][LONGEST + 1]; /* rows for i - 2, i - 1 and i letters of a, modulo 3 */
  if (m > LONGEST || n > LONGEST) return SIZE_MAX;
  for (size_t j = 0; j <= n; j++) rows[0][j] = j;
  for (size_t i = 1; i <= m; i++) {
    size_t *row = rows[i % 3], *above = rows[(i + 2) % 3];
    const size_t *two_above = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      row[j] =
          fewer_edits(fewer_edits(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = fewer_edits(row[j], two_above[j - 2] + 1);
    }
  }
  return rows[m % 3][n];
}

cli_nearest cli_nearest_start(const char *word) {
  return (cli_nearest){.word = word, .distance = SIZE_MAX};
}

void cli_nearest_consider(cli_nearest *search, const char *candidate) {
  size_t own = strlen(search->word), length = strlen(candidate);
  size_t found = distance(search->word, candidate), longer = own > length ? own : length;
  if (found > 3 || 3 * found > longer || found > search->distance) return;
  /* Of equals it is the first by the alphabet, whatever the order in which they come. */
  if (found == search->distance && strcmp(candidate, search->best) >= 0) return;
  search->distance = found;
  snprintf(search->best, sizeof search->best, "%s", candidate);
}

char *cli_nearest_hint(const cli_nearest *search, char text[CLI_HINT_SIZE]) {
  text[0] = '\0';
  if (search->distance != SIZE_MAX)
    snprintf(text, CLI_HINT_SIZE, "; did you mean '%s'?", search->best);
  return text;
}

char *cli_file_hint(const char *path, char text[CLI_HINT_SIZE]) {
  char folder[4096] = ".";
  const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
  struct stat there; /* of the name itself, be it a link that leads nowhere */
  text[0] = '\0';
  if (lstat(path, &there) == 0 || strlen(path) >= sizeof folder) return text;
  if (path[0] == '(' && strchr(path, ' ') != NULL) {
    snprintf(text, CLI_HINT_SIZE, "; a group of factors ends with ')' or '):inv'");
    return text;
  }
  if (slash != NULL) snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
  DIR *entries = opendir(folder);
  if (entries == NULL) return text;
  cli_nearest search = cli_nearest_start(name);
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      cli_nearest_consider(&search, entry->d_name);
  closedir(entries);
  if (search.distance != SIZE_MAX && slash != NULL)
    snprintf(text, CLI_HINT_SIZE, "; did you mean '%s%s'?", folder, search.best);
  else
    cli_nearest_hint(&search, text);
  return text;
}
