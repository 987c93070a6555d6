/* test_share.c: which products of a run are told to share what the device makes of an operand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "run/actions.h"

enum { ACTIONS = 3, SIDE = 8 };

/* What the device was told last of operand `which` of a product; from is -1 for its own. */
typedef struct told {
  int from, of;
} told;

static told last[ACTIONS][2];
static int kernels[ACTIONS]; /* stand for prepared products */
static bool may_share;

static bool share(mmci_kernel *kernel, int which, const mmci_kernel *from, int of) {
  const int at = (int)((int *)(void *)kernel - kernels);
  if (from != NULL && !may_share) return false;
  last[at][which] =
      (told){from == NULL ? -1 : (int)((const int *)(const void *)from - kernels), of};
  return from != NULL;
}

static const mmci_device_ops OPS = {.share = share};

typedef struct fixture {
  double x[ACTIONS * 3][SIDE * SIDE];
  mmci_action actions[ACTIONS];
  mmci_plan_step steps[ACTIONS];
  mmci_plan plan;
  mmci_actions all;
} fixture;

static fixture *f; /* of the test that runs */

/* Products of matrices x[3 i] = x[3 i + 1] x[3 i + 2], all apart. */
static int set_up(void **state) {
  f = test_calloc(1, sizeof *f);
  may_share = true;
  for (int i = 0; i < ACTIONS; i++) {
    mmci_action *a = &f->actions[i];
    a->step = i;
    a->calls = &a->whole;
    a->call_count = a->queues = 1;
    a->gemm = mmci_gemm_tight(MMC_F64, MMCI_FAITHFUL, SIDE, SIDE, SIDE, MMC_OP_N, MMC_OP_N);
    a->whole.kernel = (mmci_kernel *)(void *)&kernels[i];
    a->c = f->x[3 * i];
    a->a = f->x[3 * i + 1];
    a->b = f->x[3 * i + 2];
    last[i][0] = last[i][1] = (told){-2, 0};
  }
  f->plan = (mmci_plan){.steps = f->steps, .step_count = ACTIONS};
  f->all = (mmci_actions){
      .plan = &f->plan, .ops = &OPS, .batch = 1, .count = ACTIONS, .actions = f->actions};
  *state = f;
  return 0;
}

static int tear_down(void **state) {
  test_free(*state);
  return 0;
}

static void expect_told(int action, int which, int from, int of) {
  assert_int_equal(last[action][which].from, from);
  if (from >= 0) assert_int_equal(last[action][which].of, of);
}

static void what_is_read_once_is_its_own(void **state) {
  (void)state;
  mmci_actions_share(&f->all);
  for (int i = 0; i < ACTIONS; i++)
    for (int which = 0; which < 2; which++) expect_told(i, which, -1, 0);
}

static void the_same_operand_is_shared(void **state) {
  (void)state;
  f->actions[1].a = f->actions[0].a; /* A again */
  f->actions[2].b = f->actions[1].b; /* B again */
  mmci_actions_share(&f->all);
  expect_told(1, 0, 0, 0);
  expect_told(1, 1, -1, 0);
  expect_told(2, 1, 1, 1);
  /* What is told later holds. */
  f->actions[1].a = f->x[4];
  mmci_actions_share(&f->all);
  expect_told(1, 0, -1, 0);
}

/* Rows of A are columns of A^T. */
static void either_place_serves_where_rows_lie_alike(void **state) {
  (void)state;
  f->actions[1].b = f->actions[0].a;
  mmci_actions_share(&f->all);
  expect_told(1, 1, -1, 0);
  f->actions[1].gemm.b.trans = true;
  mmci_actions_share(&f->all);
  expect_told(1, 1, 0, 0);
  f->actions[1].gemm.b.ld++;
  mmci_actions_share(&f->all);
  expect_told(1, 1, -1, 0);
}

static void a_product_shares_with_itself(void **state) {
  (void)state;
  f->actions[2].b = f->actions[2].a;
  f->actions[2].gemm.b.trans = true;
  mmci_actions_share(&f->all);
  expect_told(2, 1, 2, 0);
  expect_told(2, 0, -1, 0);
}

static void nothing_is_shared_across_a_write(void **state) {
  (void)state;
  f->actions[2].a = f->actions[0].a;
  mmci_actions_share(&f->all);
  expect_told(2, 0, 0, 0);
  f->actions[1].c = f->x[1] + SIDE * SIDE - 1; /* the last element */
  mmci_actions_share(&f->all);
  expect_told(2, 0, -1, 0);
  f->actions[1].c = f->x[3];
  f->actions[0].c = f->x[1]; /* what action 0 reads is gone when it ends */
  mmci_actions_share(&f->all);
  expect_told(2, 0, -1, 0);
}

static void nothing_is_shared_between_queues_pieces_and_batches(void **state) {
  (void)state;
  f->actions[1].a = f->actions[0].a;
  for (int kind = 0; kind < 5; kind++) {
    mmci_action before = f->actions[0];
    mmci_call two[2] = {before.whole, before.whole};
    if (kind == 0) f->actions[0].queue = 1;
    if (kind == 1) f->actions[0].queue = f->actions[1].queue = -1;
    if (kind == 2) f->actions[0].gemm.batch = 2;
    if (kind == 3) f->actions[0].padding.multiple = 8;
    if (kind == 4) {
      f->actions[0].calls = two;
      f->actions[0].call_count = 2;
    }
    mmci_actions_share(&f->all);
    expect_told(1, 0, -1, 0);
    f->actions[0] = before;
    f->actions[1].queue = 0;
  }
  mmci_actions_share(&f->all);
  expect_told(1, 0, 0, 0);
  may_share = false;
  mmci_actions_share(&f->all);
  expect_told(1, 0, -1, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(what_is_read_once_is_its_own),
      TEST(the_same_operand_is_shared),
      TEST(either_place_serves_where_rows_lie_alike),
      TEST(a_product_shares_with_itself),
      TEST(nothing_is_shared_across_a_write),
      TEST(nothing_is_shared_between_queues_pieces_and_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
