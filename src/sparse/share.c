#include "sparse/share.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/interrupt.h"

int mmci_sparse_threads(double multiplications) {
  const double worth = 2e5; /* multiplications that take longer than starting a thread */
  cpu_set_t set;
  CPU_ZERO(&set);
  int most = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  const char *text = getenv("OMP_NUM_THREADS");
  const long said = text != NULL ? strtol(text, NULL, 10) : 0;
  if (said > 0 && said < most) most = (int)said;
  if (most > MMCI_SPARSE_THREADS) most = MMCI_SPARSE_THREADS;
  const double wanted = multiplications / worth;
  if (!(wanted >= 2)) return 1;
  return wanted < most ? (int)wanted : most;
}

typedef struct sharing {
  atomic_llong next;
  int64_t pieces;
  mmci_sparse_work_fn work;
  void *user;
} sharing;

typedef struct worker {
  sharing *sharing;
  int number;
  pthread_t thread;
} worker;

static void *take_pieces(void *user) {
  const worker *w = user;
  sharing *s = w->sharing;
  for (;;) {
    const int64_t piece = (int64_t)atomic_fetch_add(&s->next, 1);
    if (piece >= s->pieces) return NULL;
    s->work(s->user, w->number, piece);
    if (w->number == 0 && mmci_interrupted()) atomic_store(&s->next, s->pieces);
  }
}

void mmci_sparse_share(int threads, int64_t pieces, mmci_sparse_work_fn work, void *user) {
  sharing s = {.pieces = pieces, .work = work, .user = user};
  worker workers[MMCI_SPARSE_THREADS] = {{.sharing = &s}};
  int started = 1;
  atomic_init(&s.next, 0);
  for (int t = 1; t < threads; t++) workers[t] = (worker){.sharing = &s, .number = t};
  while (started < threads &&
         pthread_create(&workers[started].thread, NULL, take_pieces, &workers[started]) == 0)
    started++;
  take_pieces(&workers[0]);
  for (int t = 1; t < started; t++) pthread_join(workers[t].thread, NULL);
}
