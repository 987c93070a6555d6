/* team.c: one rank of those that multiply together.
 *
 * Every rank opens all files, and reads no more of them than its pieces. Whatever fails on one rank
 * is told by all of them. A watch ends the process where another rank, or what started it, is gone:
 * then no call of MPI would ever return. */
#include "team.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "random.h"
#include "residual.h"
#include "signals.h"
#include "timing.h"

enum { HOST_SIZE = 64 };

bool cli_on_team(const char *device) {
  return device != NULL && strcmp(device, "scalapack") == 0;
}

/* ---- the watch ------------------------------------------------------------------------------- */

/* A rank, for those of its host. */
typedef struct peer {
  char host[HOST_SIZE];
  int64_t process;
} peer;

typedef struct watch {
  pthread_t thread;
  bool is_on;
  volatile bool ends;
  peer *volatile peers; /* count ranks; NULL until they have met */
  int rank, count;      /* rank is -1 until they have met */
  pid_t parent;
} watch;

/* The watch of this process, for the handler of signals. */
static watch *volatile watching;

/* Appends text, and a number unless it is negative, as a handler of signals may. */
static size_t append(char *line, size_t length, size_t size, const char *text, int number) {
  char digits[12];
  int count = 0;
  while (*text != '\0' && length + 1 < size) line[length++] = *text++;
  for (int left = number; left > 0 || (left == 0 && count == 0); left /= 10)
    digits[count++] = (char)('0' + left % 10);
  while (count > 0 && number >= 0 && length + 1 < size) line[length++] = digits[--count];
  return length;
}

/* Returns a rank of this host whose process is gone, or -1. */
static int find_dead(const watch *w) {
  for (int r = 0; r < w->count; r++)
    if (strcmp(w->peers[r].host, w->peers[w->rank].host) == 0 &&
        kill((pid_t)w->peers[r].process, 0) != 0 && errno == ESRCH)
      return r;
  return -1;
}

/* Says, in one line, why this rank ends; rank `dead` has died unless it is negative. */
static void tell_end(const watch *w, int dead, const char *why) {
  char line[200];
  size_t length = append(line, 0, sizeof line, "mmchain multiply: ", -1);
  if (w->rank >= 0) length = append(line, length, sizeof line, "rank ", w->rank);
  if (dead >= 0) {
    length = append(line, length, sizeof line, ": rank ", dead);
    why = " has died";
  } else if (w->rank >= 0) {
    length = append(line, length, sizeof line, ": ", -1);
  }
  length = append(line, length, sizeof line, why, -1);
  length = append(line, length, sizeof line, "\n", -1);
  const ssize_t written = write(STDERR_FILENO, line, length);
  (void)written;
}

static void tell_signal(void) {
  const watch *w = watching;
  if (w != NULL)
    tell_end(w, w->peers != NULL ? find_dead(w) : -1,
             "ended by a signal, as whatever started it asked for");
}

/* Ends the process at once, as its other threads may wait for ever. */
static void end_here(const watch *w, int dead, const char *why) {
  cli_temporaries_remove();
  tell_end(w, dead, why);
  _exit(CLI_FAILED);
}

static void *watch_peers(void *user) {
  watch *w = user;
  const struct timespec pause = {.tv_nsec = 200000000};
  while (!w->ends) {
    nanosleep(&pause, NULL);
    const int dead = find_dead(w);
    if (dead >= 0 && !w->ends) end_here(w, dead, "");
    if (w->parent > 1 && getppid() != w->parent && !w->ends)
      end_here(w, -1, "what started the ranks has died");
  }
  return NULL;
}

/* Begins to watch the ranks of this host and the process that started this one. */
static int begin_watch(cli_call *call, mmc_team *team, watch *w) {
  w->rank = mmc_team_rank(team);
  w->count = mmc_team_count(team);
  if (w->count == 1) return CLI_DONE;
  peer mine = {.process = getpid()}, *peers;
  if (gethostname(mine.host, sizeof mine.host - 1) != 0) mine.host[0] = '\0';
  peers = calloc((size_t)w->count, sizeof *peers);
  mmc_status status = mmc_team_agree(team, peers != NULL ? MMC_OK : MMC_E_NOMEM, NULL);
  if (status == MMC_OK) status = mmc_team_gather(team, &mine, sizeof mine, peers);
  if (status != MMC_OK) {
    free(peers);
    return cli_fail_status(call, status, "");
  }
  w->peers = peers;
  sigset_t before;
  cli_signals_hold(&before);
  w->is_on = pthread_create(&w->thread, NULL, watch_peers, w) == 0;
  cli_signals_release(&before);
  return CLI_DONE;
}

static void end_watch(watch *w) {
  w->ends = true;
  cli_signals_tell(NULL);
  watching = NULL;
  if (w->is_on) pthread_join(w->thread, NULL);
  free(w->peers);
}

/* ---- multiplying ----------------------------------------------------------------------------- */

/* What comes of a job. */
typedef struct multiplication {
  const cli_team_job *job;
  mmc_team *team;
  watch watch;
  cli_factors factors;
  mmc_team_plan *plan;
  mmc_matrix piece;
  double seconds;
  cli_call *call;
  cli_residual residual;
  int failed; /* what the check of the result came to */
  char kept[CLI_KEPT_SIZE];
} multiplication;

/* Ends a stage of work in which ranks may fail one by one: what the first of them had to say is
 * said by all. Messages are kept from its beginning. */
static int agree(cli_call *call, multiplication *m, int result) {
  call->kept = NULL;
  const mmc_status mine = result == CLI_DONE  ? MMC_OK
                          : result == CLI_BAD ? MMC_E_ARG
                                              : MMC_E_DEVICE;
  const mmc_status status = mmc_team_agree(m->team, mine, m->kept);
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

static void keep(cli_call *call, multiplication *m) {
  m->kept[0] = '\0';
  call->kept = m->kept;
}

static int check_arguments(cli_call *call, const multiplication *m) {
  const cli_team_job *job = m->job;
  if (job->output == NULL || strcmp(job->output, "-") == 0)
    return cli_fail(call, CLI_BAD, "-o: expected a file, which all ranks write, as in -o R.npy");
  const char *format = mmc_file_format(job->output, NULL);
  if (format != NULL && strcmp(format, "npy") != 0)
    return cli_fail(call, CLI_BAD, "-o: %s: all ranks write .npy, not %s", job->output, format);
  int result = cli_check_ending(call, "-o", job->output);
  if (result == CLI_DONE) result = cli_check_matrix_path(call, "-o", job->output);
  struct stat found;
  if (result == CLI_DONE && stat(job->output, &found) == 0 && !S_ISREG(found.st_mode))
    result = cli_fail(call, CLI_BAD, "-o: %s: expected a regular file, which all ranks write",
                      job->output);
  return result;
}

static int open_files(cli_call *call, multiplication *m, int count, char **arguments) {
  const cli_rule none = {0};
  if (count == 0) return cli_fail(call, CLI_BAD, "expected factors, as in A.npy B.npy:T");
  int result = check_arguments(call, m);
  return result == CLI_DONE ? cli_factors_open(call, count, arguments, true, none, &m->factors)
                            : result;
}

static int make_plan(cli_call *call, multiplication *m) {
  mmc_status status =
      mmc_team_plan_create(call->context, m->team, m->factors.chain, &m->job->options, &m->plan);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  if (!m->job->explain || mmc_team_rank(m->team) != 0) return CLI_DONE;
  cli_stream diagnostics = {.file = stderr};
  status = mmc_team_plan_explain(m->plan, MMC_TEXT, cli_stream_write, &diagnostics);
  return status == MMC_OK ? CLI_DONE : cli_fail_write(call, status, "");
}

static int execute(cli_call *call, multiplication *m) {
  mmc_piece piece;
  mmc_status status = mmc_team_plan_piece(m->plan, -1, mmc_team_rank(m->team), &piece);
  m->piece = (mmc_matrix){.rows = piece.rows, .cols = piece.cols};
  const mmc_dtype dtype = mmc_chain_dtype(m->factors.chain);
  bool has_memory = status == MMC_OK && cli_matrix_allocate(dtype, 1, &m->piece);
  status = mmc_team_agree(m->team, has_memory ? MMC_OK : MMC_E_NOMEM,
                          "there is no memory for a piece of the result");
  double start = cli_now_s();
  if (status == MMC_OK) status = mmc_team_execute(m->plan, m->factors.matrices, &m->piece);
  m->seconds = cli_now_s() - start;
  return status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
}

/* Checks what all ranks have written, on rank 0. */
static mmc_status check_result(void *user, const mmc_matrix *result) {
  multiplication *m = user;
  m->failed = cli_residual_compute(m->call, &m->factors, result, NULL, false, NAN, CLI_CHECK_SEED,
                                   &m->residual);
  if (m->failed != CLI_DONE) return MMC_E_DEVICE;
  m->failed = cli_residual_tell(m->call, &m->factors, &m->residual, false);
  return m->failed == CLI_DONE ? MMC_OK : MMC_E_DEVICE;
}

static int write_result(cli_call *call, multiplication *m) {
  mmc_status status = mmc_team_write(m->plan, m->job->output, &m->piece, m->factors.result_ndim,
                                     m->job->check ? check_result : NULL, m);
  if (status == MMC_OK) return CLI_DONE;
  return m->failed != CLI_DONE ? m->failed : cli_fail_write(call, status, "-o: ");
}

/* Prints the plan's object, with what was measured added at its end, on rank 0. */
static int print_json(cli_call *call, const multiplication *m) {
  cli_buffer plan = {0};
  if (mmc_team_rank(m->team) != 0) return CLI_DONE;
  mmc_status status = mmc_team_plan_explain(m->plan, MMC_JSON, cli_buffer_write, &plan);
  char *brace = status == MMC_OK ? strrchr(plan.bytes, '}') : NULL;
  if (brace != NULL) {
    cli_stream_write(&call->out, plan.bytes, (size_t)(brace - plan.bytes));
    cli_print(&call->out, ", \"seconds\": %.6g, \"residual\": ", m->seconds);
    if (m->job->check && m->residual.meaningful)
      cli_print(&call->out, "%.6g}\n", m->residual.value);
    else
      cli_print(&call->out, "null}\n");
  }
  cli_buffer_free(&plan);
  return status == MMC_OK ? CLI_DONE : cli_buffer_fail(call, status);
}

int cli_team_multiply(cli_call *call, cli_team_job *job, int count, char **arguments) {
  multiplication m = {.job = job, .call = call, .watch = {.rank = -1, .parent = getppid()}};
  watching = &m.watch;
  cli_signals_tell(tell_signal);
  mmc_status status = mmc_team_open(call->context, job->engine, NULL, &m.team);
  if (status != MMC_OK) {
    end_watch(&m.watch);
    return cli_fail_status(call, status, "");
  }
  int result = begin_watch(call, m.team, &m.watch);
  if (result == CLI_DONE) {
    keep(call, &m);
    result = open_files(call, &m, count, arguments);
    result = agree(call, &m, result);
  }
  if (result == CLI_DONE) result = make_plan(call, &m);
  if (result == CLI_DONE) result = execute(call, &m);
  if (result == CLI_DONE) {
    keep(call, &m);
    result = cli_factors_unchanged(call, &m.factors);
    result = agree(call, &m, result);
  }
  if (result == CLI_DONE) result = write_result(call, &m);
  if (result == CLI_DONE && job->json) result = print_json(call, &m);
  end_watch(&m.watch);
  free(m.piece.data);
  mmc_team_plan_destroy(m.plan);
  cli_factors_close(&m.factors);
  mmc_team_close(m.team);
  return result;
}

/* ---- measuring ------------------------------------------------------------------------------- */

int cli_team_calibrate(cli_call *call, const char *engine, mmc_dtype dtype) {
  mmc_team *team;
  mmc_status status = mmc_team_open(call->context, engine, NULL, &team);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  status = mmc_team_calibrate(team, dtype);
  int result = status == MMC_OK ? CLI_DONE : cli_fail_status(call, status, "");
  if (result == CLI_DONE && mmc_team_rank(team) == 0)
    cli_print(&call->out, "calibrated %s on %d ranks\n", mmc_dtype_name(dtype),
              mmc_team_count(team));
  mmc_team_close(team);
  return result;
}

/* ---- planning -------------------------------------------------------------------------------- */

int cli_team_plan(cli_call *call, const mmc_team_options *options, const mmc_chain *chain,
                  bool json) {
  mmc_team_plan *plan;
  mmc_status status = mmc_team_plan_create(call->context, NULL, chain, options, &plan);
  if (status != MMC_OK) return cli_fail_status(call, status, "");
  status = mmc_team_plan_explain(plan, json ? MMC_JSON : MMC_TEXT, cli_stream_write, &call->out);
  mmc_team_plan_destroy(plan);
  return status == MMC_OK || call->out.error != 0 ? CLI_DONE : cli_fail_status(call, status, "");
}
