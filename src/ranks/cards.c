/* cards.c: executes programs on the cards of a host: a queue for each lane, an event where one lane
 * waits for another, and a thread a card where matrices are on the host. */
#include "ranks/cards.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"

/* ---- cards ----------------------------------------------------------------------------------- */

mmc_status mmci_cards_join(mmci_cards *cards, mmci_error *error) {
  cards->link_bytes_per_s = INFINITY;
  for (int32_t i = 0; i < cards->count; i++) {
    const mmci_opened *card = &cards->opened[i];
    const mmci_device_async *async = card->ops->async;
    if (cards->count > 1 && (async == NULL || async->join == NULL))
      return mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                                "'%s' cannot work together with others", card->name);
    for (int32_t j = 0; j < cards->count; j++) {
      double bytes_per_s;
      if (i == j) continue;
      mmc_status status = async->join(card->device, cards->opened[j].device, &bytes_per_s, error);
      if (status != MMC_OK) return status;
      if (bytes_per_s < cards->link_bytes_per_s) cards->link_bytes_per_s = bytes_per_s;
    }
  }
  return MMC_OK;
}

/* Bytes per second between the host and a card, and seconds that a copy takes besides. */
static const double HOST_BYTES_PER_S = 20e9, DEED_S = 8e-6;

/* Pieces of more bytes than these move in parts. */
static const uint64_t PARTS_BYTES = UINT64_C(32) << 20;

/* Of a card's memory this share may hold pieces; the rest is for what products hold. */
static const double PIECES_SHARE = 0.8;

mmc_status mmci_cards_plan_for(const mmci_cards *cards, const mmci_plan *plan,
                               mmci_precision precision, uint64_t most_bytes, bool resident,
                               const mmci_given *factors, const mmci_given *out,
                               const mmci_step_site *sites, mmci_cards_plan *cards_plan,
                               mmci_error *error) {
  mmci_facts facts;
  mmc_status status =
      mmci_opened_facts(&cards->opened[0], plan->chain->dtype, precision, &facts, error);
  mmci_cards_problem problem = {
      .plan = plan,
      .precision = precision,
      .cards = cards->count,
      .parts_bytes = cards->parts_bytes > 0 ? cards->parts_bytes : PARTS_BYTES,
      .limit_bytes = most_bytes,
      .factors = factors,
      .out = out,
      .resident = resident,
      .sites = sites};
  for (int32_t i = 0; i < cards->count && status == MMC_OK && cards->count > 1; i++) {
    uint64_t free_bytes, total_bytes;
    const mmci_opened *card = &cards->opened[i];
    status = card->ops->async->memory(card->device, &free_bytes, &total_bytes, error);
    const uint64_t usable = (uint64_t)(PIECES_SHARE * (double)free_bytes);
    if (status == MMC_OK && usable < problem.limit_bytes) problem.limit_bytes = usable;
  }
  if (status != MMC_OK) return status;
  problem.rates = (mmci_timeline_rates){.product = mmci_roofline_assumed(&facts),
                                        .link_bytes_per_s = cards->link_bytes_per_s,
                                        .host_bytes_per_s = HOST_BYTES_PER_S,
                                        .deed_s = DEED_S};
  return mmci_cards_plan_create(&problem, cards_plan, error);
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* What one card holds. */
typedef struct card {
  mmci_queue *lanes[MMCI_LANES];
  void *room;
} card;

/* A product that is prepared on a card. */
typedef struct prepared {
  int32_t rank;
  mmci_gemm gemm;
  mmci_kernel *kernel;
} prepared;

struct mmci_cards_run {
  const mmci_cards *cards;
  const mmci_plan *plan;
  mmci_precision precision;
  uint64_t most_bytes;
  const mmci_step_site *sites;
  card card[MMCI_CARDS_MAX];

  /* These are of the execution before, and serve the next where matrices lie alike. */
  bool ready;
  mmci_given *lies;     /* n factors and the result: where they are */
  mmc_matrix *matrices; /* (n + 1) times one for the host and one for each card */
  mmci_cards_plan made;
  prepared *kernels;
  int32_t kernel_count;
  int32_t *kernel_of; /* of every deed */
  mmci_event **events;
  /* Where the matrices of this execution are. */
  const mmci_given *factors, *out;

  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool *recorded; /* of every event, in this execution; under the lock */
  mmc_status status;
  mmci_error error;
};

static const mmci_opened *opened(const mmci_cards_run *run, int32_t rank) {
  return &run->cards->opened[rank];
}

/* Gives back what was made for matrices that lie so. */
static void clear(mmci_cards_run *run) {
  for (int32_t k = 0; k < run->kernel_count; k++)
    if (run->kernels[k].kernel != NULL)
      opened(run, run->kernels[k].rank)->ops->release(run->kernels[k].kernel);
  for (int32_t e = 0; run->events != NULL && e < run->made.program.event_count; e++)
    if (run->events[e] != NULL) opened(run, 0)->ops->async->event_destroy(run->events[e]);
  for (int32_t r = 0; r < run->cards->count; r++) {
    if (run->card[r].room != NULL)
      opened(run, r)->ops->dealloc(opened(run, r)->device, run->card[r].room);
    run->card[r].room = NULL;
  }
  free(run->kernels);
  free(run->kernel_of);
  free(run->events);
  free(run->recorded);
  mmci_cards_plan_destroy(&run->made);
  run->made = (mmci_cards_plan){0};
  run->kernels = NULL;
  run->kernel_of = NULL;
  run->kernel_count = 0;
  run->events = NULL;
  run->recorded = NULL;
  run->ready = false;
}

void mmci_cards_run_destroy(mmci_cards_run *run) {
  if (run == NULL) return;
  for (int32_t r = 0; r < run->cards->count; r++)
    for (int l = 0; l < MMCI_LANES; l++)
      if (run->card[r].lanes[l] != NULL) opened(run, r)->ops->queue_close(run->card[r].lanes[l]);
  clear(run);
  free(run->lies);
  free(run->matrices);
  pthread_mutex_destroy(&run->lock);
  pthread_cond_destroy(&run->changed);
  free(run);
}

mmc_status mmci_cards_run_create(const mmci_cards *cards, const mmci_plan *plan,
                                 mmci_precision precision, uint64_t most_bytes,
                                 const mmci_step_site *sites, mmci_cards_run **out,
                                 mmci_error *error) {
  mmci_cards_run *run = mmci_alloc_zeroed(1, sizeof *run);
  if (run == NULL) return mmci_fail_nomem(error, sizeof *run);
  run->cards = cards;
  run->plan = plan;
  run->precision = precision;
  run->most_bytes = most_bytes;
  run->sites = sites;
  if (pthread_mutex_init(&run->lock, NULL) != 0) {
    free(run);
    return mmci_fail(error, MMC_E_NOMEM, "pthread_mutex_init: no more mutexes");
  }
  if (pthread_cond_init(&run->changed, NULL) != 0) {
    pthread_mutex_destroy(&run->lock);
    free(run);
    return mmci_fail(error, MMC_E_NOMEM, "pthread_cond_init: no more conditions");
  }
  const size_t matrices = (size_t)plan->chain->n + 1, places = (size_t)cards->count + 1;
  run->lies = mmci_alloc_zeroed(matrices, sizeof *run->lies);
  run->matrices = mmci_alloc_zeroed(matrices * places, sizeof *run->matrices);
  if (run->lies == NULL || run->matrices == NULL) {
    mmci_cards_run_destroy(run);
    return mmci_fail_nomem(error, matrices * places * sizeof *run->matrices);
  }
  *out = run;
  return MMC_OK;
}

/* ---- what is made for an execution ----------------------------------------------------------- */

static bool lies_alike(const mmc_matrix *x, const mmc_matrix *y) {
  return x->rows == y->rows && x->cols == y->cols && x->ld == y->ld && x->layout == y->layout;
}

/* Says whether a matrix is where it was in the execution before, but for addresses. */
static bool is_as_before(const mmci_cards_run *run, int32_t number, const mmci_given *now) {
  const mmci_given *before = &run->lies[number];
  const int32_t places = run->cards->count + 1;
  const mmc_matrix *kept = run->matrices + (int64_t)number * places;
  if (before->on_host != now->on_host) return false;
  if (now->on_host) return lies_alike(&kept[0], now->matrix);
  if (before->site.first != now->site.first ||
      !mmci_layout_same(&before->site.layout, &now->site.layout))
    return false;
  for (int32_t r = now->site.first; r < now->site.first + now->site.layout.ranks; r++)
    if (!lies_alike(&kept[1 + r], &now->pieces[r])) return false;
  return true;
}

static void keep_as_it_is(mmci_cards_run *run, int32_t number, const mmci_given *now) {
  const int32_t places = run->cards->count + 1;
  mmc_matrix *kept = run->matrices + (int64_t)number * places;
  run->lies[number] = *now;
  run->lies[number].matrix = run->lies[number].pieces = NULL;
  if (now->on_host) kept[0] = *now->matrix;
  for (int32_t r = 0; !now->on_host && r < run->cards->count; r++) kept[1 + r] = now->pieces[r];
}

static bool same_gemm(const mmci_gemm *x, const mmci_gemm *y) {
  return x->m == y->m && x->k == y->k && x->n == y->n && x->ldc == y->ldc &&
         x->accumulate == y->accumulate && x->a.ld == y->a.ld && x->a.trans == y->a.trans &&
         x->a.conj == y->a.conj && x->b.ld == y->b.ld && x->b.trans == y->b.trans &&
         x->b.conj == y->b.conj;
}

static mmc_status prepare_products(mmci_cards_run *run, mmci_error *error) {
  const mmci_cards_program *p = &run->made.program;
  const size_t count = (size_t)p->deed_count + 1;
  run->kernels = mmci_alloc_zeroed(count, sizeof *run->kernels);
  run->kernel_of = mmci_alloc_zeroed(count, sizeof *run->kernel_of);
  if (run->kernels == NULL || run->kernel_of == NULL)
    return mmci_fail_nomem(error, count * sizeof *run->kernels);
  for (int64_t d = 0; d < p->deed_count; d++) {
    const mmci_deed *deed = &p->deeds[d];
    if (deed->kind != MMCI_DO_PRODUCT) continue;
    int32_t k = 0;
    while (k < run->kernel_count &&
           (run->kernels[k].rank != deed->rank || !same_gemm(&run->kernels[k].gemm, &deed->gemm)))
      k++;
    run->kernel_of[d] = k;
    if (k < run->kernel_count) continue;
    prepared *x = &run->kernels[run->kernel_count++];
    x->rank = deed->rank;
    x->gemm = deed->gemm;
    const mmci_opened *on = opened(run, deed->rank);
    mmc_status status = on->ops->prepare(on->device, &deed->gemm, &x->kernel, error);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

static mmc_status make_events(mmci_cards_run *run, mmci_error *error) {
  const mmci_cards_program *p = &run->made.program;
  const size_t count = (size_t)p->event_count;
  run->events = mmci_alloc_zeroed(count, sizeof(mmci_event *));
  run->recorded = mmci_alloc_zeroed(count, sizeof *run->recorded);
  if (run->events == NULL || run->recorded == NULL)
    return mmci_fail_nomem(error, count * sizeof(mmci_event *));
  for (int64_t d = 0; d < p->deed_count; d++) {
    const mmci_deed *deed = &p->deeds[d];
    const mmci_opened *on = opened(run, deed->rank);
    if (deed->event < 0) continue;
    mmc_status status = on->ops->async->event_create(on->device, &run->events[deed->event], error);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

static mmc_status open_lanes(mmci_cards_run *run, mmci_error *error) {
  for (int32_t r = 0; r < run->cards->count; r++)
    for (int l = 0; l < MMCI_LANES; l++) {
      if (run->card[r].lanes[l] != NULL) continue;
      mmc_status status =
          opened(run, r)->ops->queue_open(opened(run, r)->device, &run->card[r].lanes[l], error);
      if (status != MMC_OK) return status;
    }
  return MMC_OK;
}

static mmc_status take_rooms(mmci_cards_run *run, mmci_error *error) {
  for (int32_t r = 0; r < run->cards->count; r++) {
    const uint64_t bytes = run->made.program.room_bytes[r];
    if (bytes == 0) continue;
    if (bytes > SIZE_MAX) return mmci_fail_nomem(error, bytes);
    mmc_status status = opened(run, r)->ops->alloc(opened(run, r)->device, (size_t)bytes,
                                                   &run->card[r].room, error);
    if (status != MMC_OK) return status;
  }
  return MMC_OK;
}

/* Makes all that executing with such matrices takes. */
static mmc_status make_ready(mmci_cards_run *run, const mmci_given *factors, const mmci_given *out,
                             mmci_error *error) {
  const int32_t n = run->plan->chain->n;
  bool alike = run->ready && is_as_before(run, n, out);
  for (int32_t i = 0; i < n && alike; i++) alike = is_as_before(run, i, &factors[i]);
  if (alike) return MMC_OK;
  clear(run);
  mmc_status status = mmci_cards_plan_for(run->cards, run->plan, run->precision, run->most_bytes,
                                          false, factors, out, run->sites, &run->made, error);
  if (status == MMC_OK && run->made.alone == NULL) {
    status = open_lanes(run, error);
    if (status == MMC_OK) status = take_rooms(run, error);
    if (status == MMC_OK) status = prepare_products(run, error);
    if (status == MMC_OK) status = make_events(run, error);
  }
  if (status != MMC_OK) {
    clear(run);
    return status;
  }
  for (int32_t i = 0; i < n; i++) keep_as_it_is(run, i, &factors[i]);
  keep_as_it_is(run, n, out);
  run->ready = true;
  return MMC_OK;
}

/* ---- execution ------------------------------------------------------------------------------- */

static void *address_of(const mmci_cards_run *run, const mmci_spot *spot) {
  if (spot->store == MMCI_IN_ROOM)
    return mmci_address(run->card[spot->rank].room, (int64_t)spot->offset_bytes);
  const mmci_given *g = spot->store == MMCI_IN_FACTOR ? &run->factors[spot->factor] : run->out;
  const mmc_matrix *matrix = spot->rank == MMCI_ON_HOST ? g->matrix : &g->pieces[spot->rank];
  return mmci_address(matrix->data, (int64_t)spot->offset_bytes);
}

/* Waits until another card's thread has got so far. Returns false when somebody has failed. */
static bool await_record(mmci_cards_run *run, int32_t event) {
  pthread_mutex_lock(&run->lock);
  while (!run->recorded[event] && run->status == MMC_OK)
    pthread_cond_wait(&run->changed, &run->lock);
  const bool fine = run->status == MMC_OK;
  pthread_mutex_unlock(&run->lock);
  return fine;
}

static void tell(mmci_cards_run *run, int32_t event, mmc_status status, const mmci_error *error) {
  pthread_mutex_lock(&run->lock);
  if (event >= 0) run->recorded[event] = true;
  if (status != MMC_OK && run->status == MMC_OK) {
    run->status = status;
    run->error = *error;
  }
  pthread_cond_broadcast(&run->changed);
  pthread_mutex_unlock(&run->lock);
}

static mmc_status do_transfer(const mmci_cards_run *run, const mmci_deed *deed, mmci_queue *queue,
                              mmci_error *error) {
  const mmci_device_async *async = opened(run, deed->rank)->ops->async;
  const int64_t size = (int64_t)mmc_dtype_size(run->plan->chain->dtype);
  const mmci_transfer transfer = {.to = address_of(run, &deed->c),
                                  .from = address_of(run, &deed->a),
                                  .to_pitch = deed->to_ld * size,
                                  .from_pitch = deed->form.ld * size,
                                  .lines = deed->rows,
                                  .line_bytes = deed->cols * size};
  return (deed->kind == MMCI_DO_UPLOAD ? async->upload : async->download)(queue, &transfer, error);
}

static mmc_status do_deed(const mmci_cards_run *run, int64_t d, mmci_error *error) {
  const mmci_deed *deed = &run->made.program.deeds[d];
  const mmci_device_ops *ops = opened(run, deed->rank)->ops;
  mmci_queue *queue = run->card[deed->rank].lanes[deed->lane];
  switch (deed->kind) {
    case MMCI_DO_PRODUCT:
      return ops->enqueue(queue, run->kernels[run->kernel_of[d]].kernel, address_of(run, &deed->a),
                          address_of(run, &deed->b), address_of(run, &deed->c), error);
    case MMCI_DO_COPY:
      return ops->async->copy(queue, run->plan->chain->dtype, deed->rows, deed->cols,
                              address_of(run, &deed->a), &deed->form, address_of(run, &deed->c),
                              deed->to_ld, deed->to_trans, error);
    default:
      return do_transfer(run, deed, queue, error);
  }
}

/* Enqueues the deeds of one card, or of all where rank is less than 0. */
static mmc_status enqueue_deeds(mmci_cards_run *run, int32_t rank, mmci_error *error) {
  const mmci_cards_program *p = &run->made.program;
  mmc_status status = MMC_OK;
  for (int64_t d = 0; d < p->deed_count && status == MMC_OK; d++) {
    const mmci_deed *deed = &p->deeds[d];
    if (rank >= 0 && deed->rank != rank) continue;
    const mmci_device_async *async = opened(run, deed->rank)->ops->async;
    mmci_queue *queue = run->card[deed->rank].lanes[deed->lane];
    for (int64_t w = 0; w < deed->wait_count && status == MMC_OK; w++) {
      const mmci_deed *before = &p->deeds[p->waits[deed->wait_first + w]];
      if (rank >= 0 && before->rank != rank && !await_record(run, before->event)) return MMC_OK;
      status = async->event_wait(queue, run->events[before->event], error);
    }
    if (status == MMC_OK) status = do_deed(run, d, error);
    if (status != MMC_OK || deed->event < 0) continue;
    status = async->event_record(queue, run->events[deed->event], error);
    if (rank >= 0 && status == MMC_OK) tell(run, deed->event, MMC_OK, NULL);
  }
  return status;
}

/* Waits for all lanes of a card, and returns the first failure. What failed to wait is asked once
 * more. */
static mmc_status await_card(mmci_cards_run *run, int32_t rank, mmci_error *error) {
  mmc_status status = MMC_OK;
  mmci_error ignored;
  for (int l = 0; l < MMCI_LANES; l++) {
    mmci_queue *lane = run->card[rank].lanes[l];
    const mmc_status waited =
        opened(run, rank)->ops->sync(lane, status == MMC_OK ? error : &ignored);
    if (waited != MMC_OK) (void)opened(run, rank)->ops->sync(lane, &ignored);
    if (status == MMC_OK) status = waited;
  }
  return status;
}

typedef struct worker {
  mmci_cards_run *run;
  int32_t rank;
  pthread_t thread;
  bool started;
} worker;

static void *work(void *argument) {
  const worker *w = argument;
  mmci_error error = {0};
  mmc_status status = enqueue_deeds(w->run, w->rank, &error);
  if (status != MMC_OK) tell(w->run, -1, status, &error);
  status = await_card(w->run, w->rank, &error);
  if (status != MMC_OK) tell(w->run, -1, status, &error);
  return NULL;
}

/* A thread a card: what each copies from the host's memory, it copies by itself. */
static mmc_status execute_in_threads(mmci_cards_run *run, mmci_error *error) {
  worker workers[MMCI_CARDS_MAX];
  const int32_t count = run->cards->count;
  run->status = MMC_OK;
  for (int32_t e = 0; e < run->made.program.event_count; e++) run->recorded[e] = false;
  for (int32_t r = 0; r < count; r++) {
    workers[r] = (worker){.run = run, .rank = r};
    workers[r].started = pthread_create(&workers[r].thread, NULL, work, &workers[r]) == 0;
    if (workers[r].started) continue;
    mmci_error failed;
    (void)mmci_fail(&failed, MMC_E_NOMEM, "pthread_create: no more threads");
    tell(run, -1, MMC_E_NOMEM, &failed);
  }
  for (int32_t r = 0; r < count; r++)
    if (workers[r].started) pthread_join(workers[r].thread, NULL);
  if (run->status != MMC_OK && error != NULL) *error = run->error;
  return run->status;
}

static mmc_status execute_in_turn(mmci_cards_run *run, mmci_error *error) {
  mmc_status status = enqueue_deeds(run, -1, error);
  mmci_error ignored;
  for (int32_t r = 0; r < run->cards->count; r++) {
    mmc_status waited = await_card(run, r, status == MMC_OK ? error : &ignored);
    if (status == MMC_OK) status = waited;
  }
  return status;
}

static bool is_any_on_host(const mmci_cards_run *run) {
  bool any = run->out->on_host;
  for (int32_t i = 0; i < run->plan->chain->n; i++) any = any || run->factors[i].on_host;
  return any;
}

mmc_status mmci_cards_run_execute(mmci_cards_run *run, const mmci_given *factors,
                                  const mmci_given *out, bool *alone, mmci_error *error) {
  *alone = false;
  mmc_status status = make_ready(run, factors, out, error);
  if (status != MMC_OK) return status;
  *alone = run->made.alone != NULL;
  if (*alone) return MMC_OK;
  run->factors = factors;
  run->out = out;
  if (is_any_on_host(run) && !run->cards->one_thread) return execute_in_threads(run, error);
  return execute_in_turn(run, error);
}

mmc_status mmci_cards_await_stream(mmci_cards_run *run, void *stream, mmci_error *error) {
  const mmci_opened *first = opened(run, 0);
  const mmci_device_async *async = first->ops->async;
  mmc_status status = open_lanes(run, error);
  if (status != MMC_OK) return status;
  if (async->is_capturing(first->device, stream))
    return mmci_fail(error, MMC_E_ARG,
                     "stream: a stream that is being captured cannot take several devices");
  async->queue_attach(run->card[0].lanes[0], stream);
  status = first->ops->sync(run->card[0].lanes[0], error);
  async->queue_detach(run->card[0].lanes[0]);
  return status;
}
