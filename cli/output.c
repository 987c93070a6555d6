#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "progress.h"
#include "random.h"
#include "signals.h"

/* ---- a stream -------------------------------------------------------------------------------- */

static void remember(cli_stream *stream) {
  stream->error = errno != 0 ? errno : EIO;
}

int cli_stream_write(void *user, const char *bytes, size_t size) {
  cli_stream *stream = user;
  stream->used = stream->used || size > 0;
  errno = 0;
  if (stream->error == 0 && size > 0 && fwrite(bytes, 1, size, stream->file) != size)
    remember(stream);
  return stream->error;
}

void cli_print(cli_stream *stream, const char *format, ...) {
  if (stream->error != 0) return;
  va_list args;
  va_start(args, format);
  stream->used = true;
  errno = 0;
  if (vfprintf(stream->file, format, args) < 0) remember(stream);
  va_end(args);
}

void cli_print_json_string(cli_stream *stream, const char *text) {
  cli_print(stream, "\"");
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\')
      cli_print(stream, "\\%c", *c);
    else if (*c < 0x20)
      cli_print(stream, "\\u%04x", *c);
    else
      cli_print(stream, "%c", *c);
  }
  cli_print(stream, "\"");
}

void cli_print_json_count(cli_stream *stream, mmc_count count) {
  char digits[MMC_COUNT_TEXT_SIZE];
  cli_print(stream, "%s", mmc_count_format(count, digits));
}

cli_duration cli_in_words(double seconds) {
  static const struct {
    const char *name;
    double least_s;
  } units[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 0}};
  size_t u = 0;
  while (seconds < units[u].least_s) u++;
  cli_duration d;
  double unit_s = units[u].least_s > 0 ? units[u].least_s : 1e-9;
  snprintf(d.text, sizeof d.text, "%.3g %s", seconds / unit_s, units[u].name);
  return d;
}

void cli_stream_flush(cli_stream *stream) {
  errno = 0;
  if (stream->error == 0 && fflush(stream->file) != 0) remember(stream);
}

void cli_stream_close(cli_stream *stream) {
  errno = 0;
  const bool closed = fclose(stream->file) == 0 || (errno == EBADF && !stream->used);
  if (!closed && stream->error == 0) remember(stream);
  stream->file = NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

int cli_buffer_write(void *user, const char *bytes, size_t size) {
  cli_buffer *buffer = user;
  if (size >= buffer->capacity - buffer->size) {
    size_t capacity = 2 * (buffer->size + size) + 64;
    char *grown = realloc(buffer->bytes, capacity);
    if (grown == NULL) return ENOMEM;
    buffer->bytes = grown;
    buffer->capacity = capacity;
  }
  memcpy(buffer->bytes + buffer->size, bytes, size);
  buffer->size += size;
  buffer->bytes[buffer->size] = '\0';
  return 0;
}

int cli_buffer_fail(const cli_call *call, mmc_status status) {
  if (status != MMC_E_IO) return cli_fail_write(call, status, "");
  return cli_fail(call, CLI_FAILED, "out of memory");
}

void cli_buffer_free(cli_buffer *buffer) {
  free(buffer->bytes);
  *buffer = (cli_buffer){0};
}

/* ---- a file ---------------------------------------------------------------------------------- */

/* MAX_LINKS symbolic links are followed at most, as many as Linux follows. */
enum { TEMPORARY_ROOM = 32, LINK_TRIES = 100, MAX_LINKS = 40 };

/* Returns how many characters path has up to and with its last '/'. */
static size_t directory_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Returns what the link at path says, seen from where path is seen from. NULL with errno set. */
static char *follow_link(const char *path) {
  char link[PATH_MAX];
  ssize_t length = readlink(path, link, sizeof link);
  if (length < 0 || length == (ssize_t)sizeof link) {
    if (length >= 0) errno = ENAMETOOLONG;
    return NULL;
  }
  size_t stem = link[0] == '/' ? 0 : directory_length(path);
  char *next = malloc(stem + (size_t)length + 1);
  if (next == NULL) return NULL;
  memcpy(next, path, stem);
  memcpy(next + stem, link, (size_t)length);
  next[stem + (size_t)length] = '\0';
  return next;
}

char *cli_file_target(const char *path) {
  char *at = strdup(path);
  for (int links = 0; at != NULL && links < MAX_LINKS; links++) {
    struct stat found;
    if (lstat(at, &found) != 0 || !S_ISLNK(found.st_mode)) return at;
    char *next = follow_link(at);
    free(at);
    at = next;
  }
  if (at == NULL) return NULL;
  free(at);
  errno = ELOOP;
  return NULL;
}

/* Returns why nothing can be made where path leads, of which nothing is there yet; NULL when it
 * can. */
static const char *cannot_make(const char *path) {
  char *target = cli_file_target(path);
  if (target == NULL) return strerror(errno);
  size_t length = directory_length(target);
  const char *reason = NULL;
  if (target[length] == '\0') {
    reason = strerror(EISDIR);
  } else {
    target[length] = '\0';
    if (access(length == 0 ? "." : target, W_OK | X_OK) != 0) reason = strerror(errno);
  }
  free(target);
  return reason;
}

const char *cli_file_unwritable(const char *path) {
  struct stat found;
  if (stat(path, &found) == 0) {
    if (S_ISDIR(found.st_mode)) return strerror(EISDIR);
    return access(path, W_OK) == 0 ? NULL : strerror(errno);
  }
  return errno != ENOENT || path[0] == '\0' ? strerror(errno) : cannot_make(path);
}

char *cli_file_part(const char *name) {
  size_t length;
  mmc_file_format(name, &length);
  return strndup(name, length);
}

void cli_stamp_take(const char *path, cli_stamp *out) {
  struct stat found;
  *out = (cli_stamp){0};
  if (stat(path, &found) != 0 || !S_ISREG(found.st_mode)) return;
  *out = (cli_stamp){.taken = true,
                     .device = found.st_dev,
                     .inode = found.st_ino,
                     .size = found.st_size,
                     .modified = found.st_mtim};
}

bool cli_stamp_changed(const char *path, const cli_stamp *stamp) {
  cli_stamp now;
  cli_stamp_take(path, &now);
  if (!stamp->taken || now.device != stamp->device || now.inode != stamp->inode) return false;
  return now.size != stamp->size || now.modified.tv_sec != stamp->modified.tv_sec ||
         now.modified.tv_nsec != stamp->modified.tv_nsec;
}

/* Opens the temporary file; the name that it has or will get is a template of mkostemp(). */
static int open_temporary(cli_file *file) {
  size_t stem = directory_length(file->target);
  int descriptor = -1;
#ifdef O_TMPFILE
  memcpy(file->temporary, file->target, stem);
  memcpy(file->temporary + stem, ".", sizeof ".");
  descriptor = open(file->temporary, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
#endif
  memcpy(file->temporary, file->target, stem);
  memcpy(file->temporary + stem, ".mmchain-XXXXXX", sizeof ".mmchain-XXXXXX");
  if (descriptor >= 0) return descriptor;
  sigset_t before;
  cli_signals_hold(&before);
  descriptor = mkostemp(file->temporary, O_CLOEXEC);
  file->named = descriptor >= 0;
  if (file->named) cli_temporary_remember(file->temporary);
  cli_signals_release(&before);
  return descriptor;
}

/* Removes the temporary file, where it has a name, and frees the names. */
static void drop_names(cli_file *file) {
  if (file->named) unlink(file->temporary);
  cli_temporary_forget(file->temporary);
  free(file->target);
  free(file->temporary);
}

bool cli_file_create(const char *path, cli_file *out) {
  cli_file file = {0};
  struct stat old;
  bool exists = stat(path, &old) == 0;
  int descriptor = -1;
  if (exists && (!S_ISREG(old.st_mode) || old.st_nlink == 0)) {
    /* What has no name, as /dev/fd/5 of a file that was removed, is written where it is. */
    descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_TRUNC);
  } else {
    file.target = exists ? realpath(path, NULL) : cli_file_target(path);
    if (file.target != NULL) file.temporary = malloc(strlen(file.target) + TEMPORARY_ROOM);
    if (file.temporary != NULL) descriptor = open_temporary(&file);
    if (descriptor >= 0 && (exists || file.named)) {
      /* The permissions are set here, because mkostemp() gives them to the owner alone. */
      mode_t mask = umask(0);
      umask(mask);
      if (fchmod(descriptor, exists ? old.st_mode & 0777 : 0666 & ~mask) != 0) errno = 0;
    }
  }
  if (descriptor >= 0) file.stream.file = fdopen(descriptor, "w");
  if (file.stream.file == NULL) {
    int code = errno;
    if (descriptor >= 0) close(descriptor);
    drop_names(&file);
    errno = code;
    return false;
  }
  *out = file;
  return true;
}

/* Gives a temporary file without a name one that is free. */
static bool link_temporary(cli_file *file) {
  char descriptor[64];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", fileno(file->stream.file));
  size_t stem = directory_length(file->target);
  for (int t = 0; t < LINK_TRIES; t++) {
    snprintf(file->temporary + stem, TEMPORARY_ROOM, ".mmchain-%ld-%d", (long)getpid(), t);
    if (linkat(AT_FDCWD, descriptor, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0) {
      file->named = true;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

static bool sync_wanted = true;

void cli_file_sync(bool sync) {
  sync_wanted = sync;
}

/* Says whether the descriptor's content is on the disk, or the file system keeps none. Returns
 * false with errno set. */
static bool reaches_disk(int descriptor) {
  return !sync_wanted || fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP ||
         errno == EROFS;
}

/* Says whether the directory that path is in is on the disk. Returns false with errno set. */
static bool directory_reaches_disk(const char *path) {
  size_t length = directory_length(path);
  char *directory = length == 0 ? strdup(".") : strndup(path, length);
  if (directory == NULL) return false;
  int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  free(directory);
  if (descriptor < 0) return errno == EACCES; /* a directory may allow writing and not reading */
  bool reached = reaches_disk(descriptor);
  int code = errno;
  close(descriptor);
  errno = code;
  return reached;
}

/* Closes and renames a file that is flushed. Returns 0 or errno. */
static int settle_file(cli_file *file) {
  cli_stream *stream = &file->stream;
  if (stream->error == 0 && file->target != NULL && !file->named && !link_temporary(file))
    remember(stream);
  cli_stream_close(stream);
  if (stream->error == 0 && file->target != NULL) {
    if (rename(file->temporary, file->target) == 0)
      file->named = false;
    else
      remember(stream);
  }
  return stream->error;
}

bool cli_file_commit(cli_file *file) {
  cli_stream *stream = &file->stream;
  cli_stream_flush(stream);
  errno = 0;
  if (stream->error == 0 && file->target != NULL && !reaches_disk(fileno(stream->file)))
    remember(stream);
  /* A signal that ends the process must not find the temporary file with a name. */
  sigset_t before;
  cli_signals_hold(&before);
  int code = settle_file(file);
  if (code == 0 && file->target != NULL && !directory_reaches_disk(file->target)) code = errno;
  cli_file_discard(file);
  cli_signals_release(&before);
  errno = code;
  return code == 0;
}

void cli_file_discard(cli_file *file) {
  if (file->stream.file != NULL) fclose(file->stream.file);
  drop_names(file);
  *file = (cli_file){0};
}

static int discard(void *user, const char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

/* Writes "a, b or c", the endings of the formats that are here. */
static void list_endings(cli_call *call, char *out, size_t size) {
  char endings[128] = "";
  mmc_file_format_info info;
  size_t length = 0;
  for (int f = 0; mmc_file_format_describe(call->context, f, &info) == MMC_OK; f++)
    if (info.available && length + strlen(info.extensions) + 2 < sizeof endings)
      length += (size_t)snprintf(endings + length, sizeof endings - length, "%s ", info.extensions);
  out[0] = '\0';
  size_t used = 0;
  char *rest = NULL;
  for (const char *e = strtok_r(endings, " ", &rest); e != NULL && used < size;) {
    const char *next = strtok_r(NULL, " ", &rest);
    const char *between = used == 0 ? "" : next == NULL ? " or " : ", ";
    used += (size_t)snprintf(out + used, size - used, "%s%s", between, e);
    e = next;
  }
}

/* Says that files of the format that so many characters of name say have no members; a name that
 * says no format may have a colon in it. */
static int fail_member(cli_call *call, const char *option, const char *name, size_t length) {
  char *path = strndup(name, length);
  if (path == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  const char *format = mmc_file_format(path, NULL);
  free(path);
  return format == NULL
             ? CLI_DONE
             : cli_fail(call, CLI_BAD, "%s: expected no ':' in '%s', as %s files hold one array",
                        option, name, format);
}

int cli_check_ending(cli_call *call, const char *option, const char *name) {
  static const char *const foreign[] = {
      ".csv", ".tsv", ".txt",    ".json", ".xls",  ".xlsx", ".parquet", ".feather", ".arrow",
      ".pt",  ".pth", ".pickle", ".pkl",  ".onnx", ".nc",   ".zarr",    ".zip",     ".gz",
      ".bz2", ".xz",  ".zst",    ".html", ".htm",  ".svg",  ".png",     ".pdf"};
  const char *ending = strrchr(name, '.'), *member = strchr(ending != NULL ? ending : "", ':');
  if (member != NULL && strchr(member, '/') == NULL && mmc_file_format(name, NULL) == NULL)
    return fail_member(call, option, name, (size_t)(member - name));
  if (ending == NULL || mmc_file_format(name, NULL) != NULL) return CLI_DONE;
  for (size_t f = 0; f < sizeof foreign / sizeof foreign[0]; f++) {
    if (strcasecmp(ending, foreign[f]) != 0) continue;
    char endings[128];
    list_endings(call, endings, sizeof endings);
    return cli_fail(call, CLI_BAD, "%s: expected a name that ends with %s, got '%s'", option,
                    endings, name);
  }
  return CLI_DONE;
}

int cli_check_matrix_output(cli_call *call, const char *option, const char *name, mmc_dtype dtype,
                            int ndim) {
  char where[16];
  int result = cli_check_ending(call, option, name);
  if (result == CLI_DONE) result = cli_check_matrix_path(call, option, name);
  if (result != CLI_DONE) return result;
  /* An array without elements says whether the format has such a dtype and shape. */
  const mmc_matrix none = {0};
  const int64_t shape[CLI_NDIM_MAX] = {0};
  snprintf(where, sizeof where, "%s: ", option);
  mmc_status status = mmc_file_check_output(call->context, name);
  if (status == MMC_OK)
    status = mmc_file_stream_as(call->context, name, dtype, &none, 0, ndim > 0 ? ndim : 1, shape,
                                discard, NULL);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, where);
}

/* A matrix on its way to a file, which tells how much of it is written. */
typedef struct counted {
  cli_call *call;
  cli_stream *stream;
  double written, total;
} counted;

static int write_counted(void *user, const char *bytes, size_t size) {
  enum { PIECE = 1 << 23 };
  counted *c = user;
  for (size_t at = 0; at < size && c->stream->error == 0; at += PIECE) {
    size_t piece = size - at < PIECE ? size - at : PIECE;
    cli_stream_write(c->stream, bytes + at, piece);
    c->written += (double)piece;
    cli_stage_show(c->call, c->total > 0 ? fmin(c->written / c->total, 1) : 1);
  }
  return c->stream->error;
}

int cli_matrix_save(cli_call *call, const char *option, const char *name, mmc_dtype dtype,
                    const mmc_matrix *matrix, int64_t batch, int ndim, const int64_t *shape) {
  cli_file file;
  char where[16];
  char *path = cli_file_part(name);
  if (path == NULL) return cli_fail_memory(call, "a file name takes", 1.0);
  bool created = cli_file_create(path, &file);
  free(path);
  if (created) {
    counted to = {.call = call,
                  .stream = &file.stream,
                  .total = cli_matrix_bytes(dtype, batch, matrix->rows, matrix->cols)};
    mmc_status status = mmc_file_stream_as(call->context, name, dtype, matrix, batch, ndim, shape,
                                           write_counted, &to);
    if (status != MMC_OK && file.stream.error == 0) {
      cli_file_discard(&file);
      snprintf(where, sizeof where, "%s: ", option);
      return cli_fail_write(call, status, where);
    }
    if (cli_file_commit(&file)) return CLI_DONE;
  }
  return cli_fail(call, CLI_BAD, "%s: %s: cannot write: %s", option, name, strerror(errno));
}
