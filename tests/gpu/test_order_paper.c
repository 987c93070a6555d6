/* test_order_paper.c: the CUDA module's kernels thread, block, blocks and paper on a device.
 *
 *     test_order_paper MODULE [small]
 *
 * MODULE is mmchain-cuda.so. Whole tables, costs and orders are compared with the textbook's, up
 * to 1024 factors; small is for tools that check every access: few chains, 65 factors at most. Exit
 * status 77: there is no device. */
#include "gpu_test.h"
#include "order_profile.h"
#include "order_textbook.h"

static mmc_status solve(void *user, mmci_device_order *order, mmci_error *error) {
  const target *on = user;
  return on->ops->order(on->device, order, error);
}

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct setting {
  const char *kernel;
  int threads, blocks;
} setting;

static const setting ALL_SETTINGS[] = {
    {"thread", 32, 0},  {"thread", 64, 0},  {"thread", 128, 0}, {"thread", 256, 0},
    {"block", 32, 0},   {"block", 64, 0},   {"block", 128, 0},  {"block", 256, 0},
    {"blocks", 32, 2},  {"blocks", 32, 4},  {"blocks", 32, 8},  {"blocks", 32, 16},
    {"blocks", 64, 2},  {"blocks", 64, 4},  {"blocks", 64, 8},  {"blocks", 64, 16},
    {"blocks", 128, 2}, {"blocks", 128, 4}, {"blocks", 128, 8}, {"blocks", 128, 16},
    {"blocks", 256, 2}, {"blocks", 256, 4}, {"blocks", 256, 8}, {"blocks", 256, 16}};
static const setting MEASURED[] = {
    {"thread", 0, 0}, {"block", 0, 0}, {"blocks", 0, 0}, {"paper", 0, 0}};

static void compare(const target *on, const textbook *book, const int64_t *dims, int family,
                    const setting *settings, size_t count) {
  for (size_t s = 0; s < count; s++) {
    char what[128];
    snprintf(what, sizeof what, "n = %d, %s, kernel %s, %d threads, %d blocks", book->n,
             textbook_families[family], settings[s].kernel, settings[s].threads,
             settings[s].blocks);
    mmci_device_order order = {.kernel = settings[s].kernel,
                               .threads_per_block = settings[s].threads,
                               .blocks_per_entry = settings[s].blocks};
    checks++;
    if (!textbook_compare(book, dims, solve, (void *)on, &order, what)) failures++;
  }
}

static void test_length(const target *on, int32_t n, int family, uint64_t seed, bool measured) {
  int64_t *dims = malloc(((size_t)n + 1) * sizeof *dims);
  textbook book;
  if (dims == NULL) {
    expect(false, "out of memory");
    return;
  }
  textbook_fill(dims, n, family, seed);
  if (textbook_solve(n, dims, &book)) {
    compare(on, &book, dims, family, ALL_SETTINGS, sizeof ALL_SETTINGS / sizeof *ALL_SETTINGS);
    if (measured) compare(on, &book, dims, family, MEASURED, sizeof MEASURED / sizeof *MEASURED);
    textbook_destroy(&book);
  } else {
    expect(false, "out of memory");
  }
  free(dims);
}

static void test_answers(const target *on, bool small) {
  static const int32_t LENGTHS[] = {1, 2, 3, 4, 5, 8, 17, 31, 32, 33, 64, 65, 255, 257, 700, 1024};
  static const int32_t SMALL_LENGTHS[] = {1, 2, 5, 33, 65};
  uint64_t seed = 20110411;
  if (small) {
    for (int t = 0; t < 5; t++) test_length(on, SMALL_LENGTHS[t], t, seed++, t == 2);
    return;
  }
  for (int t = 0; t < (int)(sizeof LENGTHS / sizeof *LENGTHS); t++)
    for (int family = 0; family < TEXTBOOK_FAMILIES; family++)
      /* The longest take a second each: a third of the families. */
      if (LENGTHS[t] <= 257 || (family + t) % 3 == 0)
        test_length(on, LENGTHS[t], family, seed++, true);
}

/* ---- profiles -------------------------------------------------------------------------------- */

static void test_profiles(const target *on, int32_t n) {
  int64_t *dims = malloc(((size_t)n + 1) * sizeof *dims);
  int32_t *splits = malloc((size_t)n * sizeof *splits);
  if (dims == NULL || splits == NULL) {
    expect(false, "out of memory");
  } else {
    textbook_fill(dims, n, 0, 7);
    for (size_t s = 0; s < sizeof MEASURED / sizeof *MEASURED; s++) {
      profile_text text = {NULL, 0, 0, 0, 0};
      mmci_error error = {0};
      mmci_device_order order = {.n = n,
                                 .dims = dims,
                                 .kernel = MEASURED[s].kernel,
                                 .profile = profile_write,
                                 .profile_user = &text,
                                 .splits = splits};
      expect(on->ops->order(on->device, &order, &error) == MMC_OK, error.text);
      expect(profile_is_right(&text, n, order.kernel), "the profile has every diagonal and range");
      if (n >= 64 && s == 3 && text.bytes != NULL)
        for (char *line = strstr(text.bytes, "# range"); line != NULL;
             line = strstr(line + 1, "# range"))
          printf("n = %d: %.*s\n", n, (int)strcspn(line, "\n"), line);
      free(text.bytes);
    }
    profile_text full = {NULL, 0, 0, 0, 1};
    mmci_error error = {0};
    mmci_device_order order = {.n = n,
                               .dims = dims,
                               .kernel = "paper",
                               .profile = profile_write,
                               .profile_user = &full,
                               .splits = splits};
    /* The profile of one factor is empty, and nothing is written. */
    expect(on->ops->order(on->device, &order, &error) == (n > 1 ? MMC_E_IO : MMC_OK),
           "a full disk is E_IO");
    free(full.bytes);
  }
  free(dims);
  free(splits);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static int stop_at_half(void *user, double done) {
  int *calls = user;
  ++*calls;
  return done >= 0.5;
}

static void test_refusals(const target *on) {
  enum { N = 300 };
  static int64_t dims[N + 1];
  static int32_t splits[N];
  mmci_error error = {0};
  textbook_fill(dims, N, 0, 11);
  const mmci_device_order plain = {
      .n = N, .dims = dims, .kernel = "paper", .splits = splits, .table = NULL};
  mmci_device_order order = plain;
  int calls = 0;
  order.progress = stop_at_half;
  order.progress_user = &calls;
  expect(on->ops->order(on->device, &order, &error) == MMC_E_INTERRUPTED && calls > 0,
         "the progress callback stops the work");
  order = plain;
  order.kernel = "wrap";
  expect(on->ops->order(on->device, &order, &error) == MMC_E_ARG &&
             strstr(error.text, "tiled") != NULL,
         "a kernel that is none is E_ARG with the list of kernels");
  order = plain;
  order.threads_per_block = 48;
  expect(on->ops->order(on->device, &order, &error) == MMC_E_ARG, "48 threads are E_ARG");
  order = plain;
  order.kernel = "blocks";
  order.blocks_per_entry = 3;
  expect(on->ops->order(on->device, &order, &error) == MMC_E_ARG, "3 blocks are E_ARG");
  order = plain;
  order.kernel = "thread";
  order.blocks_per_entry = 4;
  expect(on->ops->order(on->device, &order, &error) == MMC_E_ARG,
         "blocks per entry for kernel thread are E_ARG");
  order = plain;
  dims[1] = dims[2] = dims[3] = (int64_t)1 << 21;
  expect(on->ops->order(on->device, &order, &error) == MMC_E_UNSUPPORTED &&
             strstr(error.text, "hu-shing") != NULL,
         "dims whose costs may pass 2^63 are E_UNSUPPORTED with what to use");
  /* Much more than any device has: the dims are read up to n, so they must be there. */
  const int32_t huge = 4000000;
  int64_t *many = calloc((size_t)huge + 1, sizeof *many);
  if (many != NULL) {
    order.n = huge;
    order.dims = many;
    expect(on->ops->order(on->device, &order, &error) == MMC_E_NOMEM &&
               strstr(error.text, "19200") != NULL,
           "too long a chain is E_NOMEM with the bytes needed");
    free(many);
  }
}

static void test_all(const target *on) {
  if (on->race) {
    test_length(on, 33, 0, 1, false);
    return;
  }
  test_answers(on, on->small);
  test_profiles(on, 1);
  test_profiles(on, 2);
  test_profiles(on, on->small ? 20 : 1024);
  test_refusals(on);
}

int main(int argc, char **argv) {
  return gpu_test_main(argc, argv, test_all);
}
