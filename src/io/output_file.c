/* output_file.c: decides where the bytes go (a file with a name, one without a name yet, or the
 * target itself), and renames. */
#include "io/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path_text.h"

enum {
  MAX_LINKS = 40,  /* symbolic links that are followed at most, as many as Linux follows */
  MAX_NAMES = 100, /* temporary names that are tried */
  TEMPORARY_NAME_SIZE = sizeof ".mmchain-0123456789abcdef.tmp",
  DESCRIPTOR_PATH_SIZE = 32
};

struct mmci_output_file {
  int descriptor;
  char *target;    /* the name in the end; NULL when written to directly */
  char *temporary; /* holds a name beside target; NULL when target is */
  bool named;      /* a file of that name exists and is ours */
  char shown[MMCI_PATH_TEXT_SIZE];
};

static mmc_status fail_writing(const mmci_output_file *file, int code, mmci_error *error) {
  return mmci_fail(error, MMC_E_IO, "%s: cannot write: %s", file->shown, strerror(code));
}

/* Returns how many characters path has up to and with its last '/'. */
static size_t directory_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

/* Returns where path leads through symbolic links, even when nothing is there yet, as a new string.
 * Returns NULL with errno set. */
static char *follow_links(const char *path) {
  char *at = strdup(path);
  for (int links = 0; at != NULL; links++) {
    struct stat status;
    if (lstat(at, &status) != 0 || !S_ISLNK(status.st_mode)) return at;

    char link[PATH_MAX];
    ssize_t length = readlink(at, link, sizeof link);
    if (length < 0 || length == (ssize_t)sizeof link || links == MAX_LINKS) {
      int code = length < 0 ? errno : ELOOP;
      free(at);
      errno = code;
      return NULL;
    }
    size_t stem = link[0] == '/' ? 0 : directory_length(at);
    char *next = mmci_alloc_array(stem + (size_t)length + 1, 1);
    if (next != NULL) {
      memcpy(next, at, stem);
      memcpy(next + stem, link, (size_t)length);
      next[stem + (size_t)length] = '\0';
    }
    free(at);
    at = next;
    if (next == NULL) errno = ENOMEM;
  }
  return NULL;
}

/* Writes a new name into file->temporary. */
static void choose_name(mmci_output_file *file) {
  uint64_t tag;
  if (getrandom(&tag, sizeof tag, GRND_NONBLOCK) != (ssize_t)sizeof tag) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    tag = ((uint64_t)now.tv_sec << 32) ^ ((uint64_t)now.tv_nsec << 16) ^ (uint64_t)getpid();
  }
  size_t stem = directory_length(file->target);
  memcpy(file->temporary, file->target, stem);
  snprintf(file->temporary + stem, TEMPORARY_NAME_SIZE, ".mmchain-%016" PRIx64 ".tmp", tag);
}

static void descriptor_path(const mmci_output_file *file, char path[DESCRIPTOR_PATH_SIZE]) {
  snprintf(path, DESCRIPTOR_PATH_SIZE, "/proc/self/fd/%d", file->descriptor);
}

/* Opens a file without a name in the target's directory; returns false where that cannot be done,
 * or where the file could not be given a name later. */
static bool open_unnamed(mmci_output_file *file) {
#ifdef O_TMPFILE
  size_t stem = directory_length(file->target);
  memcpy(file->temporary, file->target, stem);
  memcpy(file->temporary + stem, ".", sizeof ".");
  int descriptor = open(file->temporary, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (descriptor < 0) return false;
  file->descriptor = descriptor;
  char path[DESCRIPTOR_PATH_SIZE];
  descriptor_path(file, path);
  if (access(path, F_OK) == 0) return true;
  close(descriptor);
  file->descriptor = -1;
#else
  (void)file;
#endif
  return false;
}

/* Opens a file of a new name, with the permissions that the umask leaves. Returns false with errno
 * set. */
static bool open_named(mmci_output_file *file) {
  for (int tries = 0; tries < MAX_NAMES; tries++) {
    choose_name(file);
    file->descriptor = open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->descriptor >= 0) {
      file->named = true;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

/* Gives a file without a name one. Returns false with errno set. */
static bool link_name(mmci_output_file *file) {
  char path[DESCRIPTOR_PATH_SIZE];
  descriptor_path(file, path);
  for (int tries = 0; tries < MAX_NAMES; tries++) {
    choose_name(file);
    if (linkat(AT_FDCWD, path, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) == 0) {
      file->named = true;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

/* Opens the temporary file for path; old is the target's status, NULL when there is no target. */
static mmc_status open_beside(mmci_output_file *file, const char *path, const struct stat *old,
                              mmci_error *error) {
  file->target = follow_links(path);
  if (file->target == NULL) {
    if (errno == ENOMEM) return mmci_fail_nomem(error, PATH_MAX);
    return fail_writing(file, errno, error);
  }
  size_t stem = directory_length(file->target);
  if (file->target[stem] == '\0') return fail_writing(file, ENOENT, error);
  if (old != NULL && faccessat(AT_FDCWD, file->target, W_OK, AT_EACCESS) != 0)
    return fail_writing(file, errno, error);

  file->temporary = mmci_alloc_array(stem + TEMPORARY_NAME_SIZE, 1);
  if (file->temporary == NULL) return mmci_fail_nomem(error, stem + TEMPORARY_NAME_SIZE);
  if (!open_unnamed(file) && !open_named(file))
    return mmci_fail(error, MMC_E_IO, "%s: cannot make a temporary file beside it: %s", file->shown,
                     strerror(errno));

  const mode_t permissions = 0777;
  struct stat made;
  if (old != NULL && fstat(file->descriptor, &made) == 0 &&
      (made.st_mode & permissions) != (old->st_mode & permissions) &&
      fchmod(file->descriptor, old->st_mode & permissions) != 0)
    return fail_writing(file, errno, error);
  return MMC_OK;
}

static mmc_status open_path(mmci_output_file *file, const char *path, mmci_error *error) {
  if (strcmp(path, "/dev/stdout") == 0) {
    /* If it were opened by name, a regular file would be emptied and a socket would not open. */
    file->descriptor = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    return file->descriptor < 0 ? fail_writing(file, errno, error) : MMC_OK;
  }

  struct stat old;
  bool exists = stat(path, &old) == 0;
  if (!exists && errno != ENOENT) return fail_writing(file, errno, error);
  if (!exists || S_ISREG(old.st_mode)) return open_beside(file, path, exists ? &old : NULL, error);

  file->descriptor = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  return file->descriptor < 0 ? fail_writing(file, errno, error) : MMC_OK;
}

mmc_status mmci_output_file_create(const char *path, mmci_output_file **out, mmci_error *error) {
  mmci_output_file *file = mmci_alloc_zeroed(1, sizeof *file);
  if (file == NULL) return mmci_fail_nomem(error, sizeof *file);
  file->descriptor = -1;
  mmci_path_text(path, file->shown);

  mmc_status status = open_path(file, path, error);
  if (status != MMC_OK) {
    mmci_output_file_discard(file);
    return status;
  }
  *out = file;
  return MMC_OK;
}

mmc_status mmci_output_file_write(mmci_output_file *file, const void *bytes, size_t size,
                                  mmci_error *error) {
  const size_t most = (size_t)1 << 30; /* some systems refuse to write more at once */
  const char *next = bytes;
  while (size != 0) {
    ssize_t written = write(file->descriptor, next, size < most ? size : most);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return fail_writing(file, written < 0 ? errno : EIO, error);
    next += written;
    size -= (size_t)written;
  }
  return MMC_OK;
}

/* Says whether the descriptor's content is on the disk, or the file system keeps none. Returns
 * false with errno set. */
static bool reaches_disk(int descriptor) {
  return fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

/* Says whether the target's directory is on the disk. It overwrites file->temporary, which is no
 * file's name any more. */
static bool directory_reaches_disk(mmci_output_file *file) {
  size_t stem = directory_length(file->target);
  memcpy(file->temporary, file->target, stem);
  memcpy(file->temporary + stem, ".", sizeof ".");
  int descriptor = open(file->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno == EACCES; /* a directory may allow writing and not reading */
  bool reached = reaches_disk(descriptor);
  int code = errno;
  close(descriptor);
  errno = code;
  return reached;
}

mmc_status mmci_output_file_commit(mmci_output_file *file, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (file->target != NULL && !reaches_disk(file->descriptor))
    status = fail_writing(file, errno, error);
  if (status == MMC_OK && file->target != NULL && !file->named && !link_name(file))
    status = fail_writing(file, errno, error);

  /* A network file system may report a full disk only now. */
  int descriptor = file->descriptor;
  file->descriptor = -1;
  if (close(descriptor) != 0 && status == MMC_OK) status = fail_writing(file, errno, error);

  if (status == MMC_OK && file->target != NULL) {
    if (rename(file->temporary, file->target) != 0) {
      status = fail_writing(file, errno, error);
    } else {
      file->named = false;
      if (!directory_reaches_disk(file)) status = fail_writing(file, errno, error);
    }
  }
  mmci_output_file_discard(file);
  return status;
}

int mmci_output_file_descriptor(const mmci_output_file *file) {
  return file->descriptor;
}

bool mmci_output_file_is_direct(const mmci_output_file *file) {
  return file->target == NULL;
}

const char *mmci_output_file_name(mmci_output_file *file) {
  if (file->target == NULL) {
    errno = ENOENT;
    return NULL;
  }
  return file->named || link_name(file) ? file->temporary : NULL;
}

void mmci_output_file_discard(mmci_output_file *file) {
  if (file == NULL) return;
  if (file->descriptor >= 0) close(file->descriptor);
  if (file->named) unlink(file->temporary);
  free(file->target);
  free(file->temporary);
  free(file);
}
