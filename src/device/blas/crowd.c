/* crowd.c: reads the clocks of some threads twice. Which threads there are is looked up now and
 * then; of many, those are watched that have used the processors most. */
#include "device/blas/crowd.h"

#if defined(__linux__)
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/monotonic.h"

/* The threads that are watched at most, and that are left out at most. */
enum { WATCHED = 8, LEFT_OUT = 256 };

/* Seconds from one look at which threads there are to the next, and between two readings. */
static const double list_every_s = 0.25, pause_s = 3e-6;

typedef struct watched {
  int thread;      /* its number, as the system counts */
  int64_t used_ns; /* nanoseconds of processor time when its clock was last read */
  bool has_run;    /* whether it has run since the reading before */
} watched;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static watched threads[WATCHED];
static int watched_count, other_count; /* other_count: of those that may be watched */
static double listed_s;                /* when threads were listed; 0 before */
static int left_out[LEFT_OUT], left_out_count;
static atomic_int last_running;
static _Thread_local int own_number;

static int number_of_caller(void) {
  if (own_number == 0) own_number = (int)syscall(SYS_gettid);
  return own_number;
}

/* Reads a thread's clock; returns -1 when there is no such thread. The clock's number is what
 * pthread_getcpuclockid() makes of a thread's. */
static int64_t read_clock(int thread) {
  struct timespec t;
  if (clock_gettime((clockid_t)((~(unsigned)thread << 3) | 6U), &t) != 0) return -1;
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- which threads there are ----------------------------------------------------------------- */

static bool is_left_out(int thread) {
  for (int i = 0; i < left_out_count; i++)
    if (left_out[i] == thread) return true;
  return false;
}

/* Watches a thread if it has used more than one of those that are. */
static void consider(int thread) {
  const int64_t used_ns = is_left_out(thread) ? -1 : read_clock(thread);
  if (used_ns < 0) return;
  other_count++;
  int at = watched_count < WATCHED ? watched_count++ : WATCHED - 1;
  if (other_count > WATCHED && threads[at].used_ns >= used_ns) return;
  for (; at > 0 && threads[at - 1].used_ns < used_ns; at--) threads[at] = threads[at - 1];
  threads[at] = (watched){.thread = thread, .used_ns = used_ns};
}

/* Lists the threads without taking memory, as executions take none. */
static void list_threads(void) {
  struct entry {
    uint64_t number;
    int64_t offset;
    unsigned short length;
    unsigned char type;
    char name[];
  };
  _Alignas(struct entry) char entries[4096];
  watched_count = other_count = 0;
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  long bytes;
  while ((bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0)
    for (long at = 0; at < bytes;) {
      const struct entry *entry = (const struct entry *)(entries + at);
      const int thread = (int)strtol(entry->name, NULL, 10);
      if (thread > 0) consider(thread);
      at += entry->length;
    }
  close(folder);
}

/* ---- which of them run ----------------------------------------------------------------------- */

/* Reads all clocks; returns how many threads but the caller have run since the last reading. */
static int read_all(bool all) {
  const int self = number_of_caller();
  int count = 0;
  for (int i = 0; i < watched_count; i++) {
    watched *x = &threads[i];
    if (x->thread == self) x->has_run = false;
    if (x->thread == self || !(all || x->has_run)) continue;
    const int64_t used_ns = read_clock(x->thread);
    if (used_ns < 0) listed_s = 0;
    x->has_run = used_ns > x->used_ns;
    x->used_ns = used_ns;
    count += x->has_run;
  }
  return count;
}

/* Returns how many of those that have run lately use more than half of a processor now. */
static int count_running(void) {
  int64_t before_ns[WATCHED];
  int count = 0;
  const double begin_s = mmci_now_s();
  for (int i = 0; i < watched_count; i++) before_ns[i] = threads[i].used_ns;
  while (mmci_now_s() < begin_s + pause_s) continue;
  (void)read_all(false);
  const double passed_ns = 1e9 * (mmci_now_s() - begin_s);
  for (int i = 0; i < watched_count; i++)
    count += threads[i].has_run && (double)(threads[i].used_ns - before_ns[i]) > passed_ns / 2;
  return count;
}

static int count_now(void) {
  const double now_s = mmci_now_s();
  if (listed_s == 0 || now_s > listed_s + list_every_s) {
    list_threads();
    listed_s = now_s;
    for (int i = 0; i < watched_count; i++) threads[i].has_run = threads[i].thread != own_number;
  } else if (read_all(true) == 0) {
    return 0;
  }
  const int count = count_running();
  return count == WATCHED ? other_count : count;
}

int mmci_crowd_running(void) {
  (void)number_of_caller();
  if (pthread_mutex_trylock(&lock) != 0) return atomic_load(&last_running);
  const int count = count_now();
  atomic_store(&last_running, count);
  pthread_mutex_unlock(&lock);
  return count;
}

bool mmci_crowd_is_there(int threads_wanted) {
  static atomic_int processors;
  int there = atomic_load(&processors);
  if (there == 0) {
    cpu_set_t set;
    there = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                        : (int)sysconf(_SC_NPROCESSORS_ONLN);
    atomic_store(&processors, there);
  }
  return mmci_crowd_running() + threads_wanted > there;
}

/* ---- threads that are left out ----------------------------------------------------------------
 */

void mmci_crowd_leave_out(void) {
  pthread_mutex_lock(&lock);
  if (left_out_count < LEFT_OUT) left_out[left_out_count++] = number_of_caller();
  listed_s = 0;
  pthread_mutex_unlock(&lock);
}

void mmci_crowd_count_again(void) {
  const int self = number_of_caller();
  pthread_mutex_lock(&lock);
  for (int i = 0; i < left_out_count; i++)
    if (left_out[i] == self) left_out[i--] = left_out[--left_out_count];
  pthread_mutex_unlock(&lock);
}

void mmci_crowd_forget(void) {
  pthread_mutex_init(&lock, NULL);
  left_out_count = watched_count = 0;
  listed_s = 0;
  own_number = 0;
}
#else
int mmci_crowd_running(void) {
  return 0;
}

bool mmci_crowd_is_there(int threads) {
  (void)threads;
  return false;
}

void mmci_crowd_leave_out(void) {}

void mmci_crowd_count_again(void) {}

void mmci_crowd_forget(void) {}
#endif
