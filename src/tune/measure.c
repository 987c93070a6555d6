#include "tune/measure.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/monotonic.h"
#include "base/random.h"
#include "device/padding.h"

enum {
  NORMALS = 65537, /* numbers in the block that operands are copies of; odd, so that lines differ */
  MOST_QUEUES = 8,
  MOST_SETS = 64, /* sets of operands that take turns at most */
  MOST_RUNS = 1 << 20,
  GRAPH_RUNS = 64, /* runs in one graph at most */
  SET_ALIGNMENT = 256,
  PLACES = 1024,     /* places of an operand on the host, a cache line apart */
  MOST_COMPARED = 2, /* tasks that are compared in turns at most */
  MOST_TIMED = 32,   /* samples that are launched without waiting in between */
  FEW_SAMPLES = 3,   /* samples that are enough when they agree */
  FEW_TURNS = 5,     /* turns after which a recipe may be given up */
  SURE_TURNS = 11,   /* turns after which the bounds of a gain may be near enough */
  PAD = 8            /* the multiple of elements that tensor cores want of 16-bit numbers */
};

/* Memory of the device, filled with normal numbers of a dtype. */
typedef struct buffer {
  char *data;
  size_t size_bytes;
} buffer;

enum { A, B, C, OPERANDS };

/* Samples that differ by a smaller share agree, and a gain whose bounds are nearer is known. */
static const double agreement = 0.01;
/* On a GPU, where a launch takes 2 us, a smaller gain could come from another place of the
 * operands. */
static const double least_gain_s = 5e-8;
/* This is more than the largest cache of a GPU. */
static const uint64_t beyond_caches_bytes = UINT64_C(128) << 20;
/* Samples of times, of which there are many, are shorter by this factor on the device's clock. */
static const double shorter = 0.5;
/* A run on the host that takes less is preceded by one that is not timed. */
static const double short_s = 1e-3;
/* The risk that a recipe is given up although it is worth it. */
static const double risk_of_loss = 0.1;

struct mmci_bench {
  const mmci_device_ops *ops;
  mmci_device *device;
  mmci_measure_options options;
  int queue_count;
  mmci_queue *queues[MOST_QUEUES];
  /* The first event is where queues fork; each other one is how far its queue has come. */
  mmci_event *events[MOST_QUEUES];
  mmci_event *timers[MOST_TIMED + 1]; /* NULL when the device has no timers */
  mmc_dtype dtype;                    /* dtype of the numbers in the buffers */
  void *block; /* NORMALS elements of dtype, on the host; NULL when there are none yet */
  buffer operands[OPERANDS], padding;
  size_t set_bytes[OPERANDS];
  int sets;
  int64_t turn; /* number of the set that is used next */
  uint64_t random;
  size_t place_bytes[OPERANDS]; /* bytes from a set's beginning to that of its operand */
};

/* A task is the plain call, a recipe or a group, ready to run. */
typedef struct task {
  mmci_gemm gemm;
  mmci_padding padding;
  int queues, count;
  mmci_recipe_piece pieces[MMCI_RECIPE_PIECES];
  mmci_kernel *kernels[MMCI_RECIPE_PIECES];
  mmci_group_kernel *group; /* a group, instead of all of the above but gemm.dtype */
  int32_t operand_count;
  /* Bytes from A to each operand of the group; all of them lie in A's buffer. */
  size_t *offsets;
  const void **operands; /* room for the addresses of the operands */
  mmci_graph *graph;
  int graph_runs;
  int64_t runs;  /* runs in a sample; with a graph, a multiple of the graph's */
  bool is_short; /* a sample is one run, on the host */
} task;

mmci_measure_options mmci_measure_defaults(void) {
  return (mmci_measure_options){.samples = 9,
                                .turns = 31,
                                .least_gain = 0.01,
                                .risk = 0.001,
                                .confirm_cold_bytes = UINT64_MAX,
                                .seed = 1,
                                .window_s = 2};
}

static double now_s(void *user) {
  const mmci_measure_options *options = &((const mmci_bench *)user)->options;
  if (options->now_s != NULL) return options->now_s(options->clock_user);
  return mmci_now_s();
}

/* ---- operands ------------------------------------------------------------------------------ */

static double uniform(uint64_t *state) { /* returns a number in (0, 1] */
  return (double)((mmci_random_bits(state) >> 11) + 1) * 0x1p-53;
}

/* Returns a normal number (Box and Muller 1958). */
static double normal(uint64_t *state) {
  double radius = sqrt(-2 * log(uniform(state)));
  return radius * cos(2 * 3.14159265358979323846 * uniform(state));
}

static void put_normals(mmc_dtype dtype, int64_t count, uint64_t seed, void *out) {
  for (int64_t t = 0; t < (mmci_dtype_is_complex(dtype) ? 2 : 1) * count; t++) {
    double value = normal(&seed);
    switch (dtype) {
      case MMC_F32:
      case MMC_C64:
        ((float *)out)[t] = (float)value;
        break;
      case MMC_F64:
      case MMC_C128:
        ((double *)out)[t] = value;
        break;
      case MMC_F16:
        ((uint16_t *)out)[t] = mmci_f16_round(value);
        break;
      case MMC_BF16:
        ((uint16_t *)out)[t] = mmci_bf16_round(value);
        break;
      default: /* integers are not tuned */
        break;
    }
  }
}

static void drop_buffer(mmci_bench *bench, buffer *b) {
  if (b->data != NULL) bench->ops->dealloc(bench->device, b->data);
  *b = (buffer){0};
}

static mmc_status use_dtype(mmci_bench *bench, mmc_dtype dtype, mmci_error *error) {
  if (bench->block != NULL && bench->dtype == dtype) return MMC_OK;
  for (int i = 0; i < OPERANDS; i++) drop_buffer(bench, &bench->operands[i]);
  free(bench->block);
  bench->block = mmci_alloc_aligned(NORMALS, mmc_dtype_size(dtype));
  if (bench->block == NULL) return mmci_fail_nomem(error, NORMALS * mmc_dtype_size(dtype));
  bench->dtype = dtype;
  put_normals(dtype, NORMALS, bench->options.seed, bench->block);
  return MMC_OK;
}

/* Copies size bytes to the device's memory; they are there on return. */
static mmc_status put_block(mmci_bench *bench, char *to, size_t size, mmci_error *error) {
  if (bench->ops->async == NULL) {
    memcpy(to, bench->block, size);
    return MMC_OK;
  }
  mmci_transfer transfer = {.to = to,
                            .from = bench->block,
                            .to_pitch = (int64_t)size,
                            .from_pitch = (int64_t)size,
                            .lines = 1,
                            .line_bytes = (int64_t)size};
  mmc_status status = bench->ops->async->upload(bench->queues[0], &transfer, error);
  return status == MMC_OK ? bench->ops->sync(bench->queues[0], error) : status;
}

/* Copies the first bytes of data behind what is filled. */
static mmc_status repeat_block(mmci_bench *bench, char *data, size_t filled, size_t bytes,
                               mmci_error *error) {
  if (bench->ops->async == NULL) {
    memcpy(data + filled, data, bytes);
    return MMC_OK;
  }
  int64_t count = (int64_t)(bytes / mmc_dtype_size(bench->dtype));
  return bench->ops->async->copy(bench->queues[0], bench->dtype, 1, count, data,
                                 &(mmci_form){.ld = count}, data + filled, count, false, error);
}

static mmc_status grow_buffer(mmci_bench *bench, buffer *b, size_t size, mmci_error *error) {
  if (b->size_bytes >= size) return MMC_OK;
  drop_buffer(bench, b);
  void *data;
  mmc_status status = bench->ops->alloc(bench->device, size, &data, error);
  if (status != MMC_OK) return status;
  *b = (buffer){.data = data, .size_bytes = size};
  size_t block = NORMALS * mmc_dtype_size(bench->dtype), filled = size < block ? size : block;
  status = put_block(bench, b->data, filled, error);
  for (size_t more; status == MMC_OK && filled < size; filled += more) {
    more = filled < size - filled ? filled : size - filled;
    status = repeat_block(bench, b->data, filled, more, error);
  }
  if (status != MMC_OK) drop_buffer(bench, b); /* what is half filled must not look full */
  return status;
}

/* Returns how many lines an operand has as it lies, and how many elements a line has. */
static void shape_of(const mmci_gemm *gemm, int operand, int64_t *lines, int64_t *length,
                     int64_t *ld) {
  bool trans = operand == A ? gemm->a.trans : operand == B && gemm->b.trans;
  int64_t rows = operand == B ? gemm->k : gemm->m, columns = operand == A ? gemm->k : gemm->n;
  *lines = trans ? columns : rows;
  *length = trans ? rows : columns;
  *ld = operand == A ? gemm->a.ld : operand == B ? gemm->b.ld : gemm->ldc;
}

/* Returns the bytes of an operand; those of a batch are matrices without gaps. */
static mmc_status bytes_of(const mmci_gemm *gemm, int operand, size_t *bytes, mmci_error *error) {
  int64_t lines, length, ld, size;
  shape_of(gemm, operand, &lines, &length, &ld);
  if (__builtin_mul_overflow(lines, ld, &size) ||
      __builtin_mul_overflow(size, (int64_t)mmc_dtype_size(gemm->dtype), &size) ||
      __builtin_mul_overflow(size, gemm->batch > 1 ? gemm->batch : 1, &size) ||
      __builtin_add_overflow(size, SET_ALIGNMENT, &size))
    return mmci_fail_nomem(error, UINT64_MAX);
  *bytes = ((size_t)size + SET_ALIGNMENT - 1) / SET_ALIGNMENT * SET_ALIGNMENT;
  return MMC_OK;
}

/* Returns how many sets of so many bytes take turns. */
static int sets_of(const mmci_bench *bench, double bytes) {
  return (int)fmin(MOST_SETS, 1 + floor((double)bench->options.cold_bytes / fmax(1, bytes)));
}

/* Makes room for the operands, whose sizes are in set_bytes, for as many sets as take turns. */
static mmc_status use_sets(mmci_bench *bench, mmci_error *error) {
  mmc_status status = MMC_OK;
  double all = 0;
  for (int i = 0; i < OPERANDS; i++) {
    if (bench->ops->async == NULL) bench->set_bytes[i] += (size_t)PLACES * MMCI_ALIGNMENT;
    all += (double)bench->set_bytes[i];
  }
  bench->sets = sets_of(bench, all);
  for (int i = 0; status == MMC_OK && i < OPERANDS; i++) {
    size_t bytes;
    if (__builtin_mul_overflow(bench->set_bytes[i], (size_t)bench->sets, &bytes))
      return mmci_fail_nomem(error, UINT64_MAX);
    status = grow_buffer(bench, &bench->operands[i], bytes, error);
  }
  return status;
}

/* Returns the bytes that operands may take: the machine's memory or, on a device with its own, what
 * is free and what the bench holds already, less some that is left to the device's libraries. */
static mmc_status room_for_operands(const mmci_bench *bench, double *bytes, mmci_error *error) {
  const mmci_device_async *async = bench->ops->async;
  if (async == NULL) {
    *bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return MMC_OK;
  }
  uint64_t free_bytes, total_bytes;
  mmc_status status = async->memory(bench->device, &free_bytes, &total_bytes, error);
  if (status != MMC_OK) return status;
  *bytes = 15. / 16 * (double)free_bytes;
  for (int i = 0; i < OPERANDS; i++) *bytes += (double)bench->operands[i].size_bytes;
  return MMC_OK;
}

/* Batches and groups that the machine has no room for count as not supported. Running out of memory
 * where there is room is another matter, which ends the session. */
static mmc_status check_room(const mmci_bench *bench, double set_bytes, mmci_error *error) {
  double room, bytes = set_bytes * sets_of(bench, set_bytes);
  mmc_status status = room_for_operands(bench, &room, error);
  if (status != MMC_OK || bytes <= room) return status;
  return mmci_fail(error, MMC_E_UNSUPPORTED,
                   "device %s: the operands take %.3g bytes, and there is room for %.3g",
                   bench->ops->name, bytes, room);
}

static double set_bytes_of_batch(const mmci_gemm *gemm) {
  double m = (double)gemm->m, k = (double)gemm->k, n = (double)gemm->n;
  return (m * k + k * n + m * n) * (double)gemm->batch * (double)mmc_dtype_size(gemm->dtype);
}

static mmc_status use_operands(mmci_bench *bench, const mmci_gemm *gemm, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (gemm->batch > 1) status = check_room(bench, set_bytes_of_batch(gemm), error);
  if (status == MMC_OK) status = use_dtype(bench, gemm->dtype, error);
  for (int i = 0; status == MMC_OK && i < OPERANDS; i++)
    status = bytes_of(gemm, i, &bench->set_bytes[i], error);
  return status == MMC_OK ? use_sets(bench, error) : status;
}

/* ---- tasks --------------------------------------------------------------------------------- */

static void release_task(mmci_bench *bench, task *t) {
  for (int i = 0; i < t->count; i++) bench->ops->release(t->kernels[i]);
  if (t->graph != NULL) bench->ops->async->graph_destroy(t->graph);
  if (t->group != NULL) bench->ops->group_release(t->group);
  free(t->offsets);
  *t = (task){0};
}

static mmc_status use_padding(mmci_bench *bench, const mmci_recipe *recipe, task *t,
                              mmci_error *error) {
  const mmci_gemm *gemm = &t->gemm;
  if (bench->ops->async == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "device %s: cannot pad operands", bench->ops->name);
  uint64_t bytes = mmci_padding_bytes(recipe->pad, gemm->dtype, gemm->m, gemm->k, gemm->n);
  mmc_status status = grow_buffer(bench, &bench->padding, (size_t)bytes, error);
  t->padding = (mmci_padding){.multiple = recipe->pad, .room = bench->padding.data};
  if (status == MMC_OK) mmci_padding_bind(&t->padding, gemm);
  return status;
}

static mmc_status prepare_task(mmci_bench *bench, const mmci_gemm *gemm, const mmci_recipe *recipe,
                               task *t, mmci_error *error) {
  *t = (task){.gemm = *gemm, .queues = recipe->queues};
  if (t->queues > bench->queue_count) t->queues = bench->queue_count;
  mmc_status status = recipe->pad != 0 ? use_padding(bench, recipe, t, error) : MMC_OK;
  int count = status == MMC_OK ? mmci_recipe_pieces(recipe, gemm, t->pieces) : 0;
  for (int i = 0; status == MMC_OK && i < count; i++) {
    const mmci_gemm *piece = &t->pieces[i].gemm;
    if (!bench->ops->supports(bench->device, piece))
      status = mmci_fail(error, MMC_E_UNSUPPORTED,
                         "device %s: cannot multiply %" PRId64 "x%" PRId64 "x%" PRId64,
                         bench->ops->name, piece->m, piece->k, piece->n);
    else
      status = bench->ops->prepare(bench->device, piece, &t->kernels[i], error);
    if (status == MMC_OK) t->count++;
  }
  if (status != MMC_OK) release_task(bench, t);
  return status;
}

static mmc_status fork_queues(mmci_bench *bench, int queues, mmci_error *error) {
  if (queues == 1) return MMC_OK;
  const mmci_device_async *async = bench->ops->async;
  mmc_status status = async->event_record(bench->queues[0], bench->events[0], error);
  for (int queue = 1; status == MMC_OK && queue < queues; queue++)
    status = async->event_wait(bench->queues[queue], bench->events[0], error);
  return status;
}

static mmc_status join_queues(mmci_bench *bench, int queues, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int queue = 1; status == MMC_OK && queue < queues; queue++) {
    status = bench->ops->async->event_record(bench->queues[queue], bench->events[queue], error);
    if (status == MMC_OK)
      status = bench->ops->async->event_wait(bench->queues[0], bench->events[queue], error);
  }
  return status;
}

static mmc_status run_group(mmci_bench *bench, const task *t, mmci_error *error) {
  size_t set = (size_t)(bench->turn++ % bench->sets);
  const char *a = bench->operands[A].data + set * bench->set_bytes[A] + bench->place_bytes[A];
  char *c = bench->operands[C].data + set * bench->set_bytes[C] + bench->place_bytes[C];
  for (int32_t o = 0; o < t->operand_count; o++) t->operands[o] = a + t->offsets[o];
  return bench->ops->group_enqueue(bench->queues[0], t->group, t->operands, c, error);
}

/* Enqueues one product, or one call of several. */
static mmc_status run_task(mmci_bench *bench, const task *t, mmci_error *error) {
  if (t->group != NULL) return run_group(bench, t, error);
  size_t set = (size_t)(bench->turn++ % bench->sets), size = mmc_dtype_size(t->gemm.dtype);
  char *own[OPERANDS];
  for (int i = 0; i < OPERANDS; i++)
    own[i] = bench->operands[i].data + set * bench->set_bytes[i] + bench->place_bytes[i];
  const void *a = own[A], *b = own[B];
  void *c = own[C];
  mmc_status status =
      mmci_padding_begin(&t->padding, bench->ops, bench->queues[0], &a, &b, &c, error);
  if (status == MMC_OK) status = fork_queues(bench, t->queues, error);
  for (int i = 0; status == MMC_OK && i < t->count; i++) {
    const mmci_recipe_piece *piece = &t->pieces[i];
    status = bench->ops->enqueue(bench->queues[piece->queue % t->queues], t->kernels[i],
                                 (const char *)a + (size_t)piece->a * size,
                                 (const char *)b + (size_t)piece->b * size,
                                 (char *)c + (size_t)piece->c * size, error);
  }
  if (status == MMC_OK) status = join_queues(bench, t->queues, error);
  return status == MMC_OK
             ? mmci_padding_end(&t->padding, bench->ops, bench->queues[0], own[C], error)
             : status;
}

static mmc_status run_times(mmci_bench *bench, const task *t, int64_t runs, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int64_t r = 0; status == MMC_OK && r < runs; r++) status = run_task(bench, t, error);
  return status;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* Makes the graph anew, with so many runs. */
static mmc_status capture_runs(mmci_bench *bench, task *t, int runs, mmci_error *error) {
  const mmci_device_async *async = bench->ops->async;
  if (t->graph != NULL) async->graph_destroy(t->graph);
  t->graph = NULL;
  t->graph_runs = runs;
  mmc_status status = async->capture_begin(bench->queues[0], error);
  if (status != MMC_OK) return status;
  mmci_error ignored;
  status = run_times(bench, t, runs, error);
  mmci_graph *graph = NULL;
  mmc_status end =
      async->capture_end(bench->queues[0], &graph, status == MMC_OK ? error : &ignored);
  if (status == MMC_OK) status = end;
  if (end == MMC_OK && status == MMC_OK) t->graph = graph;
  if (end == MMC_OK && status != MMC_OK) async->graph_destroy(graph);
  return status;
}

/* Moves the operands on the host. Their place decides which lines of a cache they share, and the
 * times of small products differ by tens of percent with that alone: what holds in one place says
 * little. */
static void move_operands(mmci_bench *bench) {
  for (int i = 0; bench->ops->async == NULL && i < OPERANDS; i++)
    bench->place_bytes[i] = (size_t)(mmci_random_bits(&bench->random) % PLACES) * MMCI_ALIGNMENT;
}

/* Enqueues as many runs as a sample has. */
static mmc_status enqueue_runs(mmci_bench *bench, const task *t, mmci_error *error) {
  if (t->graph == NULL) return run_times(bench, t, t->runs, error);
  mmc_status status = MMC_OK;
  for (int64_t r = 0; status == MMC_OK && r < t->runs; r += t->graph_runs)
    status = bench->ops->async->graph_launch(bench->queues[0], t->graph, error);
  return status;
}

/* Measures the seconds of one run by the host's clock. Short runs are preceded by one that fetches
 * the operands to the caches where this run wants them: after a run whose threads read other parts,
 * they are in the caches of other cores. */
static mmc_status sample_task(mmci_bench *bench, const task *t, double *seconds,
                              mmci_error *error) {
  mmc_status status = MMC_OK;
  if (t->is_short) status = run_task(bench, t, error);
  double start_s = now_s(bench);
  if (status == MMC_OK) status = enqueue_runs(bench, t, error);
  if (status == MMC_OK) status = bench->ops->sync(bench->queues[0], error);
  *seconds = (now_s(bench) - start_s) / (double)t->runs;
  return status;
}

/* Measures several, one after the other, by the device's clock. What is launched first keeps the
 * device busy while the rest is launched. */
static mmc_status sample_timed(mmci_bench *bench, const task *const *tasks, int count,
                               double *seconds, mmci_error *error) {
  const mmci_device_async *async = bench->ops->async;
  mmci_queue *queue = bench->queues[0];
  mmc_status status = enqueue_runs(bench, tasks[count - 1], error);
  if (status == MMC_OK) status = async->event_record(queue, bench->timers[0], error);
  for (int i = 0; status == MMC_OK && i < count; i++) {
    status = enqueue_runs(bench, tasks[i], error);
    if (status == MMC_OK) status = async->event_record(queue, bench->timers[i + 1], error);
  }
  if (status == MMC_OK) status = bench->ops->sync(queue, error);
  for (int i = 0; status == MMC_OK && i < count; i++) {
    status = async->seconds_between(bench->timers[i], bench->timers[i + 1], &seconds[i], error);
    seconds[i] /= (double)tasks[i]->runs;
  }
  return status;
}

/* Asks whether to go on; nothing is at work meanwhile. */
static mmc_status ask(const mmci_bench *bench, mmci_error *error) {
  const mmci_measure_options *options = &bench->options;
  return options->ask == NULL || options->ask(options->ask_user) == 0
             ? MMC_OK
             : mmci_fail(error, MMC_E_INTERRUPTED, "tuning: stopped within a measurement");
}

/* Times each `turns` times, in another order each time: number w in turn t goes to seconds[t *
 * count + w]. */
static mmc_status sample_turns(mmci_bench *bench, const task *const *tasks, int count, int turns,
                               double *seconds, mmci_error *error) {
  bool timed = bench->timers[0] != NULL;
  int at_once = timed ? MOST_TIMED / count : 1;
  mmc_status status = MMC_OK;
  for (int done = 0, now; status == MMC_OK && done < turns; done += now) {
    const task *order[MOST_TIMED];
    int places[MOST_TIMED];
    double times[MOST_TIMED];
    now = turns - done < at_once ? turns - done : at_once;
    for (int i = 0; i < now * count; i++) {
      int turn = done + i / count, w = turn % 2 == 0 ? i % count : count - 1 - i % count;
      order[i] = tasks[w];
      places[i] = turn * count + w;
    }
    status = ask(bench, error);
    if (status != MMC_OK) break;
    move_operands(bench);
    if (timed) status = sample_timed(bench, order, now * count, times, error);
    for (int i = 0; !timed && status == MMC_OK && i < count; i++)
      status = sample_task(bench, order[i], &times[i], error);
    for (int i = 0; status == MMC_OK && i < now * count; i++) seconds[places[i]] = times[i];
  }
  return status;
}

static mmc_status warm_up(mmci_bench *bench, const task *t, mmci_error *error) {
  mmc_status status = ask(bench, error);
  if (status == MMC_OK) status = run_task(bench, t, error);
  return status == MMC_OK ? bench->ops->sync(bench->queues[0], error) : status;
}

/* Doubles runs until a sample is long enough. */
static mmc_status find_runs(mmci_bench *bench, task *t, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (t->runs = 1; status == MMC_OK; t->runs *= 2) {
    status = ask(bench, error);
    if (status == MMC_OK && bench->ops->async != NULL && t->runs <= GRAPH_RUNS)
      status = capture_runs(bench, t, (int)t->runs, error);
    double seconds;
    if (status == MMC_OK) status = sample_task(bench, t, &seconds, error);
    t->is_short = bench->ops->async == NULL && seconds < short_s;
    if (status != MMC_OK || t->runs >= MOST_RUNS ||
        seconds * (double)t->runs >= bench->options.sample_least_s)
      break;
  }
  return status;
}

/* Sets runs from the times of single runs, and makes one graph. The first run has loaded the
 * kernels. */
static mmc_status find_runs_timed(mmci_bench *bench, double least_s, task *t, mmci_error *error) {
  const task *const one[] = {t};
  double seconds;
  t->runs = 1;
  mmc_status status = sample_timed(bench, one, 1, &seconds, error);
  if (status != MMC_OK) return status;
  double runs = ceil(least_s / fmax(seconds, 1e-9));
  t->runs = (int64_t)fmax(1, fmin(runs, GRAPH_RUNS));
  return capture_runs(bench, t, (int)t->runs, error);
}

/* Finds how long a sample is; on failure, releases what was prepared. */
static mmc_status plan_samples(mmci_bench *bench, double least_s, task *t, mmci_error *error) {
  bool timed = bench->timers[0] != NULL;
  mmc_status status = MMC_OK;
  if (!timed) status = warm_up(bench, t, error); /* a timed sample begins with one that is not */
  if (status == MMC_OK)
    status = timed ? find_runs_timed(bench, least_s, t, error) : find_runs(bench, t, error);
  if (status != MMC_OK) release_task(bench, t);
  return status;
}

static mmc_status make_ready(mmci_bench *bench, const mmci_gemm *gemm, const mmci_recipe *recipe,
                             double least_s, task *t, mmci_error *error) {
  mmc_status status = use_operands(bench, gemm, error);
  if (status == MMC_OK) status = prepare_task(bench, gemm, recipe, t, error);
  return status == MMC_OK ? plan_samples(bench, least_s, t, error) : status;
}

/* ---- calls of several products ------------------------------------------------------------- */

/* Returns the rows x columns of an operand, as its first product reads it. */
static void shape_in(const mmci_group *group, int32_t operand, int64_t *rows, int64_t *columns) {
  const mmci_group_product *p = group->products;
  while (p->left != operand && p->right != operand) p++;
  *rows = p->left == operand ? p->m : p->k;
  *columns = p->left == operand ? p->k : p->n;
}

/* Returns the bytes of one operand or, past the last, of the result, with a matrix for each chain
 * of the batch. */
static mmc_status bytes_in(const mmci_group *group, int32_t operand, size_t *bytes,
                           mmci_error *error) {
  const mmci_group_product *last = &group->products[group->count - 1];
  mmci_gemm as_result = {.dtype = group->dtype, .m = last->m, .n = last->n, .batch = group->batch};
  if (operand < group->n) shape_in(group, operand, &as_result.m, &as_result.n);
  as_result.ldc = as_result.n;
  return bytes_of(&as_result, C, bytes, error);
}

/* Returns the bytes of one set of the group's operands and result, as a double, because they may
 * exceed 64 bits. */
static double set_bytes_of_group(const mmci_group *group) {
  const mmci_group_product *last = &group->products[group->count - 1];
  double elements = (double)last->m * (double)last->n;
  for (int32_t o = 0; o < group->n; o++) {
    int64_t rows, columns;
    shape_in(group, o, &rows, &columns);
    elements += (double)rows * (double)columns;
  }
  return elements * (double)group->batch * (double)mmc_dtype_size(group->dtype);
}

static mmc_status use_group_operands(mmci_bench *bench, const mmci_group *group, task *t,
                                     mmci_error *error) {
  size_t n = (size_t)group->n, size = n * (sizeof *t->offsets + sizeof *t->operands), bytes;
  mmc_status status = use_dtype(bench, group->dtype, error);
  if (status != MMC_OK) return status;
  t->offsets = malloc(size);
  if (t->offsets == NULL) return mmci_fail_nomem(error, size);
  t->operands = (const void **)(t->offsets + n);
  t->operand_count = group->n;
  bench->set_bytes[A] = bench->set_bytes[B] = 0;
  for (int32_t o = 0; status == MMC_OK && o < group->n; o++) {
    t->offsets[o] = bench->set_bytes[A];
    status = bytes_in(group, o, &bytes, error);
    if (status == MMC_OK && __builtin_add_overflow(t->offsets[o], bytes, &bench->set_bytes[A]))
      status = mmci_fail_nomem(error, UINT64_MAX);
  }
  if (status == MMC_OK) status = bytes_in(group, group->n, &bench->set_bytes[C], error);
  return status == MMC_OK ? use_sets(bench, error) : status;
}

static mmc_status make_group_ready(mmci_bench *bench, const mmci_group *group, task *t,
                                   mmci_error *error) {
  const mmci_device_ops *ops = bench->ops;
  *t = (task){.gemm = {.dtype = group->dtype}, .queues = 1};
  if (ops->group_supports == NULL || !ops->group_supports(bench->device, group))
    return mmci_fail(error, MMC_E_UNSUPPORTED, "device %s: does not take this as one call",
                     ops->name);
  mmc_status status = check_room(bench, set_bytes_of_group(group), error);
  if (status == MMC_OK) status = use_group_operands(bench, group, t, error);
  if (status == MMC_OK) status = ops->group_prepare(bench->device, group, &t->group, error);
  if (status == MMC_OK)
    return plan_samples(bench, shorter * bench->options.sample_least_s, t, error);
  release_task(bench, t);
  return status;
}

/* ---- the machine --------------------------------------------------------------------------- */

static bool agree(const mmci_estimate *x) {
  return x->high - x->low <= agreement * x->value;
}

/* Returns the median of samples, and releases what was prepared. */
static mmc_status take_samples(mmci_bench *bench, task *t, mmci_measured *out, mmci_error *error) {
  int most = bench->options.samples;
  const task *const one[] = {t};
  mmc_status status = MMC_OK;
  double *samples = mmci_alloc_array((size_t)most, sizeof *samples);
  if (samples == NULL) status = mmci_fail_nomem(error, (uint64_t)most * sizeof *samples);
  *out = (mmci_measured){0};
  for (int done = 0, now; status == MMC_OK && done < most; done += now) {
    now = done == 0 && most > FEW_SAMPLES && bench->timers[0] != NULL ? FEW_SAMPLES : most - done;
    status = sample_turns(bench, one, 1, now, samples + done, error);
    if (status != MMC_OK) break;
    out->seconds = mmci_estimate_median(samples, done + now, bench->options.risk);
    if (agree(&out->seconds)) break;
  }
  free(samples);
  release_task(bench, t);
  return status;
}

static mmc_status measure(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                          mmci_measured *out, mmci_error *error) {
  mmci_bench *bench = user;
  task t;
  mmc_status status =
      make_ready(bench, gemm, recipe, shorter * bench->options.sample_least_s, &t, error);
  return status == MMC_OK ? take_samples(bench, &t, out, error) : status;
}

static mmc_status measure_group(void *user, const mmci_group *group, mmci_measured *out,
                                mmci_error *error) {
  task t;
  mmc_status status = make_group_ready(user, group, &t, error);
  return status == MMC_OK ? take_samples(user, &t, out, error) : status;
}

/* Sums up so many turns of a plain call and a recipe; room has space for as many numbers, and holds
 * the sorted gains afterwards. */
static mmci_measured of_turns(const mmci_bench *bench, const double *times, int turns,
                              double *room) {
  double risk = bench->options.risk;
  mmci_measured out = {0};
  for (int t = 0; t < turns; t++) room[t] = times[2 * t];
  out.plain_s = mmci_estimate_median(room, turns, risk).value;
  for (int t = 0; t < turns; t++) room[t] = times[2 * t + 1];
  out.seconds = mmci_estimate_median(room, turns, risk);
  for (int t = 0; t < turns; t++) room[t] = times[2 * t] / times[2 * t + 1];
  out.gain = mmci_estimate_median(room, turns, risk);
  return out;
}

/* Says whether more turns would hardly change what is decided. */
static bool is_settled(const mmci_bench *bench, const mmci_measured *so_far, int turns,
                       double *gains) {
  double worth_it = 1 + bench->options.least_gain;
  if (mmci_estimate_median(gains, turns, risk_of_loss).high < worth_it) return true;
  return turns >= SURE_TURNS && so_far->gain.low > 1 && agree(&so_far->gain);
}

static mmc_status take_turns(mmci_bench *bench, const task *plain, const task *recipe,
                             mmci_measured *out, mmci_error *error) {
  const task *const tasks[MOST_COMPARED] = {plain, recipe};
  const int most = bench->options.turns, ends[] = {FEW_TURNS, SURE_TURNS, most};
  double *times = mmci_alloc_array(3 * (size_t)most, sizeof *times);
  if (times == NULL) return mmci_fail_nomem(error, 3 * (uint64_t)most * sizeof *times);
  double *room = times + 2 * most;
  mmc_status status = MMC_OK;
  for (int e = 0, done = 0; status == MMC_OK && done < most; e++) {
    int end = ends[e] < most ? ends[e] : most;
    status = sample_turns(bench, tasks, MOST_COMPARED, end - done, times + 2 * done, error);
    if (status != MMC_OK) break;
    done = end;
    *out = of_turns(bench, times, done, room);
    if (is_settled(bench, out, done, room)) break;
  }
  free(times);
  return status;
}

static mmc_status compare(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                          mmci_measured *out, mmci_error *error) {
  mmci_bench *bench = user;
  mmci_recipe whole = mmci_recipe_whole(0);
  task plain, other;
  mmc_status status = make_ready(bench, gemm, &whole, bench->options.sample_least_s, &plain, error);
  if (status != MMC_OK) return status;
  status = make_ready(bench, gemm, recipe, bench->options.sample_least_s, &other, error);
  if (status == MMC_OK) {
    status = take_turns(bench, &plain, &other, out, error);
    release_task(bench, &other);
  }
  release_task(bench, &plain);
  return status;
}

/* The work of the meter: samples. */
typedef struct metered {
  mmci_bench *bench;
  const task *task;
  mmc_status status;
  mmci_error *error;
} metered;

static int work(void *user) {
  metered *m = user;
  m->status = enqueue_runs(m->bench, m->task, m->error);
  return m->status != MMC_OK;
}

static int await_runs(void *user) {
  metered *m = user;
  m->status = m->bench->ops->sync(m->bench->queues[0], m->error);
  return m->status != MMC_OK;
}

static mmc_status joules(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                         mmci_measured *out, mmci_error *error) {
  mmci_bench *bench = user;
  task t;
  mmc_status status = make_ready(bench, gemm, recipe, bench->options.sample_least_s, &t, error);
  if (status != MMC_OK) return status;
  metered m = {.bench = bench, .task = &t, .error = error};
  mmc_energy_options options = MMC_ENERGY_OPTIONS_INIT;
  options.min_s = bench->options.window_s;
  options.idle_s = 0;
  options.work = work;
  options.wait = await_runs;
  options.user = &m;
  mmc_energy energy;
  mmci_error stopped;
  status = mmci_measure(bench->options.meter_ops, bench->options.meter, &options, NULL, &energy,
                        &stopped);
  if (m.status != MMC_OK)
    status = m.status;
  else if (status != MMC_OK)
    *error = stopped;
  else if (!energy.measured)
    status = mmci_fail_argument(error, MMC_E_DEVICE, "meter", "no joules: %s", energy.reason);
  if (status == MMC_OK) {
    double runs = (double)t.runs, seconds = energy.seconds / runs, value = energy.joules / runs;
    *out = (mmci_measured){.seconds = {seconds, seconds, seconds},
                           .joules = {.value = value,
                                      .low = value * fmax(0, 1 - energy.tick_error),
                                      .high = value * (1 + energy.tick_error)}};
  }
  release_task(bench, &t);
  return status;
}

static mmc_status confirm(void *user, const mmci_gemm *gemm, const mmci_recipe *recipe,
                          mmci_measured *out, mmci_error *error) {
  mmci_bench *bench = user;
  uint64_t cold_bytes = bench->options.cold_bytes;
  bench->options.cold_bytes = bench->options.confirm_cold_bytes;
  mmc_status status = compare(user, gemm, recipe, out, error);
  bench->options.cold_bytes = cold_bytes;
  return status;
}

static int variants(void *user, const mmci_gemm *gemm) {
  mmci_bench *bench = user;
  return bench->ops->variants(bench->device, gemm);
}

mmci_machine mmci_bench_machine(mmci_bench *bench) {
  return (mmci_machine){.user = bench,
                        .queues = bench->queue_count,
                        .pad = bench->ops->async != NULL ? PAD : 0,
                        .least_s = bench->ops->async != NULL ? least_gain_s : 0,
                        .now_s = now_s,
                        .variants = variants,
                        .measure = measure,
                        .measure_group = measure_group,
                        .compare = compare,
                        .confirm = confirm,
                        .joules = bench->options.meter_ops != NULL ? joules : NULL};
}

/* ---- life ---------------------------------------------------------------------------------- */

static mmc_status open_queues(mmci_bench *bench, mmci_error *error) {
  const mmci_device_async *async = bench->ops->async;
  mmc_status status = MMC_OK;
  for (int queue = 0; status == MMC_OK && queue < bench->queue_count; queue++) {
    status = bench->ops->queue_open(bench->device, &bench->queues[queue], error);
    if (status == MMC_OK && async != NULL)
      status = async->event_create(bench->device, &bench->events[queue], error);
  }
  for (int t = 0; async != NULL && async->timer_create != NULL && t <= MOST_TIMED; t++)
    if (status == MMC_OK) status = async->timer_create(bench->device, &bench->timers[t], error);
  return status;
}

mmc_status mmci_bench_open(const mmci_device_ops *ops, mmci_device *device,
                           const mmci_measure_options *options, mmci_bench **out,
                           mmci_error *error) {
  if (ops->prepare == NULL)
    return mmci_fail(error, MMC_E_UNSUPPORTED, "device %s: multiplies nothing", ops->name);
  if (options->samples < 1 || options->turns < 1 || !(options->sample_least_s >= 0))
    return mmci_fail(error, MMC_E_ARG,
                     "measuring: expected samples and turns of at least 1 and seconds >= 0");
  mmci_bench *bench = mmci_alloc_zeroed(1, sizeof *bench);
  if (bench == NULL) return mmci_fail_nomem(error, sizeof *bench);
  bench->ops = ops;
  bench->device = device;
  bench->options = *options;
  bench->random = options->seed;
  if (!(options->sample_least_s > 0))
    bench->options.sample_least_s = ops->async == NULL                 ? 50e-6
                                    : ops->async->timer_create != NULL ? 2e-4
                                                                       : 1e-3;
  if (bench->options.confirm_cold_bytes == UINT64_MAX) {
    bench->options.confirm_cold_bytes = options->cold_bytes;
    if (ops->async != NULL && options->cold_bytes < beyond_caches_bytes)
      bench->options.confirm_cold_bytes = beyond_caches_bytes;
  }
  bench->queue_count = ops->async == NULL                 ? 1
                       : ops->async->queues < MOST_QUEUES ? ops->async->queues
                                                          : MOST_QUEUES;
  mmc_status status = open_queues(bench, error);
  if (status != MMC_OK) {
    mmci_bench_close(bench);
    return status;
  }
  *out = bench;
  return MMC_OK;
}

void mmci_bench_close(mmci_bench *bench) {
  if (bench == NULL) return;
  for (int queue = 0; queue < bench->queue_count; queue++) {
    if (bench->events[queue] != NULL) bench->ops->async->event_destroy(bench->events[queue]);
    if (bench->queues[queue] != NULL) bench->ops->queue_close(bench->queues[queue]);
  }
  for (int t = 0; t <= MOST_TIMED; t++)
    if (bench->timers[t] != NULL) bench->ops->async->event_destroy(bench->timers[t]);
  for (int i = 0; i < OPERANDS; i++) drop_buffer(bench, &bench->operands[i]);
  drop_buffer(bench, &bench->padding);
  free(bench->block);
  free(bench);
}
