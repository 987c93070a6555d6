#include "guard.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "command.h"

/* What tells one file from another: its own inode or, where it is not there yet, that of its
 * directory and its name in it. */
typedef struct identity {
  dev_t device;
  ino_t inode;
  char *base; /* NULL for a file that is there */
} identity;

struct cli_guarded {
  bool written;
  bool standard;    /* standard input */
  const char *what; /* of an output, its option */
  char *name;
  identity file;
};

/* Finds the identity of a file. Returns false where it has none, as of what is no regular file or
 * in no directory, and where memory is short. */
static bool identify(const char *path, identity *out) {
  struct stat found;
  *out = (identity){0};
  if (stat(path, &found) == 0) {
    *out = (identity){.device = found.st_dev, .inode = found.st_ino};
    return S_ISREG(found.st_mode);
  }
  char *target = errno == ENOENT ? cli_file_target(path) : NULL;
  if (target == NULL) return false;
  char *slash = strrchr(target, '/');
  char *base = strdup(slash != NULL ? slash + 1 : target);
  if (slash != NULL) slash[1] = '\0';
  bool known = base != NULL && stat(slash != NULL ? target : ".", &found) == 0;
  if (known)
    *out = (identity){.device = found.st_dev, .inode = found.st_ino, .base = base};
  else
    free(base);
  free(target);
  return known;
}

static bool is_same(const identity *a, const identity *b) {
  if (a->device != b->device || a->inode != b->inode) return false;
  if (a->base == NULL || b->base == NULL) return a->base == b->base;
  return strcmp(a->base, b->base) == 0;
}

/* Says that an output is the same file as another. */
static int fail_same(const cli_call *call, const char *option, const char *name,
                     const struct cli_guarded *other) {
  return cli_fail(call, CLI_BAD, "%s: %s is the same file as %s%s", option, name, other->what,
                  other->written ? "" : other->name);
}

/* Finds a file that was noted before, among the outputs alone where outputs_only; NULL when there
 * is none. */
static const struct cli_guarded *find(const cli_guard *guard, const identity *file,
                                      bool outputs_only) {
  for (size_t f = 0; f < guard->count; f++)
    if ((guard->files[f].written || !outputs_only) && is_same(&guard->files[f].file, file))
      return &guard->files[f];
  return NULL;
}

/* Notes entry with a copy of its name, and takes over its base. */
static int note(cli_call *call, struct cli_guarded entry) {
  cli_guard *guard = &call->guard;
  entry.name = strdup(entry.name);
  if (guard->count == guard->capacity && entry.name != NULL) {
    size_t capacity = 2 * guard->capacity + 8;
    struct cli_guarded *grown = realloc(guard->files, capacity * sizeof *grown);
    if (grown != NULL) {
      guard->files = grown;
      guard->capacity = capacity;
    }
  }
  if (entry.name == NULL || guard->count == guard->capacity) {
    free(entry.name);
    free(entry.file.base);
    return cli_fail_memory(call, "the list of files takes", (double)guard->count);
  }
  guard->files[guard->count++] = entry;
  return CLI_DONE;
}

/* Returns which input is standard input, or NULL. */
static const struct cli_guarded *find_standard(const cli_guard *guard) {
  for (size_t f = 0; f < guard->count; f++)
    if (guard->files[f].standard) return &guard->files[f];
  return NULL;
}

int cli_note_input(cli_call *call, const char *what, const char *name, const char *path) {
  struct cli_guarded input = {.what = what, .name = (char *)name};
  input.standard = strcmp(path, "/dev/stdin") == 0;
  const struct cli_guarded *before = input.standard ? find_standard(&call->guard) : NULL;
  if (before != NULL)
    return cli_fail(call, CLI_BAD, "%s%s: expected a file, as standard input is %s%s", what, name,
                    before->what, before->name);
  if (!identify(path, &input.file) && !input.standard) return CLI_DONE;
  const struct cli_guarded *output = find(&call->guard, &input.file, true);
  if (output == NULL) return note(call, input);
  free(input.file.base);
  return fail_same(call, output->what, output->name, &input);
}

/* Says whether a file is a wisdom store, which may hold what was measured in hours: an SQLite
 * database whose header ("Database File Format" at sqlite.org) has the application id that
 * docs/wisdom.md promises. A command that was built without SQLite knows stores by it too. */
static bool is_store(const char *path) {
  static const char magic[] = "SQLite format 3", mark[] = "mmcw";
  enum { MARK_AT = 68, HEADER = 100 };
  char header[HEADER];
  struct stat found;
  if (stat(path, &found) != 0 || !S_ISREG(found.st_mode)) return false;
  FILE *file = fopen(path, "re");
  const bool read = file != NULL && fread(header, 1, HEADER, file) == HEADER;
  if (file != NULL) fclose(file);
  return read && memcmp(header, magic, sizeof magic) == 0 &&
         memcmp(header + MARK_AT, mark, sizeof mark - 1) == 0;
}

/* Says whether a file is a wisdom store, or would be taken for a log of one that lies beside it. */
static bool is_of_store(const char *path, const identity *file) {
  static const char *const endings[] = {"-wal", "-shm", "-journal"};
  if (file->base == NULL && is_store(path)) return true;
  char *target = cli_file_target(path);
  const size_t length = target != NULL ? strlen(target) : 0;
  bool found = false;
  for (size_t e = 0; e < sizeof endings / sizeof endings[0]; e++) {
    const size_t ending = strlen(endings[e]);
    if (length <= ending || strcmp(target + length - ending, endings[e]) != 0) continue;
    target[length - ending] = '\0';
    found = is_store(target);
    break;
  }
  free(target);
  return found;
}

/* Checks an output and, where it is to be noted, notes it. */
static int check(cli_call *call, const char *option, const char *name, const char *path,
                 bool noted) {
  identity file;
  if (!identify(path, &file)) return CLI_DONE;
  const struct cli_guarded *other = find(&call->guard, &file, false);
  const bool store = other == NULL && is_of_store(path, &file);
  if (other == NULL && !store && noted)
    return note(call, (struct cli_guarded){
                          .written = true, .what = option, .name = (char *)name, .file = file});
  free(file.base);
  if (store)
    return cli_fail(call, CLI_BAD, "%s: %s: expected another file than a wisdom store or its logs",
                    option, name);
  return other == NULL ? CLI_DONE : fail_same(call, option, name, other);
}

int cli_note_output(cli_call *call, const char *option, const char *name, const char *path) {
  return check(call, option, name, path, true);
}

int cli_check_apart(cli_call *call, const char *option, const char *name, const char *path) {
  return check(call, option, name, path, false);
}

void cli_guard_free(cli_guard *guard) {
  for (size_t f = 0; f < guard->count; f++) {
    free(guard->files[f].name);
    free(guard->files[f].file.base);
  }
  free(guard->files);
  *guard = (cli_guard){0};
}
