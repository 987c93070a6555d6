/* failing.h: scenarios that are run once with each of their allocations failing. What fails must
 * return MMC_E_NOMEM, leave *out alone, and lose nothing (the sanitizers look for leaks).
 *
 * Programs that include this are linked with a copy of the library that calls failing_malloc() and
 * so on (tests/CMakeLists.txt). cmocka.h must have been included. */
#ifndef MMC_TEST_FAILING_H
#define MMC_TEST_FAILING_H

#include "../failing_allocations.h"

static inline int ignore(void *user, const char *bytes, size_t size) {
  (void)user, (void)bytes, (void)size;
  return 0;
}

static char out_marker;
#define UNTOUCHED(type) ((type *)&out_marker)

/* A failed call must leave its out as it was. */
#define TRY(call, out, type)                        \
  do {                                              \
    (out) = UNTOUCHED(type);                        \
    status = (call);                                \
    if (status != MMC_OK) {                         \
      assert_ptr_equal((void *)(out), &out_marker); \
      (out) = NULL;                                 \
      goto end;                                     \
    }                                               \
  } while (0)

typedef mmc_status (*scenario)(void);

static inline void fail_in_turn(void **state) {
  assert_true(fail_each_allocation(*(const scenario *)*state) > 0);
}

/* The test that runs a scenario, a function without arguments. */
#define FAILING(scenario_)                                                        \
  {                                                                               \
    .name = #scenario_, .test_func = fail_in_turn, .initial_state = &(scenario) { \
      scenario_                                                                   \
    }                                                                             \
  }

#endif
