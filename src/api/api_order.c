/* api_order.c: the public calls about the ordering problem by itself, on the CPU's solvers or on a
 * device's. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/monotonic.h"
#include "base/options.h"

struct mmc_order {
  mmc_context *context;
  int64_t *dims; /* n+1 dims */
  mmci_tree tree;
  mmci_range *ranges; /* n-1 products */
  mmci_u128 multiplications;
  double price, seconds;
  const char *solver, *kernel; /* static texts: the names of the solver and its kernel */
  char device[32];
  mmci_order_table *table; /* the solver's table; NULL unless it is kept */
};

/* ---- on a device --------------------------------------------------------------------------- */

/* A table that came from a device, packed by rows. */
typedef struct device_table {
  mmci_order_table table;
  size_t n;
  mmc_count *entries;
} device_table;

static mmci_u128 device_entry(const mmci_order_table *table, int32_t i, int32_t j) {
  const device_table *t = (const device_table *)table;
  size_t row = (size_t)i;
  return mmci_count_value(t->entries[row * (2 * t->n - row + 1) / 2 + (size_t)(j - i - 1)]);
}

static void device_table_destroy(mmci_order_table *table) {
  device_table *t = (device_table *)table;
  free(t->entries);
  free(t);
}

static mmc_status device_table_create(int32_t n, device_table **out, mmci_error *error) {
  size_t count = (size_t)n * ((size_t)n + 1) / 2;
  device_table *t = malloc(sizeof *t);
  mmc_count *entries = mmci_alloc_array(count, sizeof *entries);
  if (t == NULL || entries == NULL) {
    free(t);
    free(entries);
    return mmci_fail_nomem(error, (uint64_t)count * sizeof *entries);
  }
  *t = (device_table){
      .table = {.entry = device_entry, .destroy = device_table_destroy},
      .n = (size_t)n,
      .entries = entries,
  };
  *out = t;
  return MMC_OK;
}

/* Replays splits in the order in which a device has listed them. */
static int32_t next_split(void *user, int32_t i, int32_t j) {
  (void)i, (void)j;
  const int32_t **next = user;
  return *(*next)++;
}

static mmc_status solve_on_device(mmc_context *context, const mmc_order_options *options, int32_t n,
                                  const int64_t *dims, mmci_order_answer *out, double *seconds,
                                  mmci_error *error) {
  mmci_opened on;
  mmc_status status = mmci_context_open_device(context, options->device, &on, error);
  if (status != MMC_OK) return status;
  if (on.ops->order == NULL)
    return mmci_fail_argument(
        error, MMC_E_UNSUPPORTED, "device",
        "expected one that solves the ordering problem, as cpu does, got '%s'", options->device);
  if (options->price != NULL)
    return mmci_fail(error, MMC_E_ARG, "price: only the CPU's table takes one");
  const char *solver = options->solver != NULL ? options->solver : "table";
  if (strcmp(solver, "table") != 0 && strcmp(solver, "auto") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "solver", "expected table on device '%s', got '%s'",
                              options->device, solver);

  mmci_order_answer answer = {0};
  device_table *table = NULL;
  int32_t *splits = mmci_alloc_array((size_t)n - 1, sizeof *splits);
  if (splits == NULL) return mmci_fail_nomem(error, ((uint64_t)n - 1) * sizeof *splits);
  status = mmci_tree_create(n, &answer.tree, error);
  if (status == MMC_OK && options->keep_table) status = device_table_create(n, &table, error);
  if (status == MMC_OK) {
    mmci_device_order order = {
        .n = n,
        .dims = dims,
        .kernel = options->kernel != NULL ? options->kernel : "auto",
        .threads_per_block = options->threads_per_block,
        .blocks_per_entry = options->blocks_per_entry,
        .progress = options->progress,
        .progress_user = options->progress_user,
        .profile = options->profile,
        .profile_user = options->profile_user,
        .splits = splits,
        .table = table != NULL ? table->entries : NULL,
    };
    status = on.ops->order(on.device, &order, error);
    *seconds = order.seconds;
    answer.kernel = order.kernel_used;
    answer.multiplications = mmci_count_value(order.multiplications);
  }
  const int32_t *next = splits;
  if (status == MMC_OK) status = mmci_tree_from_splits(&answer.tree, next_split, &next, error);
  free(splits);
  if (status != MMC_OK) {
    mmci_tree_destroy(&answer.tree);
    if (table != NULL) device_table_destroy(&table->table);
    return status;
  }
  answer.table = table != NULL ? &table->table : NULL;
  *out = answer;
  return MMC_OK;
}

/* ---- on the CPU ---------------------------------------------------------------------------- */

/* Checks that what is for devices alone is not given, and names the solver: a kernel and what is
 * kept are those of the table. */
static mmc_status name_solver(const mmc_order_options *options, const char **name,
                              mmci_error *error) {
  const char *for_devices = options->threads_per_block != 0  ? "threads_per_block"
                            : options->blocks_per_entry != 0 ? "blocks_per_entry"
                            : options->profile != NULL       ? "profile"
                                                             : NULL;
  if (for_devices != NULL)
    return mmci_fail_argument(error, MMC_E_ARG, for_devices, "expected device cuda with it");
  const bool has_kernel = options->kernel != NULL && strcmp(options->kernel, "auto") != 0;
  *name = options->solver != NULL ? options->solver : "auto";
  if ((options->keep_table || has_kernel) && strcmp(*name, "auto") == 0) *name = "table";
  if (has_kernel && strcmp(*name, "table") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "kernel", "expected solver table with it, got '%s'",
                              *name);
  return MMC_OK;
}

static mmc_status solve_on_cpu(const mmc_order_options *options, int32_t n, const int64_t *dims,
                               const char **solver, mmci_order_answer *out, double *seconds,
                               mmci_error *error) {
  mmci_order_problem problem = {
      .n = n,
      .dims = dims,
      .price = options->price,
      .price_user = options->price_user,
      .threads = options->threads,
      .kernel = options->kernel,
      .progress = options->progress,
      .progress_user = options->progress_user,
  };
  const char *name;
  mmc_status status = name_solver(options, &name, error);
  if (status != MMC_OK) return status;
  const mmci_solver *used;
  double start = mmci_now_s();
  status = mmci_order_solve(name, &problem, options->keep_table, &used, out, error);
  *seconds = mmci_now_s() - start;
  if (status == MMC_OK) *solver = used->name;
  return status;
}

/* ---- the public functions ------------------------------------------------------------------ */

static bool is_cpu(const char *device) {
  return device == NULL || strcmp(device, "cpu") == 0;
}

static mmc_status create_order(mmc_context *context, int64_t n, const int64_t *dims,
                               const mmc_order_options *options, mmc_order **out,
                               mmci_error *error) {
  if (out == NULL) return mmci_fail(error, MMC_E_ARG, "out: expected an address, got NULL");
  mmc_order_options read = MMC_ORDER_OPTIONS_INIT;
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status != MMC_OK) return status;
  options = &read;
  if (options->threads < 0)
    return mmci_fail_argument(error, MMC_E_ARG, "threads", "expected 0 or more, got %d",
                              options->threads);
  status = mmci_dims_check(n, dims, error);
  if (status != MMC_OK) return status;

  size_t count = (size_t)n;
  mmc_order *order = mmci_alloc_zeroed(1, sizeof *order);
  if (order == NULL) return mmci_fail_nomem(error, sizeof *order);
  order->context = context;
  order->dims = mmci_alloc_array(count + 1, sizeof *order->dims);
  order->ranges = mmci_alloc_array(count - 1, sizeof *order->ranges);
  if (order->dims == NULL || order->ranges == NULL) {
    mmc_order_destroy(order);
    return mmci_fail_nomem(error, count * (sizeof *order->dims + sizeof *order->ranges));
  }
  memcpy(order->dims, dims, (count + 1) * sizeof *dims);

  mmci_order_answer answer = {0};
  strncpy(order->device, is_cpu(options->device) ? "cpu" : options->device,
          sizeof order->device - 1);
  order->solver = "table";
  if (is_cpu(options->device))
    status = solve_on_cpu(options, (int32_t)n, order->dims, &order->solver, &answer,
                          &order->seconds, error);
  else
    status =
        solve_on_device(context, options, (int32_t)n, order->dims, &answer, &order->seconds, error);
  if (status != MMC_OK) {
    mmc_order_destroy(order);
    return status;
  }
  order->tree = answer.tree;
  order->price = options->price != NULL ? answer.price : (double)answer.multiplications;
  order->kernel = answer.kernel;
  order->table = answer.table;
  mmci_tree_ranges(&order->tree, order->ranges);
  order->multiplications = answer.multiplications;
  if (options->price != NULL)
    status = mmci_tree_multiplications(&order->tree, order->dims, &order->multiplications, error);
  if (status != MMC_OK) {
    mmc_order_destroy(order);
    return status;
  }
  *out = order;
  return MMC_OK;
}

mmc_status mmc_order_create(mmc_context *context, int64_t n, const int64_t *dims,
                            const mmc_order_options *options, mmc_order **out) {
  if (context == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  return mmci_report(context, create_order(context, n, dims, options, out, &error), &error);
}

void mmc_order_destroy(mmc_order *order) {
  if (order == NULL) return;
  mmci_tree_destroy(&order->tree);
  if (order->table != NULL) order->table->destroy(order->table);
  free(order->ranges);
  free(order->dims);
  free(order);
}

int64_t mmc_order_length(const mmc_order *order) {
  return order != NULL ? order->tree.n : 0;
}
mmc_count mmc_order_multiplications(const mmc_order *order) {
  return mmci_count(order != NULL ? order->multiplications : 0);
}
double mmc_order_price(const mmc_order *order) {
  return order != NULL ? order->price : (double)NAN;
}
double mmc_order_seconds(const mmc_order *order) {
  return order != NULL ? order->seconds : (double)NAN;
}
const char *mmc_order_solver(const mmc_order *order) {
  return order != NULL ? order->solver : "";
}
const char *mmc_order_device(const mmc_order *order) {
  return order != NULL ? order->device : "";
}
const char *mmc_order_kernel(const mmc_order *order) {
  return order != NULL ? order->kernel : "";
}

mmc_status mmc_order_product(const mmc_order *order, int64_t t, int64_t *first, int64_t *split,
                             int64_t *last) {
  if (order == NULL) return MMC_E_ARG;
  if (first == NULL || split == NULL || last == NULL)
    return mmci_report_null(order->context, "first, split and last");
  mmci_error error = {0};
  if (t < 0 || t >= order->tree.n - 1)
    return mmci_report(order->context,
                       mmci_fail(&error, MMC_E_ARG, "t: the order has no product %" PRId64, t),
                       &error);
  *first = order->ranges[t].first;
  *split = order->ranges[t].split;
  *last = order->ranges[t].last - 1;
  return MMC_OK;
}

/* Returns the split of the sub-chain (i, j) that attains its entry. */
static int32_t find_split(const mmc_order *order, int32_t i, int32_t j) {
  const mmci_order_table *table = order->table;
  mmci_u128 least = table->entry(table, i, j);
  int32_t best = -1;
  for (int32_t k = i + 1; k < j; k++) {
    mmci_u128 cost =
        mmci_u128_add(mmci_u128_add(table->entry(table, i, k), table->entry(table, k, j)),
                      mmci_multiplications(order->dims[i], order->dims[k], order->dims[j]));
    if (cost == least && (best < 0 || mmci_tie_goes_before(order->dims, i, j, k, best))) best = k;
  }
  return best;
}

mmc_status mmc_order_entry(const mmc_order *order, int64_t i, int64_t j, mmc_count *m, int64_t *s) {
  if (order == NULL) return MMC_E_ARG;
  if (m == NULL || s == NULL) return mmci_report_null(order->context, "m and s");
  mmci_error error = {0};
  if (order->table == NULL)
    return mmci_report(order->context,
                       mmci_fail(&error, MMC_E_UNSUPPORTED,
                                 "solved without a table: use solver table and keep_table"),
                       &error);
  if (i < 1 || j < i || j > order->tree.n)
    return mmci_report(
        order->context,
        mmci_fail(&error, MMC_E_ARG,
                  "i, j: expected 1 <= i <= j <= %" PRId32 ", got %" PRId64 ", %" PRId64,
                  order->tree.n, i, j),
        &error);
  if (i == j) {
    *m = mmci_count(0);
    *s = 0;
    return MMC_OK;
  }
  *m = mmci_count(order->table->entry(order->table, (int32_t)i - 1, (int32_t)j));
  *s = find_split(order, (int32_t)i - 1, (int32_t)j) + 1;
  return MMC_OK;
}

mmc_status mmc_order_write(const mmc_order *order, mmc_order_format format, mmc_write_fn write,
                           void *user) {
  if (order == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status;
  if (write == NULL)
    status = mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL");
  else if (format != MMC_ORDER_TEXT && format != MMC_ORDER_JSON && format != MMC_ORDER_BINARY)
    status = mmci_fail(&error, MMC_E_ARG,
                       "format: expected MMC_ORDER_TEXT, MMC_ORDER_JSON or MMC_ORDER_BINARY");
  else
    status = mmci_tree_write(&order->tree, format, write, user, &error);
  return mmci_report(order->context, status, &error);
}
