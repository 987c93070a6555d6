/* module_dir.h: where modules, mmchain-NAME.so, lie: parts of the library that need what a machine
 * may lack and that are loaded when they are asked for. */
#ifndef MMCI_MODULE_DIR_H
#define MMCI_MODULE_DIR_H

#include "base/status.h"

enum { MMCI_MODULE_PATH_SIZE = 4096 };

/* Writes the path of mmchain-NAME.so to path: in the folder given; when that is NULL, in the one
 * that the environment's MMCHAIN_MODULE_DIR names, which is ignored where privileges are raised;
 * without one, beside the library. Returns E_ARG, with what was expected in error, when the name is
 * too long or the environment names a relative path or a place that is not trusted: one that
 * belongs neither to root nor to the user, or that all may write to. */
mmc_status mmci_module_path(const char *given, const char *name, char path[MMCI_MODULE_PATH_SIZE],
                            mmci_error *error);

/* Says whether nobody but root and the user of this process can have put something at path. A place
 * that does not exist is trusted, because opening it gives a better message. */
bool mmci_path_trusted(const char *path);

#endif
