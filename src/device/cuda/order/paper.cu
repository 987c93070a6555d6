/* paper.cu: the system of Nishida, Ito and Nakano (2011): tables m and s on the device, one
 * launch a diagonal, and for each diagonal the kernel that measures fastest.
 *
 * A solve has three phases. When several kernels or settings may be used, a sample of diagonals is
 * first timed with each of them (section V's Table I, without the wait), on a table of zeros:
 * the time of a diagonal hardly depends on what stands in it. From that follows which kernel and
 * setting each diagonal gets (Table II). Then the diagonals are computed, and last the splits are
 * read off table s. Kernel "paper" may change both kernel and setting along the diagonals;
 * "thread", "block" and "blocks" keep one setting, that of least estimated time. `seconds` counts
 * the diagonals, not the measuring, as the paper does.
 *
 * With a profile, "paper" computes the table twice: once doing every diagonal with each of the
 * three kernels in its best setting, from which the final choice is made, and once as chosen. The
 * profile is CSV:
 *
 *     l,kernel,seconds                           each kernel on each diagonal (Figure 7a-c),
 *                                                and kernel "paper", the one chosen (7d)
 *     # range,l_first,l_last,kernel              the kernel chosen (Table II)
 *     # setting,l_first,l_last,kernel,threads_per_block,blocks_per_entry
 *                                                the same, with settings; 0 blocks: not applicable
 *     # sweep,kernel,threads_per_block,blocks_per_entry,seconds
 *                                                the whole computation with one setting (Table I),
 *                                                estimated from the sample
 *     # selection,seconds                        what measuring the sample took */
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
}

#include "device/cuda/order/cuda_order.h"
#include "device/cuda/order/paper.cuh"
#include "device/cuda/order/paper_select.h"

/* It is included after the header of the emulation, where that stands in for the runtime. */
#include "device/cuda/cuda_check.h"

/* Leaves the calling function when a step of it fails. */
#define TRY(step)                                        \
  do {                                                   \
    mmc_status status_of_step = (step);                  \
    if (status_of_step != MMC_OK) return status_of_step; \
  } while (0)

/* The host looks again at least after so many intervals between marks, and after so many
 * candidates, which the slowest setting computes in a fraction of a second. */
enum { RING = 256, IN_FLIGHT_MAX = 128 };
static const double CELLS_IN_FLIGHT = 2.7e8;
/* Where nobody asks for the time of a single diagonal, a mark is set after so many launches or
 * candidates. */
enum { LAUNCHES_PER_MARK = 32 };
static const double CELLS_PER_MARK = 1.7e7;
/* Diagonals below this many candidates are timed twice, for the better time. */
static const double CELLS_TIMED_ONCE = 4e6;

/* Marks on the device's time line; an interval lies between two of them. At most RING - 1
 * intervals are open. */
typedef struct timeline {
  cudaEvent_t events[RING];
  int made;
  int64_t marks, read; /* marks set, intervals read, since the time line was cleared */
} timeline;

typedef struct paper_solve {
  mmci_device_order *order;
  const char *kernel;
  mmci_paper_tables tables;
  uint64_t *dims;
  int32_t *stack, *splits;
  bool allowed[MMCI_PAPER_CONFIGS];
  timeline line;
  /* The sample. */
  int32_t sample_l[MMCI_PAPER_SAMPLES_MAX];
  double sample_seconds[MMCI_PAPER_SAMPLES_MAX * MMCI_PAPER_CONFIGS];
  mmci_paper_times times;
  double selection_seconds;
  /* What each diagonal gets: choice[l] for the solve, of_kernel[c][l] for kernel number c of the
   * profile, and its time in seconds[l * kernel_count + c]. */
  uint8_t *choice, *of_kernel[MMCI_PAPER_KERNELS];
  int kernel_count;
  double *kernel_seconds, *seconds;
} paper_solve;

/* ---- the time line --------------------------------------------------------------------------- */

static void clear_timeline(timeline *line) {
  line->marks = line->read = 0;
}

static mmc_status mark(timeline *line, mmci_error *error) {
  int slot = (int)(line->marks % RING);
  if (slot == line->made) {
    MMCI_CUDA_TRY(cudaEventCreate(&line->events[slot]));
    line->made++;
  }
  MMCI_CUDA_TRY(cudaEventRecord(line->events[slot], 0));
  line->marks++;
  return MMC_OK;
}

/* Counts the intervals that a mark has closed and that were not read. */
static int64_t open_intervals(const timeline *line) {
  return line->marks - 1 - line->read;
}

/* Waits for the end of the first open interval and gives its length. */
static mmc_status read_interval(timeline *line, double *seconds, mmci_error *error) {
  cudaEvent_t begin = line->events[line->read % RING];
  cudaEvent_t end = line->events[(line->read + 1) % RING];
  float milliseconds = 0;
  MMCI_CUDA_TRY(cudaEventSynchronize(end));
  MMCI_CUDA_TRY(cudaEventElapsedTime(&milliseconds, begin, end));
  line->read++;
  *seconds = (double)milliseconds * 1e-3;
  return MMC_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static mmc_status take_memory(void **memory, size_t count, size_t size, mmci_error *error) {
  MMCI_CUDA_TRY(cudaMalloc(memory, count * size));
  return MMC_OK;
}

static mmc_status create_tables(paper_solve *solver, mmci_error *error) {
  const mmci_device_order *order = solver->order;
  size_t n = (size_t)order->n, entries = n * n, founds = n * MMCI_PAPER_BLOCKS_MAX;
  uint64_t needed = (uint64_t)entries * (sizeof(uint64_t) + sizeof(int32_t)) +
                    (uint64_t)founds * sizeof(mmci_paper_candidate) +
                    (uint64_t)(n + 1) * (sizeof(uint64_t) + 3 * sizeof(int32_t));
  size_t free_bytes = 0, all_bytes = 0;
  MMCI_CUDA_TRY(cudaMemGetInfo(&free_bytes, &all_bytes));
  if (needed > free_bytes)
    return mmci_fail_argument(error, MMC_E_NOMEM, "kernel",
                              "%s keeps tables m and s whole: n = %d needs %llu bytes, the device "
                              "has %llu free; kernel tiled needs about a third",
                              solver->kernel, order->n, (unsigned long long)needed,
                              (unsigned long long)free_bytes);
  mmci_paper_tables *tables = &solver->tables;
  tables->n = order->n;
  TRY(take_memory((void **)&tables->m, entries, sizeof *tables->m, error));
  TRY(take_memory((void **)&tables->s, entries, sizeof *tables->s, error));
  TRY(take_memory((void **)&tables->found, founds, sizeof *tables->found, error));
  TRY(take_memory((void **)&solver->dims, n + 1, sizeof *solver->dims, error));
  TRY(take_memory((void **)&solver->stack, 2 * n, sizeof *solver->stack, error));
  TRY(take_memory((void **)&solver->splits, n, sizeof *solver->splits, error));
  tables->p = solver->dims;
  /* No dim is negative, so they are the same numbers unsigned. */
  MMCI_CUDA_TRY(cudaMemcpy(solver->dims, order->dims, (n + 1) * sizeof *solver->dims,
                           cudaMemcpyHostToDevice));
  MMCI_CUDA_TRY(cudaMemset(tables->m, 0, entries * sizeof *tables->m));

  bool profile = order->profile != NULL, paper = strcmp(solver->kernel, "paper") == 0;
  size_t rows = n + 1, wanted = rows;
  solver->choice = (uint8_t *)mmci_alloc_zeroed(rows, 1);
  bool have = solver->choice != NULL;
  if (profile) {
    solver->seconds = (double *)mmci_alloc_zeroed(rows, sizeof(double));
    have = have && solver->seconds != NULL;
    wanted += rows * sizeof(double);
  }
  if (profile && paper) {
    solver->kernel_count = MMCI_PAPER_KERNELS;
    solver->kernel_seconds = (double *)mmci_alloc_zeroed(rows * MMCI_PAPER_KERNELS, sizeof(double));
    have = have && solver->kernel_seconds != NULL;
    for (int c = 0; c < MMCI_PAPER_KERNELS; c++) {
      solver->of_kernel[c] = (uint8_t *)mmci_alloc_zeroed(rows, 1);
      have = have && solver->of_kernel[c] != NULL;
    }
    wanted += rows * MMCI_PAPER_KERNELS * (1 + sizeof(double));
  }
  return have ? MMC_OK : mmci_fail_nomem(error, wanted);
}

static void destroy(paper_solve *solver) {
  for (int e = 0; e < solver->line.made; e++) cudaEventDestroy(solver->line.events[e]);
  cudaFree(solver->tables.m);
  cudaFree(solver->tables.s);
  cudaFree(solver->tables.found);
  cudaFree(solver->dims);
  cudaFree(solver->stack);
  cudaFree(solver->splits);
  for (int c = 0; c < MMCI_PAPER_KERNELS; c++) free(solver->of_kernel[c]);
  free(solver->kernel_seconds);
  free(solver->seconds);
  free(solver->choice);
  free(solver);
}

/* ---- passes over the diagonals --------------------------------------------------------------- */

static double cells_of(int32_t n, int32_t l) {
  return (double)(n - l + 1) * (l - 1);
}

static mmc_status poll(const paper_solve *solver, double done, mmci_error *error) {
  const mmci_device_order *order = solver->order;
  if (order->progress == NULL || order->progress(order->progress_user, done) == 0) return MMC_OK;
  return mmci_fail(error, MMC_E_INTERRUPTED, "stopped by the progress callback");
}

/* The share of the work at which a pass begins and ends, and how far it is. */
typedef struct share {
  double begin, end, cells_all, cells_done;
} share;

/* Reads the first open interval, adds it up, notes it in seconds (unless NULL), and polls. */
static mmc_status settle_interval(paper_solve *solver, const double *cells, share *done,
                                  double *seconds, double *total, mmci_error *error) {
  int64_t interval = solver->line.read;
  double length;
  TRY(read_interval(&solver->line, &length, error));
  *total += length;
  if (seconds != NULL) seconds[interval] = length;
  done->cells_done += cells[interval % RING];
  return poll(solver, done->begin + (done->end - done->begin) * done->cells_done / done->cells_all,
              error);
}

/* Computes the table: diagonal l with the configs chosen[0][l] ... chosen[count-1][l], one after
 * the other. seconds, unless it is NULL, gets the time of each at [l * count + c]; total gets that
 * of all. */
static mmc_status compute_table(paper_solve *solver, uint8_t *const *chosen, int count,
                                double begin, double end, double *seconds, double *total,
                                mmci_error *error) {
  timeline *line = &solver->line;
  int32_t n = solver->tables.n;
  share done = {begin, end, count * ((double)n * n * n - n) / 6, 0};
  double cells[RING]; /* cells of each open interval */
  double cells_open = 0, cells_since = 0;
  int launches_since = 0;
  /* Interval 0 is the first config of diagonal 2. */
  double *first = seconds == NULL ? NULL : seconds + (size_t)2 * count;
  *total = 0;
  clear_timeline(line);
  MMCI_CUDA_TRY(mmci_paper_start(&solver->tables));
  TRY(mark(line, error));
  for (int32_t l = 2; l <= n; l++)
    for (int c = 0; c < count; c++) {
      MMCI_CUDA_TRY(mmci_paper_diagonal(&solver->tables, l, &mmci_paper_configs[chosen[c][l]]));
      cells_since += cells_of(n, l);
      launches_since++;
      bool last = l == n && c == count - 1;
      if (!last && seconds == NULL && launches_since < LAUNCHES_PER_MARK &&
          cells_since < CELLS_PER_MARK)
        continue;
      cells[(line->marks - 1) % RING] = cells_since;
      cells_open += cells_since;
      cells_since = 0;
      launches_since = 0;
      TRY(mark(line, error));
      while (open_intervals(line) > 0 &&
             (last || open_intervals(line) > IN_FLIGHT_MAX || cells_open > CELLS_IN_FLIGHT)) {
        cells_open -= cells[line->read % RING];
        TRY(settle_interval(solver, cells, &done, first, total, error));
      }
    }
  return MMC_OK;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* Times diagonal sample_l[s] with every allowed config. */
static mmc_status time_sample(paper_solve *solver, int32_t s, double *sum, mmci_error *error) {
  int32_t n = solver->tables.n, l = solver->sample_l[s];
  double *best = &solver->sample_seconds[(size_t)s * MMCI_PAPER_CONFIGS];
  int rounds = cells_of(n, l) < CELLS_TIMED_ONCE ? 2 : 1;
  for (int round = 0; round < rounds; round++) {
    clear_timeline(&solver->line);
    TRY(mark(&solver->line, error));
    for (int w = 0; w < MMCI_PAPER_CONFIGS; w++) {
      if (!solver->allowed[w]) continue;
      MMCI_CUDA_TRY(mmci_paper_diagonal(&solver->tables, l, &mmci_paper_configs[w]));
      TRY(mark(&solver->line, error));
    }
    for (int w = 0; w < MMCI_PAPER_CONFIGS; w++) {
      if (!solver->allowed[w]) continue;
      double seconds;
      TRY(read_interval(&solver->line, &seconds, error));
      *sum += seconds;
      if (round == 0 || seconds < best[w]) best[w] = seconds;
    }
    TRY(poll(solver, 0, error));
  }
  return MMC_OK;
}

static mmc_status measure_samples(paper_solve *solver, mmci_error *error) {
  mmci_paper_times *times = &solver->times;
  times->configs = MMCI_PAPER_CONFIGS;
  times->l = solver->sample_l;
  times->seconds = solver->sample_seconds;
  int32_t count = mmci_paper_samples(solver->tables.n, solver->sample_l);
  if (count == 0) return MMC_OK;
  /* The first launch of a kernel loads it. */
  MMCI_CUDA_TRY(mmci_paper_start(&solver->tables));
  TRY(time_sample(solver, 0, &solver->selection_seconds, error));
  for (int32_t s = 0; s < count; s++)
    TRY(time_sample(solver, s, &solver->selection_seconds, error));
  times->count = count;
  return MMC_OK;
}

/* Gives every diagonal the config that computes them all fastest. */
static void choose_one(paper_solve *solver) {
  int best = -1;
  double least = 0;
  for (int w = 0; w < MMCI_PAPER_CONFIGS; w++) {
    if (!solver->allowed[w]) continue;
    double total = mmci_paper_total(&solver->times, solver->tables.n, w);
    if (best >= 0 && !(total < least)) continue;
    best = w;
    least = total;
  }
  memset(solver->choice, best, (size_t)solver->tables.n + 1);
}

/* Computes the table with all three kernels, each in its best settings, and chooses among them. */
static mmc_status choose_by_profile(paper_solve *solver, mmci_error *error) {
  int32_t n = solver->tables.n;
  for (int c = 0; c < solver->kernel_count; c++) {
    bool allowed[MMCI_PAPER_CONFIGS];
    for (int w = 0; w < MMCI_PAPER_CONFIGS; w++)
      allowed[w] = solver->allowed[w] && mmci_paper_configs[w].kernel == (mmci_paper_kernel)c;
    TRY(mmci_paper_choose(&solver->times, n, allowed, solver->of_kernel[c], error));
  }
  double total;
  TRY(compute_table(solver, solver->of_kernel, solver->kernel_count, 0, 0.75,
                    solver->kernel_seconds, &total, error));
  /* Every diagonal is a sample. */
  int32_t *l = (int32_t *)mmci_alloc_array((size_t)n, sizeof *l);
  if (l == NULL) return mmci_fail_nomem(error, (uint64_t)n * sizeof *l);
  for (int32_t s = 0; s < n - 1; s++) l[s] = s + 2;
  mmci_paper_times times = {n - 1, solver->kernel_count, l,
                            solver->kernel_seconds + (size_t)2 * solver->kernel_count};
  const bool all[MMCI_PAPER_KERNELS] = {true, true, true};
  mmc_status status = mmci_paper_choose(&times, n, all, solver->choice, error);
  free(l);
  for (int32_t d = 0; d <= n; d++) solver->choice[d] = solver->of_kernel[solver->choice[d]][d];
  return status;
}

/* ---- the profile ----------------------------------------------------------------------------- */

static const char *const KERNEL_NAMES[MMCI_PAPER_KERNELS] = {"thread", "block", "blocks"};

/* Writes seconds with a decimal point whatever the locale is. */
static void write_seconds(mmci_text *text, double seconds) {
  long long nanoseconds = (long long)(seconds * 1e9 + 0.5);
  mmci_text_printf(text, "%lld.%09lld\n", nanoseconds / 1000000000, nanoseconds % 1000000000);
}

static void write_diagonals(const paper_solve *solver, mmci_text *text) {
  for (int32_t l = 2; l <= solver->tables.n; l++) {
    for (int c = 0; c < solver->kernel_count; c++) {
      mmci_text_printf(text, "%d,%s,", l, KERNEL_NAMES[c]);
      write_seconds(text, solver->kernel_seconds[(size_t)l * solver->kernel_count + c]);
    }
    mmci_text_printf(text, "%d,%s,", l, solver->kernel);
    write_seconds(text, solver->seconds[l]);
  }
}

/* Writes the ranges of equal kernel or, with settings, of equal config. */
static void write_ranges(const paper_solve *solver, bool settings, mmci_text *text) {
  int32_t n = solver->tables.n;
  for (int32_t first = 2, last; first <= n; first = last + 1) {
    const mmci_paper_config *config = &mmci_paper_configs[solver->choice[first]];
    for (last = first; last < n; last++) {
      const mmci_paper_config *next = &mmci_paper_configs[solver->choice[last + 1]];
      if (settings ? next != config : next->kernel != config->kernel) break;
    }
    mmci_text_printf(text, "# %s,%d,%d,%s", settings ? "setting" : "range", first, last,
                     KERNEL_NAMES[config->kernel]);
    if (settings) mmci_text_printf(text, ",%d,%d", config->threads, config->blocks);
    mmci_text_printf(text, "\n");
  }
}

static mmc_status write_profile(const paper_solve *solver, mmci_error *error) {
  mmci_text text;
  mmci_text_start(&text, solver->order->profile, solver->order->profile_user);
  write_diagonals(solver, &text);
  write_ranges(solver, false, &text);
  write_ranges(solver, true, &text);
  for (int w = 0; w < MMCI_PAPER_CONFIGS && solver->times.count > 0; w++) {
    if (!solver->allowed[w]) continue;
    const mmci_paper_config *config = &mmci_paper_configs[w];
    mmci_text_printf(&text, "# sweep,%s,%d,%d,", KERNEL_NAMES[config->kernel], config->threads,
                     config->blocks);
    write_seconds(&text, mmci_paper_total(&solver->times, solver->tables.n, w));
  }
  if (solver->times.count > 0) {
    mmci_text_printf(&text, "# selection,");
    write_seconds(&text, solver->selection_seconds);
  }
  return mmci_text_finish(&text, error);
}

/* ---- answers --------------------------------------------------------------------------------- */

static mmc_status answer_order(paper_solve *solver, mmci_error *error) {
  mmci_device_order *order = solver->order;
  const mmci_paper_tables *tables = &solver->tables;
  size_t n = (size_t)order->n;
  uint64_t cost = 0;
  if (n > 1) {
    MMCI_CUDA_TRY(mmci_paper_trace(tables, solver->stack, solver->splits));
    MMCI_CUDA_TRY(cudaMemcpy(order->splits, solver->splits, (n - 1) * sizeof *order->splits,
                             cudaMemcpyDeviceToHost));
    MMCI_CUDA_TRY(cudaMemcpy(&cost, tables->m + (n - 1) * n, sizeof cost, cudaMemcpyDeviceToHost));
  }
  order->multiplications.lo = cost;
  order->multiplications.hi = 0;
  return MMC_OK;
}

/* Copies table m, some diagonals at a time, into rows by i. */
static mmc_status answer_table(paper_solve *solver, mmci_error *error) {
  mmci_device_order *order = solver->order;
  const size_t n = (size_t)order->n, strip = n < 64 ? n : 64;
  uint64_t *rows = (uint64_t *)mmci_alloc_array(strip * n, sizeof *rows);
  if (rows == NULL) return mmci_fail_nomem(error, strip * n * sizeof *rows);
  mmc_status status = MMC_OK;
  for (size_t begin = 0; begin < n && status == MMC_OK; begin += strip) {
    /* Row r of the device's table is diagonal r + 1: entries (i, i + r + 1), i < n - r. */
    size_t end = begin + strip < n ? begin + strip : n;
    status = mmci_cuda_check(cudaMemcpy(rows, solver->tables.m + begin * n,
                                        (end - begin) * n * sizeof *rows, cudaMemcpyDeviceToHost),
                             "copying table m", error);
    for (size_t i = 0; i < n - begin && status == MMC_OK; i++) {
      mmc_count *entries = order->table + (i * n - i * (i - 1) / 2);
      for (size_t r = begin; r < end && r < n - i; r++) {
        entries[r].lo = rows[(r - begin) * n + i];
        entries[r].hi = 0;
      }
    }
    if (status == MMC_OK) status = poll(solver, 1, error);
  }
  free(rows);
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static mmc_status solve_paper(paper_solve *solver, mmci_error *error) {
  mmci_device_order *order = solver->order;
  bool paper = strcmp(solver->kernel, "paper") == 0;
  TRY(create_tables(solver, error));
  int configs = 0;
  for (int w = 0; w < MMCI_PAPER_CONFIGS; w++) configs += solver->allowed[w];
  solver->times.configs = MMCI_PAPER_CONFIGS;
  if (configs > 1) TRY(measure_samples(solver, error));
  if (!paper)
    choose_one(solver);
  else if (solver->kernel_count > 0)
    TRY(choose_by_profile(solver, error));
  else
    TRY(mmci_paper_choose(&solver->times, order->n, solver->allowed, solver->choice, error));
  TRY(compute_table(solver, &solver->choice, 1, solver->kernel_count > 0 ? 0.75 : 0, 1,
                    solver->seconds, &order->seconds, error));
  TRY(answer_order(solver, error));
  if (order->table != NULL) TRY(answer_table(solver, error));
  if (order->profile != NULL) TRY(write_profile(solver, error));
  order->kernel_used = paper ? "paper" : mmci_paper_configs[solver->choice[order->n]].text;
  return MMC_OK;
}

/* Says whether costs fit: every product multiplies three different dims, so n - 1 times the product
 * of the three greatest bounds every cost. */
static bool costs_fit(const mmci_device_order *order) {
  uint64_t top[3] = {1, 1, 1};
  for (int32_t t = 0; t <= order->n; t++) {
    uint64_t dim = (uint64_t)order->dims[t];
    for (int place = 0; place < 3; place++)
      if (dim > top[place]) {
        uint64_t less = top[place];
        top[place] = dim;
        dim = less;
      }
  }
  uint64_t bound = top[0];
  return !__builtin_mul_overflow(bound, top[1], &bound) &&
         !__builtin_mul_overflow(bound, top[2], &bound) &&
         !__builtin_mul_overflow(bound, (uint64_t)(order->n > 1 ? order->n - 1 : 1), &bound) &&
         bound < (uint64_t)1 << 63;
}

/* Marks the configs that the kernel and the settings allow; E_ARG when they make no sense. */
static mmc_status allow(paper_solve *solver, mmci_error *error) {
  const mmci_device_order *order = solver->order;
  int kernel = -1, threads = order->threads_per_block, blocks = order->blocks_per_entry;
  for (int k = 0; k < MMCI_PAPER_KERNELS; k++)
    if (strcmp(solver->kernel, KERNEL_NAMES[k]) == 0) kernel = k;
  if (kernel < 0 && strcmp(solver->kernel, "paper") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "kernel",
                              "expected thread, block, blocks or paper, got '%s'", solver->kernel);
  if (threads != 0 && threads != 32 && threads != 64 && threads != 128 && threads != 256)
    return mmci_fail_argument(error, MMC_E_ARG, "threads_per_block",
                              "expected 32, 64, 128 or 256, got %d", threads);
  if (blocks != 0 && blocks != 2 && blocks != 4 && blocks != 8 && blocks != 16)
    return mmci_fail_argument(error, MMC_E_ARG, "blocks_per_entry",
                              "expected 2, 4, 8 or 16, got %d", blocks);
  if (blocks != 0 && (kernel == MMCI_PAPER_THREAD || kernel == MMCI_PAPER_BLOCK))
    return mmci_fail_argument(error, MMC_E_ARG, "blocks_per_entry",
                              "expected kernel blocks or paper with it, got '%s'", solver->kernel);
  for (int w = 0; w < MMCI_PAPER_CONFIGS; w++) {
    const mmci_paper_config *config = &mmci_paper_configs[w];
    solver->allowed[w] = (kernel < 0 || config->kernel == (mmci_paper_kernel)kernel) &&
                         (threads == 0 || config->threads == threads) &&
                         (blocks == 0 || config->blocks == 0 || config->blocks == blocks);
  }
  return MMC_OK;
}

extern "C" mmc_status mmci_cuda_order_paper(mmci_device_order *order, mmci_error *error) {
  if (!costs_fit(order))
    return mmci_fail_argument(
        error, MMC_E_UNSUPPORTED, "kernel",
        "%s counts in 64 bits and these dims may need more; kernel tiled, the "
        "CPU's table and solver hu-shing count further",
        order->kernel);
  paper_solve *state = (paper_solve *)mmci_alloc_zeroed(1, sizeof *state);
  if (state == NULL) return mmci_fail_nomem(error, sizeof *state);
  state->order = order;
  state->kernel = order->kernel;
  mmc_status status = allow(state, error);
  if (status == MMC_OK) status = solve_paper(state, error);
  destroy(state);
  return status;
}
