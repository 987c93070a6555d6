/* test_team_allocations.c: plans over ranks and the way of a rank through them, once with each
 * allocation failing (failing.h). The other ranks are echoes of it, or made up here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "failing.h"
#include "mmchain.h"
#include "ranks/agree.h"

/* A plan over ranks that need not be there, with layouts, and told. */
static mmc_status plan_of_ranks(void) {
  mmc_status status;
  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_team_plan *plan = NULL;
  mmc_spread spreads[4] = {{.kind = MMC_SPREAD_ROWS},
                           {.kind = MMC_SPREAD_GRID, .grid_rows = 2, .grid_cols = 3},
                           {.kind = MMC_SPREAD_COLS},
                           {.kind = MMC_SPREAD_WHOLE}};
  mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
  options.ranks = 6;
  options.objective = "energy";
  options.factors = spreads;
  options.result = &spreads[1];
  TRY(mmc_context_create(NULL, &context), context, mmc_context);
  TRY(mmc_chain_parse(context, "30x35x15x5x10:NTNN", &chain), chain, mmc_chain);
  TRY(mmc_team_plan_create(context, NULL, chain, &options, &plan), plan, mmc_team_plan);
  status = mmc_team_plan_explain(plan, MMC_TEXT, ignore, NULL);
  if (status == MMC_OK) status = mmc_team_plan_explain(plan, MMC_JSON, ignore, NULL);
end:
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status;
}

/* Rank `rank` of `count`, whose others are echoes: every layout is asked for the result, so that
 * there are products by rows, by inner dimension and on grids; and a file, which rank 0 writes. */
static mmc_status team_of(int32_t rank, int32_t count, const char *text) {
  static double numbers[1600], result[1600];
  static const mmc_spread_kind kinds[] = {MMC_SPREAD_ROWS, MMC_SPREAD_COLS, MMC_SPREAD_GRID,
                                          MMC_SPREAD_WHOLE};
  const char path[] = "test_allocations_team.npy";
  const int32_t communicator[2] = {rank, count};
  mmc_status status;
  mmc_context *context = NULL;
  mmc_team *team = NULL;
  mmc_chain *chain = NULL;
  mmc_team_plan *plan = NULL;
  mmc_matrix factors[8];
  mmc_context_options context_options = MMC_CONTEXT_OPTIONS_INIT;
  context_options.module_dir = MMC_ECHO_MODULES;
  TRY(mmc_context_create(&context_options, &context), context, mmc_context);
  TRY(mmc_team_open(context, "scalapack", communicator, &team), team, mmc_team);
  TRY(mmc_chain_parse(context, text, &chain), chain, mmc_chain);
  const int64_t n = mmc_chain_length(chain), *dims = mmc_chain_dims(chain);
  for (int64_t i = 0; i < n; i++) {
    assert_true(dims[i] * dims[i + 1] <= 1600);
    factors[i] = (mmc_matrix){.data = numbers, .rows = dims[i], .cols = dims[i + 1]};
  }
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    const mmc_spread asked = {kinds[k], kinds[k] == MMC_SPREAD_GRID ? 2 : 0, count / 2};
    mmc_team_options options = MMC_TEAM_OPTIONS_INIT;
    mmc_piece piece;
    options.all_ranks = true;
    options.result = &asked;
    TRY(mmc_team_plan_create(context, team, chain, &options, &plan), plan, mmc_team_plan);
    assert_int_equal(mmc_team_plan_piece(plan, -1, rank, &piece), MMC_OK);
    const mmc_matrix out = {.data = result, .rows = piece.rows, .cols = piece.cols};
    status = mmc_team_execute(plan, factors, &out);
    if (status == MMC_OK && rank == 0) status = mmc_team_write(plan, path, &out, 2, NULL, NULL);
    assert_int_equal(access(path, F_OK) == 0, status == MMC_OK && rank == 0);
    unlink(path);
    mmc_team_plan_destroy(plan);
    plan = NULL;
    if (status != MMC_OK) goto end;
  }
end:
  mmc_team_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_team_close(team);
  mmc_context_destroy(context);
  return status;
}
static mmc_status team_first(void) {
  return team_of(0, 4, "f64:30x4x40x3x25");
}
static mmc_status team_last(void) {
  return team_of(3, 4, "c64:5x40x40x3x2");
}
/* So many that what they agree on has no place on the stack. */
static mmc_status team_of_many(void) {
  mmc_status status;
  const int32_t communicator[2] = {7, 1100};
  mmc_context *context = NULL;
  mmc_team *team = NULL;
  mmc_context_options options = MMC_CONTEXT_OPTIONS_INIT;
  options.module_dir = MMC_ECHO_MODULES;
  TRY(mmc_context_create(&options, &context), context, mmc_context);
  TRY(mmc_team_open(context, "scalapack", communicator, &team), team, mmc_team);
  status = mmc_team_agree(team, MMC_OK, NULL);
end:
  mmc_team_close(team);
  mmc_context_destroy(context);
  return status;
}

/* A team of which this rank is number 7: what it calls is noted, by a letter each, and of the
 * others one has failed, or none. What ranks call in turn must be the same on all, whatever one of
 * them has no memory for: a rank that called less would be waited for. */
struct mmci_team {
  int32_t failed_rank; /* the number of ranks when none did */
  char calls[8];
};
enum { MANY_RANKS = 5000 };

static void note_call(mmci_team *team, char call) {
  const size_t length = strlen(team->calls);
  assert_true(length + 1 < sizeof team->calls);
  team->calls[length] = call;
}
static int32_t seventh(const mmci_team *team) {
  (void)team;
  return 7;
}
static int32_t many(const mmci_team *team) {
  (void)team;
  return MANY_RANKS;
}
/* The second time it is asked whether all ranks have failed alike, which the others have not. */
static mmc_status least_of_many(mmci_team *team, int32_t mine, int32_t *out, mmci_error *error) {
  (void)error;
  const bool again = strchr(team->calls, 'l') != NULL;
  note_call(team, 'l');
  *out = again ? 0 : mine < team->failed_rank ? mine : team->failed_rank;
  return MMC_OK;
}
static mmc_status share_of_many(mmci_team *team, int32_t from, void *bytes, size_t size,
                                mmci_error *error) {
  (void)error;
  const int32_t status = MMC_E_IO;
  note_call(team, 's');
  if (from == 7) return MMC_OK;
  assert_int_equal(from, team->failed_rank);
  memcpy(bytes, &status, sizeof status);
  snprintf((char *)bytes + sizeof status, size - sizeof status, "no file");
  return MMC_OK;
}
static mmc_status gather_of_many(mmci_team *team, const void *mine, size_t size, void *all,
                                 mmci_error *error) {
  (void)error;
  note_call(team, 'g');
  memset(all, 0, MANY_RANKS * size);
  memcpy((char *)all + 7 * size, mine, size);
  return MMC_OK;
}

static void a_rank_without_memory_is_not_waited_for(void **state) {
  (void)state;
  static const mmci_team_ops ops = {.rank = seventh,
                                    .count = many,
                                    .gather = gather_of_many,
                                    .least = least_of_many,
                                    .share = share_of_many};
  static const struct {
    int32_t failed_rank;
    long memory;
    const char *calls, *message;
    mmc_status status;
  } cases[] = {
      {MANY_RANKS, -1, "lg", "", MMC_OK},          {MANY_RANKS, 0, "lsl", "rank 7: ", MMC_E_NOMEM},
      {3, -1, "lsl", "rank 3: no file", MMC_E_IO}, {3, 0, "lsl", "rank 3: no file", MMC_E_IO},
      {9, -1, "lsl", "rank 9: no file", MMC_E_IO}, {9, 0, "lsl", "rank 7: ", MMC_E_NOMEM},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    mmci_team team = {.failed_rank = cases[c].failed_rank};
    mmci_error error = {0};
    mmc_status status = MMC_OK;
    const int64_t mine = 42;
    allocations_left = cases[c].memory;
    int64_t *all = mmci_team_gather(&ops, &team, &status, &mine, sizeof mine, &error);
    allocations_left = -1;
    assert_int_equal(status, cases[c].status);
    assert_string_equal(team.calls, cases[c].calls);
    assert_int_equal(strncmp(error.text, cases[c].message, strlen(cases[c].message)), 0);
    assert_true((all != NULL) == (status == MMC_OK));
    if (all != NULL) assert_true(all[7] == mine && all[8] == 0);
    free(all);
    /* To agree takes no memory at all. */
    mmci_team other = {.failed_rank = cases[c].failed_rank};
    allocation_failures = 0;
    allocations_left = 0;
    status = mmci_team_agree(&ops, &other, MMC_OK, &error);
    allocations_left = -1;
    assert_int_equal(allocation_failures, 0);
    assert_int_equal(status, cases[c].failed_rank < MANY_RANKS ? MMC_E_IO : MMC_OK);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      FAILING(plan_of_ranks),
      FAILING(team_first),
      FAILING(team_last),
      FAILING(team_of_many),
      cmocka_unit_test(a_rank_without_memory_is_not_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
