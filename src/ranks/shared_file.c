/* shared_file.c: rank 0 makes the temporary file, all write their pieces into it, and rank 0 gives
 * it its name. On one host the file has no name until then, and the others open it through rank 0's
 * descriptor; so whatever is killed leaves nothing. */
#include "ranks/shared_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path_text.h"
#include "io/npy_header.h"
#include "io/output_file.h"
#include "ranks/agree.h"

/* Where rank 0 has the temporary file. */
typedef struct place {
  int64_t process;
  int32_t descriptor;
  uint64_t device, number;
  char name[3000]; /* "" while it has none */
} place;

static mmc_status fail_file(const mmci_shared_file *file, const char *what, int code,
                            mmci_error *error) {
  char path[MMCI_PATH_TEXT_SIZE];
  return mmci_fail(error, MMC_E_IO, "%s: %s: %s", mmci_path_text(file->path, path), what,
                   strerror(code));
}

/* Opens rank 0's file by its descriptor, which works on its host. */
static int open_by_descriptor(const place *at) {
  char path[64];
  struct stat facts;
  snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)at->process, (int)at->descriptor);
  const int descriptor = open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  if (fstat(descriptor, &facts) == 0 && (uint64_t)facts.st_dev == at->device &&
      (uint64_t)facts.st_ino == at->number)
    return descriptor;
  close(descriptor);
  return -1;
}

/* Opens the file on every rank but the first: by its descriptor, or by a name where that fails on
 * one of them. */
static mmc_status open_on_all(const mmci_team_ops *ops, mmci_team *team,
                              const mmci_shared_file *file, mmci_output_file *output, int *out,
                              mmci_error *error) {
  const bool is_first = ops->rank(team) == 0;
  place at = {0};
  struct stat facts;
  if (is_first) {
    at.process = getpid();
    at.descriptor = mmci_output_file_descriptor(output);
    if (fstat(at.descriptor, &facts) == 0) {
      at.device = (uint64_t)facts.st_dev;
      at.number = (uint64_t)facts.st_ino;
    }
  }
  mmc_status status = ops->share(team, 0, &at, sizeof at, error);
  if (status != MMC_OK) return status;
  *out = is_first ? mmci_output_file_descriptor(output) : open_by_descriptor(&at);
  mmci_error ignored = {0};
  if (mmci_team_agree(ops, team, *out >= 0 ? MMC_OK : MMC_E_IO, &ignored) == MMC_OK) return MMC_OK;
  if (is_first) {
    const char *name = mmci_output_file_name(output);
    if (name == NULL || strlen(name) >= sizeof at.name)
      status = fail_file(file, "the temporary file gets no name",
                         name == NULL ? errno : ENAMETOOLONG, error);
    else
      snprintf(at.name, sizeof at.name, "%s", name);
  }
  status = mmci_team_agree(ops, team, status, error);
  if (status == MMC_OK) status = ops->share(team, 0, &at, sizeof at, error);
  if (status != MMC_OK) return status;
  if (*out < 0) *out = open(at.name, O_WRONLY | O_CLOEXEC);
  if (*out < 0)
    status = fail_file(file,
                       "cannot open the temporary file that rank 0 made; expected a file "
                       "system that all ranks share",
                       errno, error);
  return mmci_team_agree(ops, team, status, error);
}

/* Writes size bytes at an offset. Returns false with errno set. */
static bool write_at(int descriptor, const char *bytes, size_t size, uint64_t offset) {
  const size_t most = (size_t)1 << 30;
  while (size > 0) {
    const ssize_t written = pwrite(descriptor, bytes, size < most ? size : most, (off_t)offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      if (written == 0) errno = EIO;
      return false;
    }
    bytes += written;
    size -= (size_t)written;
    offset += (uint64_t)written;
  }
  return true;
}

static bool write_piece(int descriptor, const mmci_shared_file *file, uint64_t header) {
  const size_t size = mmc_dtype_size(file->dtype);
  const mmci_piece *piece = &file->piece;
  const char *data = file->data;
  const size_t row_bytes = (size_t)piece->cols * size;
  const uint64_t all = (uint64_t)file->cols * size;
  if (piece->rows == 0) return true;
  const uint64_t first = header + (uint64_t)piece->row * all + (uint64_t)piece->col * size;
  if (piece->cols == file->cols)
    return write_at(descriptor, data, (size_t)piece->rows * row_bytes, first);
  for (int64_t r = 0; r < piece->rows; r++)
    if (!write_at(descriptor, data + (size_t)r * row_bytes, row_bytes, first + (uint64_t)r * all))
      return false;
  return true;
}

/* Writes the header. */
static mmc_status begin(const mmci_shared_file *file, mmci_output_file **out, size_t *header,
                        mmci_error *error) {
  char text[MMCI_NPY_HEADER_SIZE];
  const int64_t both[2] = {file->rows, file->cols}, one = file->rows == 1 ? file->cols : file->rows;
  *header = mmci_npy_header_format(mmci_npy_type_of(file->dtype), file->ndim,
                                   file->ndim == 1 ? &one : both, text);
  mmc_status status = mmci_output_file_create(file->path, out, error);
  if (status != MMC_OK) return status;
  if (mmci_output_file_is_direct(*out)) {
    char path[MMCI_PATH_TEXT_SIZE];
    return mmci_fail(error, MMC_E_ARG, "%s: expected a regular file, which all ranks write",
                     mmci_path_text(file->path, path));
  }
  return mmci_output_file_write(*out, text, *header, error);
}

/* Has the whole file checked, as it lies there. */
static mmc_status check(const mmci_shared_file *file, mmci_output_file *output, size_t header,
                        mmci_error *error) {
  const size_t bytes = (size_t)file->rows * (size_t)file->cols * mmc_dtype_size(file->dtype);
  if (bytes == 0) return file->check(file->user, "");
  char *mapped =
      mmap(NULL, header + bytes, PROT_READ, MAP_SHARED, mmci_output_file_descriptor(output), 0);
  if (mapped == MAP_FAILED) return fail_file(file, "cannot read what was written", errno, error);
  mmc_status status = file->check(file->user, mapped + header);
  munmap(mapped, header + bytes);
  if (status != MMC_OK) mmci_fail(error, status, "the result was refused by its check");
  return status;
}

mmc_status mmci_shared_file_write(const mmci_team_ops *ops, mmci_team *team,
                                  const mmci_shared_file *file, mmci_error *error) {
  const bool is_first = ops->rank(team) == 0;
  mmci_output_file *output = NULL;
  size_t header = 0;
  int descriptor = -1;
  mmc_status status = is_first ? begin(file, &output, &header, error) : MMC_OK;
  status = mmci_team_agree(ops, team, status, error);
  if (status == MMC_OK) status = ops->share(team, 0, &header, sizeof header, error);
  if (status == MMC_OK) status = open_on_all(ops, team, file, output, &descriptor, error);
  if (status == MMC_OK) {
    if (!write_piece(descriptor, file, header))
      status = fail_file(file, "cannot write", errno, error);
    /* What another host has written reaches the disk by its own doing. */
    if (status == MMC_OK && !is_first && fsync(descriptor) != 0 && errno != EINVAL)
      status = fail_file(file, "cannot write", errno, error);
    status = mmci_team_agree(ops, team, status, error);
  }
  if (!is_first && descriptor >= 0) close(descriptor);
  if (status == MMC_OK && is_first && file->check != NULL)
    status = check(file, output, header, error);
  if (status == MMC_OK && is_first) {
    status = mmci_output_file_commit(output, error);
    output = NULL;
  }
  mmci_output_file_discard(output);
  return mmci_team_agree(ops, team, status, error);
}
