/* transfers.c: matrices from the host's memory to the device's and back.
 *
 * The device reads and writes page-locked memory by itself. What lies elsewhere goes through a ring
 * of page-locked slots that threads fill (uploads) and empty (downloads), each a slot at a time,
 * since one core copies slower than the device does. Lines are packed in a slot. Slots are taken in
 * turn: a slot is free again once the device has read it, or once a thread has carried to its
 * destination what the device wrote, which is seen to when the slot's turn comes, or at a sync.
 *
 * One ring serves all queues of a device. Its lock is held for a whole transfer; the pool's lock
 * guards the slots' tasks alone. */
#include <sched.h>
#include <signal.h>
#include <string.h>

#include "base/alloc.h"
#include "device/cuda/cuda_device.h"

/* Larger slots start later, and smaller ones cost the device more pauses. */
enum {
  SLOTS = 32,
  SLOT_BYTES = 2 << 20,
  PIECE_MIN_BYTES = 512 << 10,
  RAMP = 16,  /* a piece is so small a part of the less of what lies behind it and ahead */
  AHEAD = 24, /* slots that are being filled; the device reads the others */
  WORKERS_MAX = 12,
  PLAIN_MOST_BYTES = 8 << 20,
};

typedef enum use { FREE, UPLOADING, DOWNLOADING, EMPTYING } use;
typedef enum task { NONE, WAITING, RUNNING } task;

/* A part of a transfer that fits a slot. */
typedef struct piece {
  char *host, *device;
  int64_t host_pitch, device_pitch, lines, line_bytes;
} piece;

typedef struct slot {
  char *bytes;
  cudaEvent_t event; /* recorded when the device is done with the slot */
  use use;
  mmci_queue *queue; /* the queue of a download */
  piece piece;
  task task; /* state of the copy between host and slot; guarded by pool_lock */
} slot;

struct mmci_ring {
  pthread_mutex_t lock;
  slot slots[SLOTS];
  int next; /* the slot whose turn it is, the oldest */

  pthread_mutex_t pool_lock;
  pthread_cond_t work, done;
  const slot *awaited; /* somebody sleeps until its task is done */
  bool stop;
  int idle, workers;
  pthread_t threads[WORKERS_MAX];
};

/* ---- the pool -------------------------------------------------------------------------------- */

static void copy_piece(const slot *s) {
  const piece *p = &s->piece;
  size_t size = (size_t)p->line_bytes;
  for (int64_t line = 0; line < p->lines; line++) {
    char *host = p->host + line * p->host_pitch, *packed = s->bytes + line * p->line_bytes;
    if (s->use == UPLOADING)
      memcpy(packed, host, size);
    else
      memcpy(host, packed, size);
  }
}

/* Does the slot's waiting task. pool_lock is held, except while it copies. */
static void run_task(mmci_ring *ring, slot *s) {
  s->task = RUNNING;
  pthread_mutex_unlock(&ring->pool_lock);
  copy_piece(s);
  pthread_mutex_lock(&ring->pool_lock);
  s->task = NONE;
  if (ring->awaited == s) pthread_cond_signal(&ring->done);
}

/* Returns the waiting task at or after *turn, or NULL. */
static slot *next_task(mmci_ring *ring, int *turn) {
  for (int t = 0; t < SLOTS; t++) {
    slot *s = &ring->slots[(*turn + t) % SLOTS];
    if (s->task != WAITING) continue;
    *turn = (*turn + t + 1) % SLOTS;
    return s;
  }
  return NULL;
}

static void *work_on_slots(void *user) {
  mmci_ring *ring = user;
  int turn = 0;
  pthread_mutex_lock(&ring->pool_lock);
  while (!ring->stop) {
    slot *s = next_task(ring, &turn);
    if (s != NULL) {
      run_task(ring, s);
      continue;
    }
    ring->idle++;
    pthread_cond_wait(&ring->work, &ring->pool_lock);
    ring->idle--;
  }
  pthread_mutex_unlock(&ring->pool_lock);
  return NULL;
}

static void submit(mmci_ring *ring, slot *s) {
  pthread_mutex_lock(&ring->pool_lock);
  s->task = WAITING;
  if (ring->idle > 0) pthread_cond_signal(&ring->work);
  pthread_mutex_unlock(&ring->pool_lock);
}

/* Finishes the slot's task; this thread does it when no other has begun. */
static void finish_slot(mmci_ring *ring, slot *s) {
  pthread_mutex_lock(&ring->pool_lock);
  if (s->task == WAITING) run_task(ring, s);
  ring->awaited = s;
  while (s->task != NONE) pthread_cond_wait(&ring->done, &ring->pool_lock);
  ring->awaited = NULL;
  pthread_mutex_unlock(&ring->pool_lock);
}

/* Starts as many threads as there are cores, without the caller's; none is no error. */
static void start_workers(mmci_ring *ring) {
  cpu_set_t cores;
  int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) - 1 : 0;
  if (count > WORKERS_MAX) count = WORKERS_MAX;
  /* The program's signals are not for these threads. */
  sigset_t all, before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
  while (ring->workers < count &&
         pthread_create(&ring->threads[ring->workers], NULL, work_on_slots, ring) == 0)
    ring->workers++;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- the ring -------------------------------------------------------------------------------- */

void mmci_cuda_ring_destroy(mmci_ring *ring) {
  if (ring == NULL) return;
  pthread_mutex_lock(&ring->pool_lock);
  ring->stop = true;
  pthread_cond_broadcast(&ring->work);
  pthread_mutex_unlock(&ring->pool_lock);
  for (int t = 0; t < ring->workers; t++) pthread_join(ring->threads[t], NULL);
  for (int t = 0; t < SLOTS; t++)
    if (ring->slots[t].event != NULL) mmci_cuda_ignore(cudaEventDestroy(ring->slots[t].event));
  if (ring->slots[0].bytes != NULL) mmci_cuda_ignore(cudaFreeHost(ring->slots[0].bytes));
  pthread_cond_destroy(&ring->done);
  pthread_cond_destroy(&ring->work);
  pthread_mutex_destroy(&ring->pool_lock);
  pthread_mutex_destroy(&ring->lock);
  free(ring);
}

static mmc_status fill_ring(mmci_ring *ring, mmci_error *error) {
  void *bytes = NULL;
  MMCI_CUDA_TRY(cudaHostAlloc(&bytes, (size_t)SLOTS * SLOT_BYTES, cudaHostAllocPortable));
  for (int t = 0; t < SLOTS; t++) ring->slots[t].bytes = (char *)bytes + (size_t)t * SLOT_BYTES;
  for (int t = 0; t < SLOTS; t++)
    MMCI_CUDA_TRY(cudaEventCreateWithFlags(&ring->slots[t].event, cudaEventDisableTiming));
  start_workers(ring);
  return MMC_OK;
}

static mmc_status create_ring(mmci_ring **out, mmci_error *error) {
  mmci_ring *ring = mmci_alloc_zeroed(1, sizeof *ring);
  if (ring == NULL) return mmci_fail_nomem(error, sizeof *ring);
  /* None of these can fail with the attributes given. */
  pthread_mutex_init(&ring->lock, NULL);
  pthread_mutex_init(&ring->pool_lock, NULL);
  pthread_cond_init(&ring->work, NULL);
  pthread_cond_init(&ring->done, NULL);
  mmc_status status = fill_ring(ring, error);
  if (status == MMC_OK)
    *out = ring;
  else
    mmci_cuda_ring_destroy(ring);
  return status;
}

static mmc_status find_ring(mmci_device *device, mmci_error *error) {
  pthread_mutex_lock(&device->lock);
  mmc_status status = device->ring != NULL ? MMC_OK : create_ring(&device->ring, error);
  pthread_mutex_unlock(&device->lock);
  return status;
}

/* Lets the slot's download go on once the device has written it. */
static mmc_status begin_emptying(mmci_ring *ring, slot *s, mmci_error *error) {
  mmc_status status =
      mmci_cuda_check(cudaEventSynchronize(s->event), "cudaEventSynchronize", error);
  if (status != MMC_OK) {
    s->use = FREE;
    atomic_store(&s->queue->lost, true);
    atomic_fetch_sub(&s->queue->downloads, 1);
    return status;
  }
  s->use = EMPTYING;
  submit(ring, s);
  return MMC_OK;
}

static void end_emptying(mmci_ring *ring, slot *s) {
  finish_slot(ring, s);
  s->use = FREE;
  atomic_fetch_sub(&s->queue->downloads, 1);
}

/* Waits for the oldest download, and lets those that have arrived go on beside it. */
static mmc_status empty_oldest(mmci_ring *ring, mmci_error *error) {
  for (int t = 0; t < SLOTS; t++) {
    slot *s = &ring->slots[(ring->next + t) % SLOTS];
    if (s->use != DOWNLOADING) continue;
    if (t > 0) {
      cudaError_t code = cudaEventQuery(s->event);
      mmci_cuda_ignore(code);
      if (code != cudaSuccess) break;
    }
    mmc_status status = begin_emptying(ring, s, error);
    if (status != MMC_OK) return status;
  }
  slot *oldest = &ring->slots[ring->next];
  if (oldest->use == EMPTYING) end_emptying(ring, oldest);
  return MMC_OK;
}

/* Returns the next slot, free. */
static mmc_status take_slot(mmci_ring *ring, slot **out, mmci_error *error) {
  slot *s = &ring->slots[ring->next];
  mmc_status status = MMC_OK;
  if (s->use == UPLOADING) {
    status = mmci_cuda_check(cudaEventSynchronize(s->event), "cudaEventSynchronize", error);
    s->use = FREE;
  } else if (s->use != FREE) {
    status = empty_oldest(ring, error);
  }
  if (status != MMC_OK) return status;
  ring->next = (ring->next + 1) % SLOTS;
  *out = s;
  return MMC_OK;
}

mmc_status mmci_cuda_drain(mmci_queue *queue, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (atomic_load(&queue->downloads) == 0) return MMC_OK;
  mmci_ring *ring = queue->device->ring;
  pthread_mutex_lock(&ring->lock);
  for (int t = 0; t < SLOTS; t++) {
    slot *s = &ring->slots[(ring->next + t) % SLOTS];
    if (s->use != DOWNLOADING || s->queue != queue) continue;
    mmc_status begun = begin_emptying(ring, s, status == MMC_OK ? error : NULL);
    if (status == MMC_OK) status = begun;
  }
  for (int t = 0; t < SLOTS; t++) {
    slot *s = &ring->slots[(ring->next + t) % SLOTS];
    if (s->use == EMPTYING && s->queue == queue) end_emptying(ring, s);
  }
  pthread_mutex_unlock(&ring->lock);
  return status;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* How far a transfer has got. */
typedef struct walk {
  piece whole;
  int64_t line, byte;    /* the next line, and the next byte in it */
  int64_t behind, ahead; /* bytes that are behind, and bytes that lie ahead */
  bool one_by_one;       /* the device cannot step over lines so far apart */
} walk;

static walk begin_walk(const mmci_device *device, piece whole) {
  if (whole.lines <= 0 || whole.line_bytes <= 0) {
    whole.lines = 0;
  } else if (whole.host_pitch == whole.line_bytes && whole.device_pitch == whole.line_bytes) {
    whole.line_bytes *= whole.lines;
    whole.lines = 1;
  }
  return (walk){.whole = whole,
                .ahead = whole.lines * whole.line_bytes,
                .one_by_one = (uint64_t)whole.device_pitch > device->properties.memPitch};
}

/* Pieces are short at both ends: the device starts as soon as the first is filled, and the last is
 * waited for by everybody. */
static int64_t piece_bytes(const walk *w) {
  const int64_t page = 4096, near = w->behind < w->ahead ? w->behind : w->ahead;
  int64_t bytes = near / RAMP / page * page;
  if (bytes < PIECE_MIN_BYTES) return PIECE_MIN_BYTES;
  return bytes < SLOT_BYTES ? bytes : SLOT_BYTES;
}

static bool next_piece(walk *w, piece *out) {
  const piece *whole = &w->whole;
  const int64_t most = piece_bytes(w);
  if (w->line == whole->lines) return false;
  *out = *whole;
  out->host += w->line * whole->host_pitch + w->byte;
  out->device += w->line * whole->device_pitch + w->byte;
  if (w->byte > 0 || whole->line_bytes > most) {
    int64_t left = whole->line_bytes - w->byte;
    out->lines = 1;
    out->line_bytes = left < most ? left : most;
    w->byte = left > most ? w->byte + most : 0;
    w->line += w->byte == 0;
  } else {
    int64_t fit = w->one_by_one ? 1 : most / whole->line_bytes, left = whole->lines - w->line;
    out->lines = left < fit ? left : fit;
    w->line += out->lines;
  }
  w->behind += out->lines * out->line_bytes;
  w->ahead -= out->lines * out->line_bytes;
  return true;
}

/* Enqueues a copy of lines; those of memory that the device cannot step over, one by one. */
static mmc_status copy_lines(const mmci_queue *queue, void *to, int64_t to_pitch, const void *from,
                             int64_t from_pitch, int64_t lines, int64_t line_bytes,
                             enum cudaMemcpyKind kind, mmci_error *error) {
  size_t size = (size_t)line_bytes, pitch_max = queue->device->properties.memPitch;
  if (lines == 1) {
    MMCI_CUDA_TRY(cudaMemcpyAsync(to, from, size, kind, queue->stream));
  } else if ((size_t)to_pitch <= pitch_max && (size_t)from_pitch <= pitch_max) {
    MMCI_CUDA_TRY(cudaMemcpy2DAsync(to, (size_t)to_pitch, from, (size_t)from_pitch, size,
                                    (size_t)lines, kind, queue->stream));
  } else {
    for (int64_t line = 0; line < lines; line++)
      MMCI_CUDA_TRY(cudaMemcpyAsync((char *)to + line * to_pitch,
                                    (const char *)from + line * from_pitch, size, kind,
                                    queue->stream));
  }
  return MMC_OK;
}

/* Finds out whether the device reads or writes the memory by itself, or the driver is to copy it:
 * on a queue that products are on, where copies wait for these anyway, it is faster up to some size
 * (8 MiB in 18 of 21 cases on an H200). */
static mmc_status is_direct(const mmci_queue *queue, const piece *whole, bool *out,
                            mmci_error *error) {
  *out = queue->has_products && whole->lines * whole->line_bytes <= PLAIN_MOST_BYTES;
  if (*out) return MMC_OK;
  const char *last = whole->host + (whole->lines - 1) * whole->host_pitch + whole->line_bytes - 1;
  struct cudaPointerAttributes first_is, last_is;
  MMCI_CUDA_TRY(cudaPointerGetAttributes(&first_is, whole->host));
  MMCI_CUDA_TRY(cudaPointerGetAttributes(&last_is, last));
  *out = first_is.type != cudaMemoryTypeUnregistered && last_is.type != cudaMemoryTypeUnregistered;
  return MMC_OK;
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* Lets the device read a slot that was filled. */
static mmc_status send_slot(mmci_ring *ring, slot *s, const mmci_queue *queue, mmci_error *error) {
  const piece *p = &s->piece;
  finish_slot(ring, s);
  mmc_status status = copy_lines(queue, p->device, p->device_pitch, s->bytes, p->line_bytes,
                                 p->lines, p->line_bytes, cudaMemcpyHostToDevice, error);
  if (status == MMC_OK)
    status = mmci_cuda_check(cudaEventRecord(s->event, queue->stream), "cudaEventRecord", error);
  return status;
}

static mmc_status upload_pieces(mmci_ring *ring, const mmci_queue *queue, walk *w,
                                mmci_error *error) {
  slot *filling[AHEAD];
  int first = 0, count = 0;
  mmc_status status = MMC_OK;
  piece p;
  bool more = next_piece(w, &p);
  while (status == MMC_OK && (more || count > 0)) {
    if (more && count < AHEAD) {
      slot *s = NULL;
      status = take_slot(ring, &s, error);
      if (status != MMC_OK) break;
      s->use = UPLOADING;
      s->piece = p;
      more = next_piece(w, &p);
      filling[(first + count++) % AHEAD] = s;
      /* A single piece is not worth waking anybody. */
      if (more || count > 1)
        submit(ring, s);
      else
        copy_piece(s);
    } else {
      status = send_slot(ring, filling[first], queue, error);
      first = (first + 1) % AHEAD;
      count--;
    }
  }
  /* After a failure the caller may release its memory, and the slots are used again. */
  for (; count > 0; count--, first = (first + 1) % AHEAD) finish_slot(ring, filling[first]);
  if (status != MMC_OK) mmci_cuda_ignore(cudaStreamSynchronize(queue->stream));
  return status;
}

mmc_status mmci_cuda_upload(mmci_queue *queue, const mmci_transfer *t, mmci_error *error) {
  /* Nothing is written through this pointer to the host's memory. */
  const piece whole = {(char *)t->from, t->to, t->from_pitch, t->to_pitch, t->lines, t->line_bytes};
  MMCI_CUDA_ON(queue->device);
  walk w = begin_walk(queue->device, whole);
  bool direct = false;
  if (w.whole.lines == 0) return MMC_OK;
  mmc_status status = is_direct(queue, &w.whole, &direct, error);
  if (status != MMC_OK) return status;
  if (direct)
    return copy_lines(queue, w.whole.device, w.whole.device_pitch, w.whole.host, w.whole.host_pitch,
                      w.whole.lines, w.whole.line_bytes, cudaMemcpyHostToDevice, error);
  status = find_ring(queue->device, error);
  if (status != MMC_OK) return status;
  mmci_ring *ring = queue->device->ring;
  pthread_mutex_lock(&ring->lock);
  status = upload_pieces(ring, queue, &w, error);
  pthread_mutex_unlock(&ring->lock);
  return status;
}

/* ---- downloads ------------------------------------------------------------------------------- */

static mmc_status download_pieces(mmci_ring *ring, mmci_queue *queue, walk *w, mmci_error *error) {
  mmc_status status = MMC_OK;
  piece p;
  while (status == MMC_OK && next_piece(w, &p)) {
    slot *s = NULL;
    status = take_slot(ring, &s, error);
    if (status == MMC_OK)
      status = copy_lines(queue, s->bytes, p.line_bytes, p.device, p.device_pitch, p.lines,
                          p.line_bytes, cudaMemcpyDeviceToHost, error);
    if (status == MMC_OK)
      status = mmci_cuda_check(cudaEventRecord(s->event, queue->stream), "cudaEventRecord", error);
    if (status != MMC_OK) break;
    s->use = DOWNLOADING;
    s->queue = queue;
    s->piece = p;
    atomic_fetch_add(&queue->downloads, 1);
  }
  if (status != MMC_OK) mmci_cuda_ignore(cudaStreamSynchronize(queue->stream));
  return status;
}

mmc_status mmci_cuda_download(mmci_queue *queue, const mmci_transfer *t, mmci_error *error) {
  const piece whole = {t->to, (char *)t->from, t->to_pitch, t->from_pitch, t->lines, t->line_bytes};
  MMCI_CUDA_ON(queue->device);
  walk w = begin_walk(queue->device, whole);
  bool direct = false;
  if (w.whole.lines == 0) return MMC_OK;
  mmc_status status = is_direct(queue, &w.whole, &direct, error);
  if (status != MMC_OK) return status;
  if (direct)
    return copy_lines(queue, w.whole.host, w.whole.host_pitch, w.whole.device, w.whole.device_pitch,
                      w.whole.lines, w.whole.line_bytes, cudaMemcpyDeviceToHost, error);
  status = find_ring(queue->device, error);
  if (status != MMC_OK) return status;
  mmci_ring *ring = queue->device->ring;
  pthread_mutex_lock(&ring->lock);
  status = download_pieces(ring, queue, &w, error);
  pthread_mutex_unlock(&ring->lock);
  return status;
}
