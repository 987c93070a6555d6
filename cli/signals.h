/* signals.h: what is put in order when the process is ended, or when a file that it reads is cut
 * off. */
#ifndef MMC_CLI_SIGNALS_H
#define MMC_CLI_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* From now on SIGINT, SIGTERM and SIGHUP remove temporary files before they end the process, unless
 * the parent process has set them to be ignored; a write past the limit of a file's size, or to a
 * pipe that nobody reads, fails instead of ending the process; and a file that is cut off while its
 * mapping is read ends it with status 2 and a message. */
void cli_signals_catch(void);

/* Holds the signals that end the process back, until they are released. The main thread alone may
 * call this. */
void cli_signals_hold(sigset_t *before);
void cli_signals_release(const sigset_t *before);

/* Passes a signal on to the main thread when another thread took it, and says whether it did. Every
 * handler that removes files begins with it: a thread of the BLAS holds no signal back. */
bool cli_signals_pass(int number);

/* Does what those signals do, for a handler of another kind. */
void cli_signals_end(int number);
/* Has `tell` called before a signal ends the process; it calls only what POSIX allows in handlers.
 * NULL: nothing. */
void cli_signals_tell(void (*tell)(void));
/* Removes the temporary files that are remembered. */
void cli_temporaries_remove(void);

/* Adds a file that is removed when a signal ends the process. name stays the caller's, and must
 * live until it is forgotten. The caller holds the signals. */
void cli_temporary_remember(const char *name);
void cli_temporary_forget(const char *name);

/* Adds memory that maps a file: when reading it fails, the message names that file. path must live
 * until the memory is forgotten. */
void cli_mapped_remember(const void *data, size_t size, const char *path);
void cli_mapped_forget(const void *data);

#endif
