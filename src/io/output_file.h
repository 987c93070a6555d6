/* output_file.h: writes a file that appears whole or not at all.
 *
 * Bytes go to a temporary file beside the target, which takes the target's place when it is
 * complete. Until then the target keeps its old content, and a failure leaves nothing behind. Where
 * the file system can (O_TMPFILE), the temporary file has no name until the last moment, so that a
 * killed process leaves nothing either. The file and then its directory are synced, so that the
 * same holds where the power fails.
 *
 * - When the target is a symbolic link, the file that it points to is replaced or made, not the
 *   link.
 * - A target that exists keeps its permissions; one without permission to write is not replaced.
 * - A target that exists and is no regular file (a pipe, a terminal, /dev/null), and /dev/stdout
 *   whatever it is, are written to directly, so a failure may come after a part was written.
 *   A pipe that nobody reads any more is E_IO where the program ignores SIGPIPE. */
#ifndef MMCI_OUTPUT_FILE_H
#define MMCI_OUTPUT_FILE_H

#include "base/status.h"

typedef struct mmci_output_file mmci_output_file;

/* Makes one, which ends with commit or discard. Returns: E_IO, E_NOMEM. */
mmc_status mmci_output_file_create(const char *path, mmci_output_file **out, mmci_error *error);
/* Writes size bytes. Returns: E_IO. */
mmc_status mmci_output_file_write(mmci_output_file *file, const void *bytes, size_t size,
                                  mmci_error *error);
/* Puts the file in its place and releases file, on failure too. Returns: E_IO. */
mmc_status mmci_output_file_commit(mmci_output_file *file, mmci_error *error);
/* Returns the descriptor of the temporary file, for writers of parts; it belongs to file. */
int mmci_output_file_descriptor(const mmci_output_file *file);
/* Returns the name of the temporary file, which it gets now where it has none, so that others can
 * open it; NULL, with errno set, where it can have none or the target is written to directly. */
const char *mmci_output_file_name(mmci_output_file *file);
/* Says whether the target is written to directly. */
bool mmci_output_file_is_direct(const mmci_output_file *file);
/* Drops what was written. NULL is a no-op. */
void mmci_output_file_discard(mmci_output_file *file);

#endif
