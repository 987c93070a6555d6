/* echo_team.c: the module of a team whose other ranks are an echo of this one: each has what this
 * rank has and sends zeros, and products are zeros. So one process walks the whole way of a rank,
 * with everything that may fail there, and needs no MPI. A communicator is the address of two
 * int32_t: this rank, and how many there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "ranks/team.h"

struct mmci_team {
  int32_t rank, count;
};

static mmc_status open_team(const void *communicator, mmci_team **out, mmci_error *error) {
  (void)error;
  *out = malloc(sizeof **out);
  if (*out == NULL) return MMC_E_NOMEM;
  memcpy(*out, communicator, sizeof **out);
  return MMC_OK;
}
static void close_team(mmci_team *team) {
  free(team);
}
static int32_t rank_of(const mmci_team *team) {
  return team->rank;
}
static int32_t count_of(const mmci_team *team) {
  return team->count;
}
static void describe(const mmci_team *team, char *text, size_t size) {
  snprintf(text, size, "%d echoes", (int)team->count - 1);
}

static bool is_named(const mmci_team *team) {
  (void)team;
  return false;
}

static mmc_status gather(mmci_team *team, const void *mine, size_t size, void *all,
                         mmci_error *error) {
  (void)error;
  for (int32_t r = 0; r < team->count; r++) memcpy((char *)all + (size_t)r * size, mine, size);
  return MMC_OK;
}

static mmc_status least(mmci_team *team, int32_t mine, int32_t *out, mmci_error *error) {
  (void)team, (void)error;
  *out = mine;
  return MMC_OK;
}

/* Every rank has these bytes already. */
static mmc_status share(mmci_team *team, int32_t from, void *bytes, size_t size,
                        mmci_error *error) {
  (void)team, (void)from, (void)bytes, (void)size, (void)error;
  return MMC_OK;
}

static mmc_status exchange(mmci_team *team, const mmci_message *sends, int32_t send_count,
                           const mmci_message *receives, int32_t receive_count, mmci_error *error) {
  (void)team, (void)error;
  volatile unsigned char sum = 0; /* sanitizers see whether what is sent is there */
  for (int32_t i = 0; i < send_count; i++)
    for (size_t b = 0; b < sends[i].size; b++) sum ^= ((const unsigned char *)sends[i].bytes)[b];
  for (int32_t i = 0; i < receive_count; i++) memset(receives[i].bytes, 0, receives[i].size);
  (void)sum;
  return MMC_OK;
}

static mmc_status multiply(mmci_team *team, mmc_dtype dtype, int64_t m, int64_t k, int64_t n,
                           const mmci_local *a, const mmci_local *b, void *c, mmci_error *error) {
  (void)team, (void)k, (void)a, (void)b, (void)error;
  const size_t size = dtype == MMC_F32 ? 4 : dtype == MMC_C128 ? 16 : 8;
  memset(c, 0, (size_t)m * (size_t)n * size);
  return MMC_OK;
}

static bool takes_grid(const mmci_team *team, mmc_dtype dtype, const mmci_layout *grid, int64_t m,
                       int64_t k, int64_t n) {
  (void)team, (void)dtype, (void)grid, (void)m, (void)k, (void)n;
  return false;
}

static void prepare_grid(mmci_team *team, const mmci_layout *grid) {
  (void)team, (void)grid;
}

static mmc_status multiply_grid(mmci_team *team, mmc_dtype dtype, const mmci_layout *grid,
                                int64_t m, int64_t k, int64_t n, const mmci_local *a,
                                const mmci_local *b, void *c, mmci_error *error) {
  (void)grid;
  return multiply(team, dtype, m, k, n, a, b, c, error);
}

static const mmci_team_ops ops = {.abi = MMCI_TEAM_ABI,
                                  .size = sizeof(mmci_team_ops),
                                  .name = "echo",
                                  .open = open_team,
                                  .close = close_team,
                                  .rank = rank_of,
                                  .count = count_of,
                                  .describe = describe,
                                  .is_named = is_named,
                                  .gather = gather,
                                  .least = least,
                                  .share = share,
                                  .exchange = exchange,
                                  .multiply = multiply,
                                  .takes_grid = takes_grid,
                                  .prepare_grid = prepare_grid,
                                  .multiply_grid = multiply_grid};

MMC_API const mmci_team_ops *mmci_module_entry(void);
const mmci_team_ops *mmci_module_entry(void) {
  return &ops;
}
