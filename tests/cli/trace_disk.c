/* trace_disk.c: runs a command and stands between it and the files under one directory.
 *
 *     trace_disk record LOG DIRECTORY COMMAND ARGUMENT...
 *     trace_disk fail NUMBER ERROR LOG DIRECTORY COMMAND ARGUMENT...
 *
 * record writes to LOG, a line each, what the command changed there: which bytes were written
 * where, which names were given and taken, and what was synced. test_disk.py makes of it what a
 * power failure would leave. fail makes call number NUMBER, from 1, of those that may fail return
 * the error number ERROR without being made, and writes its name to LOG, which stays empty when
 * there were fewer.
 *
 * The exit status is that of the command; 77 where no process can be traced, 78 when the command
 * made a call that this program does not follow. All threads and children of the command are
 * followed. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
/* After the system's own, which names the same constants. */
#include <linux/ptrace.h>

#ifndef __x86_64__
int main(void) {
  puts("system calls can be made to fail on x86-64 only");
  return 77;
}
#else

enum { THREADS = 64, CANNOT = 77, UNKNOWN = 78, MOST_BYTES = 1 << 20 };

/* What a thread is in the middle of: the lines to be logged if its call succeeds. */
typedef struct thread {
  pid_t id;
  bool inside;  /* a call has begun and not ended */
  bool refused; /* it is to return the error */
  bool made;    /* the call may make a file: what it returns is a descriptor */
  char *line;   /* to be logged on success, or NULL */
} thread;

static thread threads[THREADS];
static const char *directory;
static size_t directory_length;
static FILE *log_file;
static long calls, refuse_at; /* refuse_at is 0 when none is refused */
static int refuse_with;

static void give_up(const char *what) {
  fprintf(stderr, "trace_disk: %s: %s\n", what, strerror(errno));
  exit(CANNOT);
}

static thread *thread_of(pid_t id) {
  for (int t = 0; t < THREADS; t++)
    if (threads[t].id == id) return &threads[t];
  for (int t = 0; t < THREADS; t++)
    if (threads[t].id == 0) {
      threads[t] = (thread){.id = id};
      return &threads[t];
    }
  errno = EMFILE;
  give_up("threads");
  return NULL;
}

/* ---- the command's memory and files ------------------------------------------------------------
 */

static void read_memory(pid_t id, uint64_t address, void *bytes, size_t size) {
  /* The address is one of another process. NOLINTNEXTLINE(performance-no-int-to-ptr) */
  struct iovec here = {bytes, size}, there = {(void *)(uintptr_t)address, size};
  if (process_vm_readv(id, &here, 1, &there, 1, 0) != (ssize_t)size) give_up("process_vm_readv");
}

static void read_string(pid_t id, uint64_t address, char text[PATH_MAX]) {
  for (size_t at = 0; at < PATH_MAX; at++) {
    read_memory(id, address + at, &text[at], 1);
    if (text[at] == '\0') return;
  }
  errno = ENAMETOOLONG;
  give_up("path");
}

/* Writes the name under the directory that a path of the command leads to, "" for the directory
 * itself; returns false for what lies elsewhere. The last part need not exist. */
static bool name_of(pid_t id, int at, uint64_t address, char name[PATH_MAX]) {
  char given[PATH_MAX], path[2 * PATH_MAX], parent[PATH_MAX], link[64];
  read_string(id, address, given);
  if (strncmp(given, "/proc/self/fd/", 14) == 0) return false; /* a file without a name */
  if (given[0] == '/') {
    snprintf(path, sizeof path, "%s", given);
  } else {
    if (at == AT_FDCWD)
      snprintf(link, sizeof link, "/proc/%d/cwd", (int)id);
    else
      snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)id, at);
    ssize_t length = readlink(link, parent, sizeof parent - 1);
    if (length < 0) return false;
    parent[length] = '\0';
    snprintf(path, sizeof path, "%s/%s", parent, given);
  }
  char *slash = strrchr(path, '/');
  bool is_whole = strcmp(slash, "/.") == 0 || slash[1] == '\0';
  char last[PATH_MAX];
  snprintf(last, sizeof last, "%s", is_whole ? "" : slash + 1);
  slash[slash == path] = '\0';
  if (realpath(path, parent) == NULL) return false;
  if (strncmp(parent, directory, directory_length) != 0) return false;
  const char *rest = parent + directory_length;
  if (rest[0] != '\0' && rest[0] != '/') return false;
  if (rest[0] == '/') rest++;
  int length =
      snprintf(name, PATH_MAX, "%s%s%s", rest, rest[0] != '\0' && last[0] != '\0' ? "/" : "", last);
  return length < PATH_MAX;
}

/* Finds an open file of the command; false when it does not lie under the directory. A file that
 * has no name yet is known by the directory that it was opened in. */
static bool find_file(pid_t id, int descriptor, struct stat *out) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)id, descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return strncmp(path, directory, directory_length) == 0 &&
         (path[directory_length] == '/' || path[directory_length] == '\0') && stat(link, out) == 0;
}

static bool is_file(pid_t id, uint64_t descriptor, struct stat *out) {
  return find_file(id, (int)descriptor, out) && S_ISREG(out->st_mode);
}

static off_t position_of(pid_t id, int descriptor) {
  char path[64];
  long long position = -1;
  snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)id, descriptor);
  FILE *info = fopen(path, "r");
  if (info == NULL || fscanf(info, "pos: %lld", &position) != 1) give_up(path);
  fclose(info);
  return (off_t)position;
}

/* ---- what is logged ----------------------------------------------------------------------------
 */

static void note(thread *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(thread *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  free(t->line);
  if (vasprintf(&t->line, format, args) < 0) give_up("memory");
  va_end(args);
}

static void note_write(thread *t, uint64_t descriptor, uint64_t address, uint64_t size,
                       bool has_offset, uint64_t offset) {
  struct stat file;
  if (!is_file(t->id, descriptor, &file)) return;
  if (size > MOST_BYTES) {
    errno = EFBIG;
    give_up("write");
  }
  if (!has_offset) offset = (uint64_t)position_of(t->id, (int)descriptor);
  unsigned char *bytes = malloc(size + 1);
  char *digits = malloc(2 * size + 1);
  if (bytes == NULL || digits == NULL) give_up("memory");
  if (size > 0) read_memory(t->id, address, bytes, size);
  for (size_t b = 0; b < size; b++) sprintf(digits + 2 * b, "%02x", bytes[b]);
  digits[2 * size] = '\0';
  note(t, "write %llu %llu %s", (unsigned long long)file.st_ino, (unsigned long long)offset,
       digits);
  free(bytes);
  free(digits);
}

static void note_sync(thread *t, uint64_t descriptor) {
  struct stat file;
  if (!find_file(t->id, (int)descriptor, &file)) return;
  if (S_ISDIR(file.st_mode))
    note(t, "syncdir");
  else
    note(t, "sync %llu", (unsigned long long)file.st_ino);
}

static void note_truncate(thread *t, uint64_t descriptor, uint64_t size) {
  struct stat file;
  if (is_file(t->id, descriptor, &file))
    note(t, "truncate %llu %llu", (unsigned long long)file.st_ino, (unsigned long long)size);
}

/* A call that gives a name: from is the file, or its name. */
static void note_link(thread *t, int from_at, uint64_t from, int to_at, uint64_t to) {
  char given[PATH_MAX], link[PATH_MAX], name[PATH_MAX];
  struct stat file;
  if (!name_of(t->id, to_at, to, name)) return;
  read_string(t->id, from, given);
  (void)from_at;
  if (strncmp(given, "/proc/self/", 11) == 0)
    snprintf(link, sizeof link, "/proc/%d/%.4000s", (int)t->id, given + 11);
  else
    snprintf(link, sizeof link, "%s", given);
  if (stat(link, &file) != 0) give_up(link);
  note(t, "link %llu %s", (unsigned long long)file.st_ino, name);
}

static void note_rename(thread *t, int from_at, uint64_t from, int to_at, uint64_t to) {
  char old[PATH_MAX], new[PATH_MAX];
  if (name_of(t->id, from_at, from, old) && name_of(t->id, to_at, to, new))
    note(t, "rename %s %s", old, new);
}

static void note_unlink(thread *t, int at, uint64_t path) {
  char name[PATH_MAX];
  if (name_of(t->id, at, path, name)) note(t, "unlink %s", name);
}

static void note_open(thread *t, int at, uint64_t path, uint64_t flags) {
  char name[PATH_MAX], whole[2 * PATH_MAX];
  if (!name_of(t->id, at, path, name)) return;
  snprintf(whole, sizeof whole, "%s/%s", directory, name);
  bool exists = access(whole, F_OK) == 0, unnamed = (flags & O_TMPFILE) == O_TMPFILE;
  t->made = true; /* the number of the file is known when it is open */
  if (unnamed)
    note(t, "unnamed");
  else if (!exists && (flags & O_CREAT) != 0)
    note(t, "create %s", name);
  else if (exists && (flags & O_TRUNC) != 0)
    note(t, "empty");
  else
    t->made = false;
}

/* ---- what may fail -----------------------------------------------------------------------------
 */

/* Returns the name of a call that touches the directory and may fail; NULL of any other. */
static const char *name_of_call(pid_t id, const struct ptrace_syscall_info *call) {
  const uint64_t *a = (const uint64_t *)call->entry.args;
  struct stat file;
  char name[PATH_MAX];
  switch (call->entry.nr) {
    case SYS_write:
    case SYS_pwrite64:
      return is_file(id, a[0], &file) ? "write" : NULL;
    case SYS_read:
    case SYS_pread64:
      return is_file(id, a[0], &file) ? "read" : NULL;
    case SYS_fsync:
    case SYS_fdatasync:
      return find_file(id, (int)a[0], &file) ? "fsync" : NULL;
    case SYS_ftruncate:
      return is_file(id, a[0], &file) ? "ftruncate" : NULL;
    case SYS_fallocate:
      return is_file(id, a[0], &file) ? "fallocate" : NULL;
    case SYS_mmap:
      return (int)a[4] >= 0 && is_file(id, a[4], &file) ? "mmap" : NULL;
    case SYS_rename:
      return name_of(id, AT_FDCWD, a[1], name) ? "rename" : NULL;
    case SYS_linkat:
      return name_of(id, (int)a[2], a[3], name) ? "linkat" : NULL;
    case SYS_openat:
      return name_of(id, (int)a[0], a[1], name) ? "open" : NULL;
    case SYS_fchmod:
      return is_file(id, a[0], &file) ? "fchmod" : NULL;
    default:
      return NULL;
  }
}

/* Has the call that begins return an error instead. */
static void refuse(thread *t, const struct ptrace_syscall_info *call) {
  const char *name = name_of_call(t->id, call);
  if (name == NULL || ++calls != refuse_at) return;
  const long no_call = -1;
  if (ptrace(PTRACE_POKEUSER, t->id, offsetof(struct user_regs_struct, orig_rax), no_call) != 0)
    give_up("ptrace");
  t->refused = true;
  fprintf(log_file, "%s\n", name);
}

/* ---- following ---------------------------------------------------------------------------------
 */

static void begin_call(thread *t, const struct ptrace_syscall_info *call) {
  const uint64_t *a = (const uint64_t *)call->entry.args;
  struct stat file;
  switch (call->entry.nr) {
    case SYS_write:
      note_write(t, a[0], a[1], a[2], false, 0);
      break;
    case SYS_pwrite64:
      note_write(t, a[0], a[1], a[2], true, a[3]);
      break;
    case SYS_fsync:
    case SYS_fdatasync:
      note_sync(t, a[0]);
      break;
    case SYS_ftruncate:
      note_truncate(t, a[0], a[1]);
      break;
    case SYS_rename:
      note_rename(t, AT_FDCWD, a[0], AT_FDCWD, a[1]);
      break;
    case SYS_renameat:
    case SYS_renameat2:
      note_rename(t, (int)a[0], a[1], (int)a[2], a[3]);
      break;
    case SYS_linkat:
      note_link(t, (int)a[0], a[1], (int)a[2], a[3]);
      break;
    case SYS_unlink:
      note_unlink(t, AT_FDCWD, a[0]);
      break;
    case SYS_unlinkat:
      note_unlink(t, (int)a[0], a[1]);
      break;
    case SYS_openat:
      note_open(t, (int)a[0], a[1], a[2]);
      break;
    case SYS_open: /* glibc's own open() is openat(2); sanitizers call this one */
      note_open(t, AT_FDCWD, a[0], a[1]);
      break;
    case SYS_creat:
    case SYS_link:
    case SYS_truncate:
      note(t, "unknown call %llu", (unsigned long long)call->entry.nr);
      break;
    case SYS_writev:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_sendfile:
    case SYS_copy_file_range:
    case SYS_fallocate:
      if (is_file(t->id, a[0], &file))
        note(t, "unknown call %llu", (unsigned long long)call->entry.nr);
      break;
    default:
      break;
  }
}

static void end_call(thread *t, int64_t result) {
  struct stat file;
  if (t->line != NULL && result >= 0) {
    if (strncmp(t->line, "unknown", 7) == 0) {
      fprintf(stderr, "trace_disk: %s\n", t->line);
      exit(UNKNOWN);
    }
    if (!t->made)
      fprintf(log_file, "%s\n", t->line);
    else if (is_file(t->id, (uint64_t)result, &file)) {
      char *space = strchr(t->line, ' ');
      fprintf(log_file, "%.*s %llu%s\n", (int)(space != NULL ? space - t->line : INT_MAX), t->line,
              (unsigned long long)file.st_ino, space != NULL ? space : "");
    }
  }
  free(t->line);
  t->line = NULL;
  t->made = false;
}

static void on_call(thread *t) {
  struct ptrace_syscall_info call;
  if (ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, t->id, sizeof call, &call) <= 0)
    return;
  if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
    t->inside = true;
    if (refuse_at > 0)
      refuse(t, &call);
    else
      begin_call(t, &call);
  } else if (call.op == PTRACE_SYSCALL_INFO_EXIT) {
    t->inside = false;
    if (t->refused) {
      const long result = -refuse_with;
      if (ptrace(PTRACE_POKEUSER, t->id, offsetof(struct user_regs_struct, rax), result) != 0)
        give_up("ptrace");
      t->refused = false;
    } else {
      end_call(t, call.exit.rval);
    }
  }
}

/* Starts the command, which waits to be traced. */
static pid_t start(char **command) {
  pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(CANNOT);
    raise(SIGSTOP);
    execvp(command[0], command);
    _exit(127);
  }
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
    errno = EPERM;
    give_up("ptrace");
  }
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE |
                       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
  if (ptrace(PTRACE_SETOPTIONS, child, NULL, options) != 0) give_up("ptrace");
  return child;
}

/* Follows the command to its end; returns its exit status. */
static int follow(pid_t child) {
  int result = CANNOT;
  if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) != 0) give_up("ptrace");
  for (;;) {
    int status;
    pid_t id = waitpid(-1, &status, __WALL);
    if (id < 0) return result;
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (id == child) result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      thread_of(id)->id = 0;
      continue;
    }
    long signal_number = 0;
    int stop = WSTOPSIG(status);
    thread *t = thread_of(id);
    if (stop == (SIGTRAP | 0x80))
      on_call(t);
    else if (stop != SIGTRAP && stop != SIGSTOP) /* these come of being traced */
      signal_number = stop;
    ptrace(PTRACE_SYSCALL, id, NULL, signal_number);
  }
}

int main(int argc, char **argv) {
  bool fails = argc > 1 && strcmp(argv[1], "fail") == 0;
  int at = fails ? 4 : 2;
  if (argc < at + 3 || (!fails && strcmp(argv[1], "record") != 0)) return 2;
  if (fails) {
    refuse_at = atol(argv[2]);
    refuse_with = atoi(argv[3]);
  }
  log_file = fopen(argv[at], "ae");
  directory = realpath(argv[at + 1], NULL);
  if (log_file == NULL || directory == NULL) give_up(argv[at]);
  directory_length = strlen(directory);
  int status = follow(start(argv + at + 2));
  if (fclose(log_file) != 0) give_up(argv[at]);
  return status;
}
#endif
