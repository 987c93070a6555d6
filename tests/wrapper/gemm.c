/* gemm.c: a program that knows nothing of mmchain and multiplies by cblas_?gemm and cublas?gemm.
 *
 *     gemm check ROW COLUMN GPU   every dtype, order, op, scalar and leading dimension of one shape
 *                                 against loops of its own; how often the BLAS below must be called
 *                                 for one row-major, column-major and GPU product
 *     gemm threads                eight threads at once
 *     gemm forks                  in processes that are forked while a thread has products planned
 *     gemm memory [MOST]          in one process after the other an allocation fails, of all that
 *                                 the first products make, once or with all after it: at most MOST
 *                                 of them
 *     gemm time                   the least nanoseconds of a call of 1 x 1 x 1 */
#include <complex.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../failing_malloc.h"

enum { M = 48, K = 32, N = 40, PAD = 3, SIDE = 64 };

extern atomic_long fake_calls;
void cblas_sgemm(int, int, int, int, int, int, float, const void *, int, const void *, int, float,
                 void *, int);
void cblas_dgemm(int, int, int, int, int, int, double, const void *, int, const void *, int, double,
                 void *, int);
void cblas_cgemm(int, int, int, int, int, int, const void *, const void *, int, const void *, int,
                 const void *, void *, int);
void cblas_zgemm(int, int, int, int, int, int, const void *, const void *, int, const void *, int,
                 const void *, void *, int);
#define CUBLAS(name)                                                                            \
  int name(void *, int, int, int, int, int, const void *, const void *, int, const void *, int, \
           const void *, void *, int);
CUBLAS(cublasSgemm_v2)
CUBLAS(cublasDgemm_v2)
CUBLAS(cublasCgemm_v2)
CUBLAS(cublasZgemm_v2)

/* Elements are complex doubles here, and are written in each dtype. */
typedef double complex number;

static number get(const void *x, int dtype, size_t i) {
  if (dtype == 0) return (double)((const float *)x)[i];
  if (dtype == 1) return ((const double *)x)[i];
  return dtype == 2 ? (number)((const float complex *)x)[i] : ((const number *)x)[i];
}

static void put(void *x, int dtype, size_t i, number value) {
  if (dtype == 0) ((float *)x)[i] = (float)creal(value);
  if (dtype == 1) ((double *)x)[i] = creal(value);
  if (dtype == 2) ((float complex *)x)[i] = (float complex)value;
  if (dtype == 3) ((number *)x)[i] = value;
}

static void fill(void *x, int dtype, uint64_t seed) {
  for (size_t i = 0; i < SIDE * SIDE; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double re = (double)(seed >> 33 & 0xff) / 64 - 2, im = (double)(seed >> 41 & 0xff) / 64 - 2;
    put(x, dtype, i, re + I * im);
  }
}

/* The element (row, col) of op(X). */
static number at(const void *x, int dtype, int row_major, int op, int row, int col, int ld) {
  int stored_row = op == 0 ? row : col, stored_col = op == 0 ? col : row;
  size_t i =
      row_major ? (size_t)(stored_row * ld + stored_col) : (size_t)(stored_col * ld + stored_row);
  number value = get(x, dtype, i);
  return op == 2 ? conj(value) : value;
}

static void call(int gpu, int dtype, int row_major, const int op[2], number alpha, const void *a,
                 int lda, const void *b, int ldb, number beta, void *c, int ldc, void *handle) {
  number scalars[2][2];
  put(scalars[0], dtype, 0, alpha);
  put(scalars[1], dtype, 0, beta);
  const void *x = scalars[0], *y = scalars[1];
  int order = row_major ? 101 : 102, ta = 111 + op[0], tb = 111 + op[1];
  if (gpu) {
    int (*const f[])(void *, int, int, int, int, int, const void *, const void *, int, const void *,
                     int, const void *, void *,
                     int) = {cublasSgemm_v2, cublasDgemm_v2, cublasCgemm_v2, cublasZgemm_v2};
    f[dtype](handle, op[0], op[1], M, N, K, x, a, lda, b, ldb, y, c, ldc);
  } else if (dtype == 0) {
    cblas_sgemm(order, ta, tb, M, N, K, (float)creal(alpha), a, lda, b, ldb, (float)creal(beta), c,
                ldc);
  } else if (dtype == 1) {
    cblas_dgemm(order, ta, tb, M, N, K, creal(alpha), a, lda, b, ldb, creal(beta), c, ldc);
  } else if (dtype == 2) {
    cblas_cgemm(order, ta, tb, M, N, K, x, a, lda, b, ldb, y, c, ldc);
  } else {
    cblas_zgemm(order, ta, tb, M, N, K, x, a, lda, b, ldb, y, c, ldc);
  }
}

/* Checks one product, and what lies around its result. */
static int check(int gpu, int dtype, int row_major, const int op[2], number alpha, number beta,
                 long expected, void *handle) {
  static _Thread_local number a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE], before[SIDE * SIDE];
  int lda = ((op[0] == 0) == row_major ? K : M) + PAD,
      ldb = ((op[1] == 0) == row_major ? N : K) + PAD, ldc = (row_major ? N : M) + PAD;
  fill(a, dtype, 1);
  fill(b, dtype, 2);
  fill(c, dtype, 3);
  if (beta == 0) put(c, dtype, 0, NAN); /* is overwritten, not multiplied */
  memcpy(before, c, sizeof c);
  long calls = atomic_load(&fake_calls);
  call(gpu, dtype, row_major, op, alpha, a, lda, b, ldb, beta, c, ldc, handle);
  calls = atomic_load(&fake_calls) - calls;
  if (expected > 0 && calls != expected) {
    fprintf(stderr,
            "gemm: %ld calls below, expected %ld (gpu %d, dtype %d, row-major %d, ops %d %d)\n",
            calls, expected, gpu, dtype, row_major, op[0], op[1]);
    return 1;
  }
  double tolerance = (dtype % 2 == 0 ? 1e-5 : 1e-13) * K;
  for (int i = 0; i < (row_major ? M : N); i++)
    for (int j = 0; j < ldc; j++) {
      size_t place = (size_t)i * (size_t)ldc + (size_t)j;
      number got = get(c, dtype, place), want = get(before, dtype, place);
      if (j < ldc - PAD) {
        int row = row_major ? i : j, col = row_major ? j : i;
        number sum = 0;
        for (int l = 0; l < K; l++)
          sum += at(a, dtype, row_major, op[0], row, l, lda) *
                 at(b, dtype, row_major, op[1], l, col, ldb);
        want = alpha * sum + (beta == 0 ? 0 : beta * want);
      }
      if (!(cabs(got - want) <= tolerance * (1 + cabs(want)))) {
        fprintf(stderr,
                "gemm: element %d, %d is wrong (gpu %d, dtype %d, row-major %d, ops %d %d)\n", i, j,
                gpu, dtype, row_major, op[0], op[1]);
        return 1;
      }
    }
  return 0;
}

static int check_all(const long expected[3]) {
  int wrong = 0;
  for (int dtype = 0; dtype < 4; dtype++)
    for (int way = 0; way < 3; way++) /* row-major, column-major, GPU */
      for (int ops = 0; ops < 9; ops++)
        for (int scalars = 0; scalars < 4; scalars++) {
          const int op[2] = {ops % 3, ops / 3};
          if (dtype < 2 && (op[0] == 2 || op[1] == 2)) continue;
          number alpha = scalars % 2 == 0 ? 1 : 0.5, beta = scalars / 2 == 0 ? 0 : -1.5;
          wrong += check(way == 2, dtype, way == 0, op, alpha, beta, expected[way], NULL);
        }
  return wrong;
}

/* A call that BLAS refuses goes to it as it is: an order that there is not, rows that are too
 * short. */
static int check_refused(void) {
  static double a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
  const double one = 1, zero = 0;
  long calls = atomic_load(&fake_calls);
  cblas_dgemm(100, 111, 111, M, N, K, 1, a, SIDE, b, SIDE, 0, c, SIDE);
  cblas_dgemm(101, 111, 111, M, N, K, 1, a, K - 1, b, N, 0, c, N);
  cblas_dgemm(101, 111, 111, M, N, K, 1, a, K, b, N - 1, 0, c, N);
  cblas_dgemm(102, 111, 111, M, N, K, 1, a, M, b, K, 0, c, M - 1);
  cublasDgemm_v2(NULL, 0, 0, M, N, K, &one, a, M - 1, b, K, &zero, c, M);
  cublasDgemm_v2(NULL, 0, 1, M, N, K, &one, a, M, b, N - 1, &zero, c, M);
  cublasDgemm_v2(NULL, 0, 0, M, N, K, &one, a, M, b, K, &zero, c, M - 1);
  calls = atomic_load(&fake_calls) - calls;
  if (calls != 7) fprintf(stderr, "gemm: %ld calls below for 7 that BLAS refuses\n", calls);
  return calls != 7;
}

/* No name but the wrapper's own is put before those of what the program is to load. */
static int check_names(void) {
  if (dlsym(RTLD_DEFAULT, "dgemm_") == NULL) return 0;
  fprintf(stderr, "gemm: the program has got another dgemm_\n");
  return 1;
}

static void *work(void *user) {
  int *wrong = user;
  for (int round = 0; round < 50; round++)
    for (int way = 0; way < 3; way++) {
      const int op[2] = {round % 2, round / 2 % 2};
      *wrong += check(way == 2, round % 4, way == 0, op, 1, 0, 0, NULL);
    }
  return NULL;
}

static int run_threads(void) {
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  int wrong[THREADS] = {0}, sum = 0;
  for (int t = 0; t < THREADS; t++)
    if (pthread_create(&threads[t], NULL, work, &wrong[t]) != 0) return 1;
  for (int t = 0; t < THREADS; t++) {
    pthread_join(threads[t], NULL);
    sum += wrong[t];
  }
  return sum;
}

static double ones[SIDE * SIDE];

/* Multiplies two matrices of ones, m x 8 by 8 x n; returns whether that is right. */
static int multiplies_ones(int m, int n) {
  static _Thread_local double c[SIDE * SIDE];
  cblas_dgemm(101, 111, 111, m, n, 8, 1, ones, 8, ones, n, 0, c, n);
  return c[0] == 8 && c[m * n - 1] == 8;
}

static atomic_int shapes;

static void *multiply_shapes(void *user) {
  int *wrong = user;
  for (; shapes < 60 * 60; shapes++) *wrong += !multiplies_ones(shapes / 60 + 1, shapes % 60 + 1);
  return NULL;
}

static int check_forks(void) {
  pthread_t thread;
  int wrong = 0, failed = 0, status;
  for (int i = 0; i < SIDE * SIDE; i++) ones[i] = 1;
  if (pthread_create(&thread, NULL, multiply_shapes, &wrong) != 0) return 1;
  while (shapes < 10) continue;
  for (int i = 0; i < 30 && failed == 0; i++) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(!multiplies_ones(61, i + 1));
    }
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) continue;
    fprintf(stderr, "gemm: forked process %d: status %d\n", i, status);
    failed++;
  }
  pthread_join(thread, NULL);
  return wrong + failed;
}

/* Products of three shapes by two libraries, as often as it takes that what is planned is used. */
static int check_some(void) {
  int wrong = 0;
  for (int round = 0; round < 2; round++)
    for (int way = 0; way < 3; way++) {
      const int op[2] = {way % 2, 0};
      wrong += check(way == 2, 1 + 2 * (way == 1), way == 0, op, 1, 0, 0, NULL);
    }
  return wrong;
}

/* Whatever allocation fails, the products are right. Without failures the same process is right
 * afterwards too. */
static int check_memory(long most) {
  long *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int wrong = 0, tried = 0;
  if (seen == MAP_FAILED) return 1;
  *seen = most; /* what the first child, in which none fails, says otherwise */
  for (long n = -1; n < *seen; n += n < 0 || *seen <= most ? 1 : *seen / most)
    for (int for_good = 0; for_good < (n < 0 ? 1 : 2); for_good++, tried++) {
      int status = 0;
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        malloc_fails_after(n < 0 ? 1L << 60 : n, for_good != 0);
        int some = check_some();
        malloc_fails_no_more(n < 0 ? seen : NULL);
        some += check_some();
        _exit(some > 0);
      }
      if (child > 0 && waitpid(child, &status, 0) == child && status == 0) continue;
      fprintf(stderr, "gemm: allocation %ld fails%s: status %d\n", n,
              for_good ? ", and all after it" : "", status);
      wrong++;
    }
  printf("of %ld allocations %d were tried, %d wrong\n", *seen, tried, wrong);
  return wrong;
}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void print_time(void) {
  enum { CALLS = 2000, BATCHES = 200 };
  double a = 1, b = 2, c = 0, least = INFINITY;
  for (int batch = 0; batch < BATCHES; batch++) {
    double start = now_ns();
    for (int i = 0; i < CALLS; i++)
      cblas_dgemm(101, 111, 111, 1, 1, 1, 1.0, &a, 1, &b, 1, 0.0, &c, 1);
    least = fmin(least, (now_ns() - start) / CALLS);
  }
  printf("%.2f\n", least);
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "check") == 0) {
    const long expected[3] = {strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10),
                              strtol(argv[4], NULL, 10)};
    /* While a stream is captured nothing is looked up; a k-cut needs the scalars on the host. */
    const int op[2] = {0, 0};
    void *capturing = (void *)1, *on_device = (void *)2;
    int wrong = check(1, 1, 0, op, 1, 0, 1, capturing) + check_all(expected);
    wrong += check(1, 1, 0, op, 1, 0, 1, on_device) + check_refused() + check_names();
    return wrong > 0;
  }
  if (argc == 2 && strcmp(argv[1], "threads") == 0) return run_threads() > 0;
  if (argc == 2 && strcmp(argv[1], "forks") == 0) return check_forks() > 0;
  if (argc >= 2 && strcmp(argv[1], "memory") == 0)
    return check_memory(argc > 2 ? strtol(argv[2], NULL, 10) : 1L << 30) > 0;
  if (argc == 2 && strcmp(argv[1], "time") == 0) {
    print_time();
    return 0;
  }
  fprintf(stderr, "usage: gemm check ROW COLUMN GPU | threads | forks | memory [MOST] | time\n");
  return 2;
}
