/* test_cards.c: chains that several cards multiply together, on fake ones that find fault with
 * products that read another card's memory, and with copies that nobody waits for.
 *
 *     run_cards [MODULE [same]]
 *
 * With mmchain-cuda.so, on the cards of this machine, or on the first as if it were three; exit
 * status 77: there are not as many. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "../random.h"
#include "problem.h"
#include "ranks/algorithms.h"
#include "ranks/cards.h"
#include "run/matrices.h"

static const uint64_t first_seed = 88100;

enum { CARDS = 5, STEPS_MAX = FACTORS_MAX - 1 };

/* The cards of this machine; without ops they are fake. */
static struct {
  const mmci_device_ops *ops;
  mmci_device *devices[CARDS];
  mmci_queue *queues[CARDS];
  int count;
} real;

/* Cards of one machine, a plan, and its matrices on the host. */
typedef struct bench {
  uint64_t seed, random;
  int32_t count;
  mmci_cards cards;
  mmci_plan plan;
  matrices *m;
  mmci_step_site sites[STEPS_MAX];
  mmci_given given[FACTORS_MAX + 1];
  mmc_matrix pieces[FACTORS_MAX + 1][CARDS];
  void *rooms[FACTORS_MAX + 1][CARDS];
} bench;

static mmci_layout random_layout(uint64_t *random, int32_t ranks, bool may_be_whole) {
  mmci_layout layouts[MMCI_LAYOUTS];
  const int count = mmci_layouts(ranks, layouts);
  for (;;) {
    const mmci_layout x = layouts[random_below(random, count)];
    if (may_be_whole || x.kind != MMCI_WHOLE) return x;
  }
}

static mmci_site random_site(bench *b, bool may_be_whole) {
  const int32_t ranks = 1 + (int32_t)random_below(&b->random, b->count);
  const int32_t first = (int32_t)random_below(&b->random, b->count - ranks + 1);
  return (mmci_site){random_layout(&b->random, ranks, may_be_whole), first};
}

static void open_cards(bench *b, uint64_t memory_bytes) {
  mmci_error error;
  const fake_options options = {.seed = b->seed, .queues = 2, .memory_bytes = memory_bytes};
  b->cards = (mmci_cards){.count = b->count,
                          .one_thread = real.ops == NULL,
                          .parts_bytes = random_below(&b->random, 2) == 0 ? 100 : 0};
  for (int32_t r = 0; r < b->count; r++) {
    if (real.ops != NULL) {
      b->cards.opened[r] =
          (mmci_opened){.ops = real.ops, .device = real.devices[r], .name = "cuda"};
      continue;
    }
    mmci_device *card =
        r == 0 ? fake_open(&options) : fake_open_beside(b->cards.opened[0].device, &options);
    b->cards.opened[r] = (mmci_opened){.ops = fake_ops(card), .device = card, .name = "fake"};
  }
  assert_int_equal(mmci_cards_join(&b->cards, &error), MMC_OK);
}

static void open_bench(bench *b, uint64_t seed, int32_t n, int64_t most) {
  *b = (bench){.seed = seed, .random = seed};
  int64_t dims[FACTORS_MAX + 1];
  b->count = 1 + (int32_t)random_below(&b->random, real.ops != NULL ? real.count : CARDS);
  open_cards(b, 0);
  do {
    random_shape(&b->random, n, most, dims);
    b->plan = random_plan(&b->random, random_dtype(&b->random), n, dims);
    if (has_elements(&b->plan)) break;
    mmci_plan_destroy(&b->plan);
  } while (true);
  b->m = matrices_create(&b->plan, b->cards.opened[0].device, ON_HOST, &b->random, seed);
  for (int32_t s = 0; s < b->plan.step_count; s++) {
    b->sites[s] = (mmci_step_site){random_site(b, true), false};
    b->sites[s].inner =
        b->sites[s].result.layout.kind != MMCI_WHOLE && random_below(&b->random, 3) == 0;
  }
  for (int32_t i = 0; i <= n; i++)
    b->given[i] = (mmci_given){.on_host = true, .matrix = i < n ? &b->m->factors[i] : &b->m->out};
}

static void *alloc_on(const bench *b, int32_t r, size_t bytes) {
  void *memory;
  mmci_error error;
  if (real.ops == NULL) return fake_alloc(b->cards.opened[r].device, bytes);
  assert_int_equal(real.ops->alloc(real.devices[r], bytes, &memory, &error), MMC_OK);
  return memory;
}

static void free_on(const bench *b, int32_t r, void *memory) {
  if (real.ops == NULL)
    fake_free(b->cards.opened[r].device, memory);
  else
    real.ops->dealloc(real.devices[r], memory);
}

/* Copies a card's memory to the host, or from there. */
static void transfer(int32_t r, void *memory, char *host, size_t bytes, bool in) {
  const mmci_transfer t = {.to = in ? memory : host,
                           .from = in ? host : memory,
                           .lines = 1,
                           .line_bytes = (int64_t)bytes};
  const mmci_device_async *async = real.ops->async;
  mmci_error error;
  assert_int_equal((in ? async->upload : async->download)(real.queues[r], &t, &error), MMC_OK);
  assert_int_equal(real.ops->sync(real.queues[r], &error), MMC_OK);
}

/* Closes the cards, the first last, and fails where one has found a fault. */
static void close_bench(bench *b) {
  char fault[512] = "";
  matrices_destroy(b->m);
  for (int32_t i = 0; i <= b->plan.chain->n; i++)
    for (int32_t r = 0; r < b->count; r++)
      if (b->rooms[i][r] != NULL) free_on(b, r, b->rooms[i][r]);
  mmci_plan_destroy(&b->plan);
  if (real.ops != NULL) return;
  for (int32_t r = b->count - 1; r >= 0; r--) {
    const char *found = fake_close(b->cards.opened[r].device);
    if (fault[0] == '\0') strncpy(fault, found, sizeof fault - 1);
  }
  expect_no_fault(fault, b->seed);
}

static int64_t words_from_others(const bench *b) {
  int64_t words = 0;
  for (int32_t r = 0; r < b->count && real.ops == NULL; r++)
    words += fake_count(b->cards.opened[r].device).words_from_others;
  return words;
}

/* Where every step is computed, and where factors are, is random. */
static mmci_cards_run *create_run(const bench *b, bool fixed) {
  mmci_cards_run *run;
  mmci_error error;
  mmc_status status = mmci_cards_run_create(&b->cards, &b->plan, MMCI_NATIVE, UINT64_MAX,
                                            fixed ? b->sites : NULL, &run, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
  return run;
}

static bool execute(bench *b, mmci_cards_run *run) {
  mmci_error error;
  bool alone;
  const mmc_status status =
      mmci_cards_run_execute(run, b->given, &b->given[b->plan.chain->n], &alone, &error);
  if (status != MMC_OK) fail_msg("seed %llu: %s", (unsigned long long)b->seed, error.text);
  return !alone;
}

/* ---- matrices in pieces ---------------------------------------------------------------------- */

/* Copies a piece between the matrix on the host and its room on a card. */
static void copy_piece(const bench *b, int32_t i, int32_t r, const mmci_piece *stored, bool in) {
  const mmc_matrix *whole = i < b->plan.chain->n ? &b->m->factors[i] : &b->m->out;
  const mmc_matrix *piece = &b->pieces[i][r];
  const size_t size = mmc_dtype_size(b->plan.chain->dtype);
  const size_t bytes = (size_t)(mmci_matrix_lines(piece) * mmci_matrix_ld(piece)) * size;
  char *copy = malloc(bytes + 1), *room = copy;
  assert_non_null(copy);
  if (real.ops == NULL)
    room = fake_bytes(b->cards.opened[r].device, piece->data, bytes);
  else
    transfer(r, piece->data, copy, bytes, false);
  for (int64_t y = 0; y < stored->rows; y++)
    for (int64_t x = 0; x < stored->cols; x++) {
      const int64_t row = stored->row + y, col = stored->col + x;
      const int64_t ld = mmci_matrix_ld(whole), piece_ld = mmci_matrix_ld(piece);
      char *on_host =
          (char *)whole->data +
          (size_t)(whole->layout == MMC_ROW_MAJOR ? row * ld + col : col * ld + row) * size;
      char *on_card =
          room +
          (size_t)(piece->layout == MMC_ROW_MAJOR ? y * piece_ld + x : x * piece_ld + y) * size;
      memcpy(in ? on_card : on_host, in ? on_host : on_card, size);
    }
  if (real.ops != NULL && in) transfer(r, piece->data, copy, bytes, true);
  free(copy);
}

static mmci_piece stored_piece(const bench *b, int32_t i, int32_t r) {
  const mmc_chain *chain = b->plan.chain;
  const bool is_out = i == chain->n, turned = !is_out && chain->ops[i] != MMC_OP_N;
  const mmci_piece p = mmci_site_piece(&b->given[i].site, chain->dims[is_out ? 0 : i],
                                       chain->dims[is_out ? chain->n : i + 1], r);
  return turned ? (mmci_piece){p.col, p.row, p.cols, p.rows} : p;
}

/* Puts a factor, or the result, in pieces on the cards. */
static void put_pieces(bench *b, int32_t i) {
  b->given[i] = (mmci_given){.site = random_site(b, i < b->plan.chain->n), .pieces = b->pieces[i]};
  for (int32_t r = 0; r < b->count; r++) {
    const mmci_piece stored = stored_piece(b, i, r);
    mmc_matrix *piece = &b->pieces[i][r];
    *piece = (mmc_matrix){.rows = stored.rows,
                          .cols = stored.cols,
                          .layout = (mmc_layout)random_below(&b->random, 2),
                          .location = MMC_DEVICE};
    if (stored.rows == 0 || stored.cols == 0) continue;
    piece->ld = mmci_matrix_line_length(piece) + random_below(&b->random, 3);
    const size_t bytes =
        (size_t)(mmci_matrix_lines(piece) * piece->ld) * mmc_dtype_size(b->plan.chain->dtype);
    piece->data = b->rooms[i][r] = alloc_on(b, r, bytes);
    if (i < b->plan.chain->n) copy_piece(b, i, r, &stored, true);
  }
}

static void get_result(const bench *b) {
  const int32_t n = b->plan.chain->n;
  for (int32_t r = 0; r < b->count && !b->given[n].on_host; r++) {
    const mmci_piece stored = stored_piece(b, n, r);
    if (stored.rows > 0 && stored.cols > 0) copy_piece(b, n, r, &stored, false);
  }
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Random sites for every step, with matrices on the host and in pieces on the cards. */
static void test_any_sites(void **state) {
  (void)state;
  for (uint64_t seed = first_seed; seed < first_seed + 400; seed++) {
    bench b;
    open_bench(&b, seed, 2 + (int32_t)(seed % 6),
               1 + (int64_t)(seed % 23) * (real.ops != NULL && seed % 4 == 0 ? 5 : 1));
    for (int32_t i = 0; i <= b.plan.chain->n; i++)
      if (random_below(&b.random, 2) == 0) put_pieces(&b, i);
    for (int32_t i = 0; i < b.plan.chain->n; i++)
      if (b.given[i].on_host) b.given[i].site = random_site(&b, true);
    mmci_cards_run *run = create_run(&b, true);
    mmci_cards_plan plan;
    mmci_error error;
    assert_int_equal(mmci_cards_plan_for(&b.cards, &b.plan, MMCI_NATIVE, UINT64_MAX, false, b.given,
                                         &b.given[b.plan.chain->n], b.sites, &plan, &error),
                     MMC_OK);
    for (int turn = 0; turn < 2; turn++) {
      const int64_t before = words_from_others(&b);
      matrices_poison(b.m);
      const bool several = execute(&b, run);
      assert_int_equal(several, b.count > 1);
      if (!several) break;
      if (real.ops == NULL &&
          words_from_others(&b) - before != (int64_t)mmci_cards_program_words(&plan.program))
        fail_msg("seed %llu: %lld words, and %lld were planned", (unsigned long long)seed,
                 (long long)(words_from_others(&b) - before),
                 (long long)mmci_cards_program_words(&plan.program));
      get_result(&b);
      matrices_check(b.m);
    }
    mmci_cards_plan_destroy(&plan);
    mmci_cards_run_destroy(run);
    close_bench(&b);
  }
}

/* What is chosen, for matrices in pieces. */
static void test_chosen_sites(void **state) {
  (void)state;
  for (uint64_t seed = first_seed + 1000; seed < first_seed + 1150; seed++) {
    bench b;
    open_bench(&b, seed, 2 + (int32_t)(seed % 5), 1 + (int64_t)(seed % 31));
    for (int32_t i = 0; i <= b.plan.chain->n; i++) put_pieces(&b, i);
    mmci_cards_run *run = create_run(&b, false);
    matrices_poison(b.m);
    if (execute(&b, run)) {
      get_result(&b);
      matrices_check(b.m);
    }
    mmci_cards_run_destroy(run);
    close_bench(&b);
  }
}

/* A call that fails at any time ends the execution, and the next is right. */
static void test_failures(void **state) {
  (void)state;
  for (uint64_t seed = first_seed + 2000; seed < first_seed + 2200; seed++) {
    bench b;
    open_bench(&b, seed, 2 + (int32_t)(seed % 4), 12);
    for (int32_t i = 0; i <= b.plan.chain->n; i++)
      if (random_below(&b.random, 2) == 0) put_pieces(&b, i);
    mmci_cards_run *run = create_run(&b, true);
    mmci_error error;
    bool alone = false;
    mmci_device *victim = b.cards.opened[random_below(&b.random, b.count)].device;
    fake_fail_at(victim, 1 + random_below(&b.random, 60), false, random_below(&b.random, 2) == 0);
    const mmc_status status =
        mmci_cards_run_execute(run, b.given, &b.given[b.plan.chain->n], &alone, &error);
    if (fake_has_failed(victim) && !alone && status == MMC_OK)
      fail_msg("seed %llu: a failure went by", (unsigned long long)seed);
    fake_fail_at(victim, 0, false, false);
    matrices_poison(b.m);
    if (execute(&b, run)) {
      get_result(&b);
      matrices_check(b.m);
    }
    mmci_cards_run_destroy(run);
    close_bench(&b);
  }
}

/* The words of one product, by the formulas of algorithms.h. */
static void test_words(void **state) {
  (void)state;
  const int64_t dims[] = {60, 40, 100};
  uint64_t random = first_seed;
  mmci_error error;
  mmci_plan plan = random_plan(&random, MMC_F32, 2, dims);
  for (int32_t ranks = 2; ranks <= 5; ranks++) {
    const mmci_layout rows = mmci_layout_rows(ranks), cols = mmci_layout_cols(ranks);
    const struct {
      mmci_layout result, left, right;
      bool inner;
      int64_t words;
    } cases[] = {{rows, rows, cols, false, (ranks - 1) * 40 * 100},
                 {rows, rows, rows, false, (ranks - 1) * 40 * 100},
                 {cols, rows, cols, false, (ranks - 1) * 60 * 40},
                 {rows, cols, rows, true, (ranks - 1) * 60 * 100},
                 {cols, cols, rows, true, (ranks - 1) * 60 * 100}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
      const mmci_step_site site = {{cases[c].result, 0}, cases[c].inner};
      const mmci_given factors[] = {{.site = {cases[c].left, 0}}, {.site = {cases[c].right, 0}}};
      const mmci_given out = {.site = {cases[c].result, 0}};
      mmci_cards_program program;
      assert_int_equal(mmci_cards_program_create(&plan, MMCI_NATIVE, ranks, UINT64_MAX, &site,
                                                 factors, &out, &program, &error),
                       MMC_OK);
      assert_int_equal((int64_t)mmci_cards_program_words(&program), cases[c].words);
      mmci_cards_program_destroy(&program);
    }
  }
  mmci_plan_destroy(&plan);
}

static bool open_real(const char *path, bool same) {
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (module == NULL) return false;
  mmci_module_entry_fn entry;
  *(void **)&entry = dlsym(module, "mmci_module_entry");
  mmci_error error;
  if (entry == NULL) return false;
  real.ops = entry();
  if (real.ops->abi != MMCI_DEVICE_ABI) return false;
  if (real.ops->probe(&real.count, &error) != MMC_OK) return false;
  if (same && real.count > 0) real.count = 3;
  if (real.count > CARDS) real.count = CARDS;
  for (int r = 0; r < real.count && real.count > 1; r++)
    if (real.ops->open(same ? 0 : r, &real.devices[r], &error) != MMC_OK ||
        real.ops->queue_open(real.devices[r], &real.queues[r], &error) != MMC_OK)
      return false;
  return true;
}

int main(int argc, char **argv) {
  if (argc > 1) {
    if (!open_real(argv[1], argc > 2)) return 1;
    if (real.count < 2) return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_sites),
        cmocka_unit_test(test_chosen_sites),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_any_sites),
      cmocka_unit_test(test_chosen_sites),
      cmocka_unit_test(test_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
