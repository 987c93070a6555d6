/* engines.h: finds the module of a team. */
#ifndef MMCI_RANKS_ENGINES_H
#define MMCI_RANKS_ENGINES_H

#include "ranks/team.h"

/* Says whether an engine over ranks has this name: "scalapack". */
/* Returns the name of engine number index, from 0; NULL past the last one. */
const char *mmci_engine_name(int index);
bool mmci_engine_is_known(const char *name);
/* Loads the module of an engine, once; it stays loaded. module_dir is as in mmci_module_path().
 * Returns: E_ARG, E_UNSUPPORTED. */
mmc_status mmci_engine_load(const char *name, const char *module_dir, const mmci_team_ops **out,
                            mmci_error *error);

#endif
