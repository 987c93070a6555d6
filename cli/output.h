/* output.h: where a command's results go: to standard output, to memory, or to a file that appears
 * whole or not at all. Each has a write function for the library to call. */
#ifndef MMC_CLI_OUTPUT_H
#define MMC_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "mmchain.h"

/* ---- a stream -------------------------------------------------------------------------------- */

/* A stream that remembers the errno of its first failure and drops what comes after. */
typedef struct cli_stream {
  FILE *file;
  int error;
  bool used; /* something was written */
} cli_stream;

typedef struct cli_duration {
  char text[24];
} cli_duration;

/* Writes to a stream; user is a cli_stream. */
int cli_stream_write(void *user, const char *bytes, size_t size);
void cli_print(cli_stream *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a JSON string with its quotes. */
void cli_print_json_string(cli_stream *stream, const char *text);
/* Prints a JSON number with all of its digits. */
void cli_print_json_count(cli_stream *stream, mmc_count count);
/* Returns a time as people read it: "44.1 ms". */
cli_duration cli_in_words(double seconds);
/* Writes what is buffered. */
void cli_stream_flush(cli_stream *stream);
/* Closes file. stream->error says what failed; that standard output was closed from the beginning
 * is no failure where nothing was written to it. */
void cli_stream_close(cli_stream *stream);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Memory that starts as {0}. */
typedef struct cli_buffer {
  char *bytes; /* text with a final NUL, or NULL */
  size_t size, capacity;
} cli_buffer;

/* Appends to memory; user is a cli_buffer. It fails when memory is short. */
int cli_buffer_write(void *user, const char *bytes, size_t size);
void cli_buffer_free(cli_buffer *buffer);

/* ---- a file ---------------------------------------------------------------------------------- */

/* A file whose bytes go to a temporary file, without a name where the file system can, which takes
 * the target's place when it is complete. A target that is no regular file (a pipe, /dev/null) is
 * written to directly. */
typedef struct cli_file {
  cli_stream stream;
  char *target;    /* where the name leads; NULL when written to directly */
  char *temporary; /* name of the temporary file */
  bool named;      /* the temporary file has that name already */
} cli_file;

/* Returns NULL, or why path cannot be written, as strerror() says it. It creates nothing. */
const char *cli_file_unwritable(const char *path);
/* Returns the part of a matrix's name that is the file's, without a member; NULL when memory is
 * short. It is released with free(). */
char *cli_file_part(const char *name);
/* Returns where path leads through symbolic links, though nothing may be there yet; NULL with errno
 * set. It is released with free(). */
char *cli_file_target(const char *path);

/* Sets whether a file and its directory reach the disk before cli_file_commit() returns, so that a
 * power failure leaves the old content or the new. At first they do. */
void cli_file_sync(bool sync);

/* What identifies a regular file and its content at some time. */
typedef struct cli_stamp {
  bool taken;
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified;
} cli_stamp;
/* Takes the stamp of a file; one that is no regular file gets a stamp that never changes. */
void cli_stamp_take(const char *path, cli_stamp *out);
/* Says whether that very file has another size now, or was written to since. */
bool cli_stamp_changed(const char *path, const cli_stamp *stamp);

/* Creates a file. Returns false with errno set. */
bool cli_file_create(const char *path, cli_file *out);
/* Puts the file in place. Returns false with errno set; then nothing is left behind. */
bool cli_file_commit(cli_file *file);
/* Drops what was written. */
void cli_file_discard(cli_file *file);

#endif
