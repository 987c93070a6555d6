/* team.h: the contract of a team: several processes that multiply together, and how they send.
 *
 * A team is a module, mmchain-NAME.so, which exports mmci_module_entry(); it knows MPI or whatever
 * carries the words, and nothing of plans. All calls but describe() are collective: every rank
 * makes the same calls in the same order, but for those which say otherwise. */
#ifndef MMCI_RANKS_TEAM_H
#define MMCI_RANKS_TEAM_H

#include "base/status.h"
#include "ranks/layout.h"

#define MMCI_TEAM_ABI 5u

/* What is sent to a rank, or comes from one: size bytes in one piece. A size of 0 sends nothing. */
typedef struct mmci_message {
  void *bytes;
  size_t size;
  int32_t rank;
} mmci_message;

/* A matrix of this rank: element (r, c) is data[r * ld + c], or data[c * ld + r] when transposed.
 */
typedef struct mmci_local {
  const void *data;
  int64_t ld;
  bool transposed;
} mmci_local;

typedef struct mmci_team mmci_team;

typedef struct mmci_team_ops {
  uint32_t abi, size;
  const char *name;
  /* Writes which libraries the engine has, without starting anything. It is not collective.
   * Returns: E_UNSUPPORTED. */
  mmc_status (*probe)(char *text, size_t size, mmci_error *error);
  /* Joins a team: that of a communicator, whose address is given, or of all processes that were
   * started together when it is NULL. Returns: E_ARG, E_UNSUPPORTED (no engine), E_NOMEM,
   * E_DEVICE. */
  mmc_status (*open)(const void *communicator, mmci_team **out, mmci_error *error);
  void (*close)(mmci_team *team);
  int32_t (*rank)(const mmci_team *team);
  int32_t (*count)(const mmci_team *team);
  void (*describe)(const mmci_team *team, char *text, size_t size);
  /* Says whether the user has named the engine's libraries. It is not collective. */
  bool (*is_named)(const mmci_team *team);
  /* Copies size bytes of every rank to all, in the order of the ranks. */
  mmc_status (*gather)(mmci_team *team, const void *mine, size_t size, void *all,
                       mmci_error *error);
  /* Finds the least of what every rank has. Like share() it takes no memory that this rank alone
   * may lack: ranks agree by these two that one of them has none. */
  mmc_status (*least)(mmci_team *team, int32_t mine, int32_t *out, mmci_error *error);
  /* Copies the size bytes of rank `from` to those of all others. */
  mmc_status (*share)(mmci_team *team, int32_t from, void *bytes, size_t size, mmci_error *error);
  /* Sends and receives at once, and returns when all has been sent and has come. */
  mmc_status (*exchange)(mmci_team *team, const mmci_message *sends, int32_t send_count,
                         const mmci_message *receives, int32_t receive_count, mmci_error *error);
  /* Multiplies on this rank alone: c, row-major with leading dimension n, becomes a b. It is not
   * collective. m, k, n >= 1. */
  mmc_status (*multiply)(mmci_team *team, mmc_dtype dtype, int64_t m, int64_t k, int64_t n,
                         const mmci_local *a, const mmci_local *b, void *c, mmci_error *error);
  /* Says whether the engine multiplies on a grid by itself, with the words of "grid". */
  bool (*takes_grid)(const mmci_team *team, mmc_dtype dtype, const mmci_layout *grid, int64_t m,
                     int64_t k, int64_t n);
  /* Makes what multiply_grid() needs of a grid that it takes, unless it was made before. Ranks that
   * are not in the grid make it as well: it is collective. */
  void (*prepare_grid)(mmci_team *team, const mmci_layout *grid);
  /* Multiplies by the engine, on a grid that is prepared, on its ranks alone: a, b and c are this
   * rank's blocks, row-major, with leading dimensions of a's and b's own and c's cols. */
  mmc_status (*multiply_grid)(mmci_team *team, mmc_dtype dtype, const mmci_layout *grid, int64_t m,
                              int64_t k, int64_t n, const mmci_local *a, const mmci_local *b,
                              void *c, mmci_error *error);
} mmci_team_ops;

/* Every team module exports this under the name "mmci_module_entry". */
typedef const mmci_team_ops *(*mmci_team_entry_fn)(void);

#endif
