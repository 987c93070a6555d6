/* test_libraries.c: files of every format, read and written while an allocation fails anywhere in
 * the process: in mmchain, libhdf5, matio, zlib, Jansson, the dynamic linker or the C library.
 *
 * Each time a process of its own does it, with the libraries not yet loaded or in use already. It
 * must end with an error, or be right: no crash, no endless loop, no output that is neither the old
 * nor the new; and without failures the same process must be right afterwards. libhdf5 and matio
 * may end the process or fail ever after, where one of their own allocations fails; but not where
 * memory is short as it is in earnest, by a limit of the process.
 *
 *     MMCHAIN_TEST_LONG=1    each allocation of later jobs and 60 of first ones; a few without
 *     MMCHAIN_TEST_SEED=N    others of them
 *     MMCHAIN_TEST_TOLD=1    prints what other libraries do
 *     MMCHAIN_TEST_ONE=JOB,HOW,N,COLD
 *                            that one alone, in this process, to find out what it does: HOW is 0
 * for one allocation, 1 for all from there on, 2 within N bytes */
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../expect.h"
#include "../failing_malloc.h"
#include "../how_many.h"
#include "../random.h"
#include "mmchain.h"

enum { SIDE = 9 };

static double numbers[2 * SIDE * SIDE];
static char directory[64];
static char message[480];

/* ---- jobs ------------------------------------------------------------------------------------ */

/* What is done, with which file; *sum becomes a number of what was read. */
typedef struct job {
  const char *name; /* also the file's, which is made or copied from the tests' */
  const char *from; /* under tests/; NULL means that a job before has made it */
  mmc_status (*run)(mmc_context *context, const char *path, uint64_t *sum);
  bool writes;
} job;

static const uint64_t no_bytes = 0xcbf29ce484222325u;

static void add_bytes(uint64_t *sum, const void *bytes, size_t size) {
  for (size_t b = 0; b < size; b++)
    *sum = (*sum ^ ((const unsigned char *)bytes)[b]) * 0x100000001b3u;
}

static mmc_status write_dense(mmc_context *context, const char *path, uint64_t *sum) {
  const mmc_matrix matrix = {
      .data = numbers, .rows = SIDE, .cols = SIDE, .layout = MMC_COL_MAJOR, .ld = SIDE};
  (void)sum;
  const bool is_real = strstr(path, ".safetensors") != NULL;
  return mmc_file_write(context, path, is_real ? MMC_F64 : MMC_C128, &matrix, 2);
}

static mmc_status write_sparse(mmc_context *context, const char *path, uint64_t *sum) {
  static const int32_t indptr[] = {0, 2, 2, 5}, indices[] = {0, 3, 1, 2, 3};
  const mmc_csr matrix = {3, 4, 4, indptr, indices, numbers};
  (void)sum;
  return mmc_sparse_write(context, path, MMC_F64, &matrix);
}

static mmc_status read_dense(mmc_context *context, const char *path, uint64_t *sum) {
  mmc_file *file = (mmc_file *)&message;
  const mmc_status status = mmc_file_open(context, path, &file);
  if (status != MMC_OK) {
    if (file != (mmc_file *)&message) *sum = 1; /* out is written on success alone */
    return status;
  }
  const mmc_matrix matrix = mmc_file_matrix(file);
  const int64_t *shape = mmc_file_shape(file);
  size_t size = mmc_dtype_size(mmc_file_dtype(file));
  for (int d = 0; d < mmc_file_ndim(file); d++) size *= (size_t)shape[d];
  add_bytes(sum, shape, sizeof *shape * (size_t)mmc_file_ndim(file));
  add_bytes(sum, matrix.data, size);
  mmc_file_destroy(file);
  return MMC_OK;
}

static mmc_status read_sparse(mmc_context *context, const char *path, uint64_t *sum) {
  mmc_sparse *sparse = NULL;
  const mmc_status status = mmc_sparse_open(context, path, &sparse);
  if (status != MMC_OK) return status;
  const mmc_csr csr = mmc_sparse_csr(sparse);
  const int64_t nonzeros = csr.index_bytes == 4 ? ((const int32_t *)csr.indptr)[csr.rows]
                                                : ((const int64_t *)csr.indptr)[csr.rows];
  add_bytes(sum, csr.indptr, (size_t)csr.index_bytes * (size_t)(csr.rows + 1));
  add_bytes(sum, csr.indices, (size_t)csr.index_bytes * (size_t)nonzeros);
  add_bytes(sum, csr.values, mmc_dtype_size(mmc_sparse_dtype(sparse)) * (size_t)nonzeros);
  mmc_sparse_destroy(sparse);
  return MMC_OK;
}

static const job jobs[] = {
    {"written.npy", NULL, write_dense, true},
    {"written.npz", NULL, write_dense, true},
    {"written.safetensors", NULL, write_dense, true},
    {"written.mtx", NULL, write_dense, true},
    {"written.h5", NULL, write_dense, true},
    {"written.mat", NULL, write_dense, true},
    {"sparse.npz", NULL, write_sparse, true},
    {"sparse.mtx", NULL, write_sparse, true},
    {"written.npy", NULL, read_dense, false},
    {"written.npz", NULL, read_dense, false},
    {"written.safetensors", NULL, read_dense, false},
    {"written.mtx", NULL, read_dense, false},
    {"written.h5", NULL, read_dense, false},
    {"written.mat", NULL, read_dense, false},
    {"sparse.npz", NULL, read_dense, false},
    {"sparse.mtx", NULL, read_dense, false},
    {"sparse.npz", NULL, read_sparse, false},
    {"sparse.mtx", NULL, read_sparse, false},
    {"deflated.npz:x", "fuzz/corpus/npz/deflated", read_dense, false},
    {"chunked.h5", "faults/chunked.h5", read_dense, false},
    {"zipped.mat:w", "fuzz/corpus/matlab/zipped", read_dense, false},
    {"seven.mat:c", "faults/seven.mat", read_dense, false},
};
enum { JOBS = sizeof jobs / sizeof jobs[0] };

/* Returns a number of a file's bytes; 0 when there is none. */
static uint64_t sum_of_file(const char *path) {
  static unsigned char bytes[1 << 16];
  uint64_t sum = no_bytes;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  for (ssize_t got; (got = read(file, bytes, sizeof bytes)) > 0;)
    add_bytes(&sum, bytes, (size_t)got);
  close(file);
  return sum;
}

static const char old_content[] = "the old content";

/* ---- one process ----------------------------------------------------------------------------- */

/* What comes of a job. Two are another library's own affair, which SECURITY.md speaks of: it fails
 * ever after, or ends the process. */
typedef enum outcome {
  RIGHT,
  REFUSED,
  SPOILED,
  CRASHED_ELSEWHERE,
  WRONG,
  CRASHED,
  SKIPPED
} outcome;

/* What a process tells the one that waits for it. */
typedef struct report {
  long allocations;
  uint64_t sum;
  mmc_status status;
  char text[300];
} report;
static report *told;

static volatile sig_atomic_t ended = -1; /* what a process has done, when it is about to end */

/* Ends a process that has crashed, by where it has: in another library, or in code of ours. What a
 * library does to itself at the end does not count. We never abort: the C library does where it
 * finds the heap damaged, at the next allocation of whomever, which says nothing of who did it. */
static void end_crashed(int number) {
  if (ended >= 0) _Exit(ended);
  void *frames[64];
  const int count = backtrace(frames, 64);
  Dl_info found;
  bool is_elsewhere = false;
  /* The first frames are this function and those of the C library, which has no part in it. */
  for (int f = 1; f < count; f++) {
    if (dladdr(frames[f], &found) == 0 || found.dli_fname == NULL) continue;
    const char *file = strrchr(found.dli_fname, '/');
    file = file != NULL ? file + 1 : found.dli_fname;
    const bool is_allocator = found.dli_sname != NULL && strstr(found.dli_sname, "alloc") != NULL;
    if (strncmp(file, "libc.", 5) == 0 || strncmp(file, "ld-", 3) == 0 || is_allocator) continue;
    is_elsewhere =
        number == SIGABRT || (strstr(file, ".so") != NULL && strstr(file, "mmchain") == NULL);
    snprintf(told->text, sizeof told->text, "signal %d in %.100s, %.100s", number, file,
             found.dli_sname != NULL ? found.dli_sname : "?");
    break;
  }
  _Exit(is_elsewhere ? CRASHED_ELSEWHERE : CRASHED); /* without what others do at the end */
}

static void catch_crashes(void) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM};
  static char memory[1 << 16];
  void *frames[4];
  const stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
  struct sigaction action = {.sa_handler = end_crashed, .sa_flags = SA_ONSTACK};
  (void)backtrace(frames, 4); /* loads what it needs, while there is memory */
  (void)sigaltstack(&stack, NULL);
  for (size_t s = 0; s < sizeof signals / sizeof signals[0]; s++)
    sigaction(signals[s], &action, NULL);
}

static mmc_status attempt(const job *j, const char *path, uint64_t *sum) {
  mmc_context *context = NULL;
  *sum = 0;
  mmc_status status = mmc_context_create(NULL, &context);
  if (status == MMC_OK) status = j->run(context, path, sum);
  if (context != NULL) mmc_context_message(context, message, sizeof message);
  if (status != MMC_OK) snprintf(told->text, sizeof told->text, "%.299s", message);
  mmc_context_destroy(context);
  told->status = status;
  return status;
}

/* How memory fails: allocation n, all from there on, or what exceeds n bytes more than there are.
 */
typedef enum how { ONCE, FOR_GOOD, WITHIN, NEVER } how;
static const char *const hows[] = {"one fails", "one and all after it fail", "within a limit", ""};

typedef struct fault {
  how how;
  long n;
  bool is_cold; /* the libraries have not been used before */
} fault;

/* Limits the memory of this process that can be written to, so much of which is there already. */
static bool limit_memory(long more) {
  struct rlimit limit;
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return false;
  const bool is_read = fscanf(file, "%*d %*d %*d %*d %*d %ld", &pages) == 1;
  fclose(file);
  if (!is_read || getrlimit(RLIMIT_DATA, &limit) != 0) return false;
  limit.rlim_cur = (rlim_t)(pages * sysconf(_SC_PAGESIZE) + more);
  return setrlimit(RLIMIT_DATA, &limit) == 0;
}
static void limit_memory_no_more(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_DATA, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_DATA, &limit);
}

/* Does a job with the failure that is asked for. wanted is what reading gives, or the new file's
 * sum; old is the sum of the file that is written over. */
static outcome do_job(const job *j, const char *path, const fault *f, uint64_t wanted,
                      uint64_t old) {
  uint64_t sum = 0;
  if (!f->is_cold && attempt(j, path, &sum) != MMC_OK) return SKIPPED;
  if (j->writes && f->how != NEVER) {
    const int file = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0666);
    const bool made = file >= 0 && write(file, old_content, strlen(old_content)) > 0;
    if (file >= 0) close(file);
    if (!made) return SKIPPED;
  }
  const bool counts = f->how == ONCE || f->how == FOR_GOOD;
  if (f->how == WITHIN && !limit_memory(f->n)) return SKIPPED;
  malloc_fails_after(counts ? f->n : LONG_MAX, f->how == FOR_GOOD);
  const mmc_status status = attempt(j, path, &sum);
  const long failed = malloc_fails_no_more(&told->allocations);
  limit_memory_no_more();
  if (j->writes) sum = sum_of_file(path);
  told->sum = sum;
  if (f->how == NEVER) return status == MMC_OK ? RIGHT : SKIPPED;
  if (status == MMC_OK ? sum != wanted : sum != (j->writes ? old : 0)) return WRONG;
  if (status != MMC_OK && counts && failed == 0) return WRONG;
  if (attempt(j, path, &sum) != MMC_OK) return SPOILED;
  if ((j->writes ? sum_of_file(path) : sum) != wanted) return WRONG;
  told->status = status;
  return status == MMC_OK ? RIGHT : REFUSED;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef struct tally {
  int outcomes[SKIPPED + 1];
} tally;

static int run_child(const job *j, const char *path, const fault *f, uint64_t wanted,
                     uint64_t old) {
  int status = 0;
  told->text[0] = '\0';
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    catch_crashes();
    alarm(60);
    ended = (int)do_job(j, path, f, wanted, old);
    exit(ended); /* so that what modules count is written */
  }
  if (child < 0 || waitpid(child, &status, 0) != child) return CRASHED;
  return WIFEXITED(status) ? WEXITSTATUS(status) : CRASHED;
}

static void print_fault(const job *j, const fault *f) {
  printf("%s %s %s, %s, %ld", j->writes ? "writing" : "reading", j->name,
         f->is_cold ? "for the first time" : "again", hows[f->how], f->n);
}

static void check_one(const job *j, const char *path, const fault *f, uint64_t wanted, uint64_t old,
                      tally *t) {
  static const char *const outcomes[] = {"right",           "refused",  "fails ever after",
                                         "another crashes", "is wrong", "crashes",
                                         "cannot be tried"};
  int came = run_child(j, path, f, wanted, old);
  checks++;
  /* Formats that are read without another library are never spoiled. libhdf5 may call exit(). */
  const bool is_other = strstr(path, ".h5") != NULL || strstr(path, ".mat") != NULL;
  if (is_other && came > SKIPPED) came = CRASHED_ELSEWHERE;
  if (came > SKIPPED) came = CRASHED;
  t->outcomes[came]++;
  const bool is_fine =
      came <= REFUSED || (is_other && came <= CRASHED_ELSEWHERE && f->how != WITHIN);
  if (came <= REFUSED || (is_fine && getenv("MMCHAIN_TEST_TOLD") == NULL)) return;
  failures += !is_fine;
  printf(is_fine ? "  " : "FAILED: ");
  print_fault(j, f);
  printf(": %s; %s\n", outcomes[came], told->text);
}

/* Makes or copies the file of a job; false when its format is not here. */
static bool prepare(const job *j, char path[static 200], char name[static 200]) {
  static char bytes[1 << 16];
  snprintf(name, 200, "%s/%s", directory, j->name);
  snprintf(path, 200, "%s", name);
  char *colon = strrchr(path, ':');
  if (colon != NULL) *colon = '\0';
  if (j->from == NULL) return true;
  char from[400];
  snprintf(from, sizeof from, "%s/%s", MMC_TESTS, j->from);
  FILE *source = fopen(from, "rb"), *copy = fopen(path, "wb");
  bool copied = source != NULL && copy != NULL;
  const size_t size = copied ? fread(bytes, 1, sizeof bytes, source) : 0;
  copied = copied && fwrite(bytes, 1, size, copy) == size;
  if (source != NULL) fclose(source);
  return copy != NULL && fclose(copy) == 0 && copied;
}

static void check_job(int number, uint64_t *state, bool is_long) {
  const job *j = &jobs[number];
  char path[200], name[200];
  if (!expect(prepare(j, path, name), "a file of the tests")) return;
  for (int is_cold = 1; is_cold >= 0; is_cold--) {
    fault f = {.how = NEVER, .is_cold = is_cold != 0};
    if (run_child(j, name, &f, 0, 0) != RIGHT) {
      printf("%2d %s: %s\n", number, j->name, told->text);
      return;
    }
    const uint64_t wanted = told->sum;
    uint64_t old = no_bytes;
    add_bytes(&old, old_content, strlen(old_content));
    const long all = told->allocations;
    for (f.how = ONCE; f.how < NEVER; f.how++) {
      tally t = {0};
      const long end = f.how == WITHIN ? 24L << 20 : all;
      const long in_full = f.how == WITHIN ? 30 : is_cold != 0 ? 60 : 300;
      const long most = is_long ? in_full : is_cold != 0 ? 3 : 6;
      const long step = end > most ? end / most : 1;
      for (f.n = step > 1 ? random_below(state, step) : 0; f.n < end; f.n += step)
        check_one(j, name, &f, wanted, old, &t);
      printf("%2d ", number);
      f.n = end;
      print_fault(j, &f);
      printf(": %d refused, %d right", t.outcomes[REFUSED], t.outcomes[RIGHT]);
      if (t.outcomes[SPOILED] + t.outcomes[CRASHED_ELSEWHERE] > 0)
        printf("; another library fails ever after %d, crashes %d", t.outcomes[SPOILED],
               t.outcomes[CRASHED_ELSEWHERE]);
      printf("\n");
    }
  }
}

/* Does one job in this process, where a debugger sees it. */
static int do_one(const char *which) {
  char path[200], name[200], *at;
  const long number = strtol(which, &at, 10), how_number = strtol(at + 1, &at, 10);
  fault f = {.how = (how)how_number, .n = strtol(at + 1, &at, 10)};
  f.is_cold = strtol(at + 1, &at, 10) != 0;
  if (number < 0 || number >= JOBS || !prepare(&jobs[number], path, name)) return 1;
  if (jobs[number].from == NULL && !jobs[number].writes) {
    mmc_context *context;
    uint64_t sum;
    const bool is_sparse = strncmp(jobs[number].name, "sparse", 6) == 0;
    if (mmc_context_create(NULL, &context) != MMC_OK) return 1;
    (is_sparse ? write_sparse : write_dense)(context, name, &sum);
    mmc_context_destroy(context);
  }
  const outcome came = do_job(&jobs[number], name, &f, 0, 0);
  printf("%s, outcome %d, %s: %s\n", name, (int)came, mmc_status_string(told->status), told->text);
  return 0;
}

int main(void) {
  const char *seed = getenv("MMCHAIN_TEST_SEED"), *one = getenv("MMCHAIN_TEST_ONE");
  uint64_t state = seed != NULL ? strtoull(seed, NULL, 10) : 20;
  printf("seed %" PRIu64 "\n", state);
  for (int i = 0; i < 2 * SIDE * SIDE; i++) numbers[i] = 0.5 + i;
  /* Where there is a file system in memory, writing waits for no disk. */
  snprintf(directory, sizeof directory, "%s/mmchain-libraries-XXXXXX",
           access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (told == MAP_FAILED || mkdtemp(directory) == NULL) return 1;
  if (one != NULL) return do_one(one);
  for (int j = 0; j < JOBS; j++) check_job(j, &state, is_in_full());
  for (int j = 0; j < JOBS; j++) {
    char path[200], name[200];
    prepare(&jobs[j], path, name);
    unlink(path);
  }
  expect(rmdir(directory) == 0, "no file is left beside the outputs");
  return expect_summary();
}
