/* test_output_file.c: a file that appears whole or not at all, and what may stand in its way. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "io/output_file.h"
#include "npy_scratch.h"

static mode_t permissions_of(const char *path) {
  struct stat status;
  assert_int_equal(lstat(path, &status), 0);
  return status.st_mode & 07777;
}

static mmc_status put_output(const char *path, const char *content, mmci_error *error) {
  mmci_output_file *file = NULL;
  mmc_status status = mmci_output_file_create(path, &file, error);
  if (status != MMC_OK) return status;
  status = mmci_output_file_write(file, content, strlen(content), error);
  if (status == MMC_OK) return mmci_output_file_commit(file, error);
  mmci_output_file_discard(file);
  return status;
}

/* Writing must fail with E_IO and a message that names path and holds text. */
static void assert_cannot_write(const char *path, const char *text) {
  mmci_error error = {.text = ""};
  assert_int_equal(put_output(path, "content", &error), MMC_E_IO);
  assert_int_equal(error.status, MMC_E_IO);
  assert_holds(error.text, path);
  assert_holds(error.text, text);
}

/* Others who write into a file may be told a name of it, which goes with it. */
static void test_a_temporary_name(void **state) {
  (void)state;
  scratch_clear();
  const char *path = scratch("named");
  for (int commit = 0; commit <= 1; commit++) {
    mmci_output_file *file = NULL;
    assert_int_equal(mmci_output_file_create(path, &file, NULL), MMC_OK);
    assert_false(mmci_output_file_is_direct(file));
    char name[4096];
    for (int t = 0; t < 2; t++) { /* the same each time */
      const char *told = mmci_output_file_name(file);
      assert_non_null(told);
      if (t > 0) assert_string_equal(told, name);
      snprintf(name, sizeof name, "%s", told);
    }
    put_file(name, "new", 3);
    assert_int_equal(access(path, F_OK), -1);
    if (commit)
      assert_int_equal(mmci_output_file_commit(file, NULL), MMC_OK);
    else
      mmci_output_file_discard(file);
    assert_int_equal(access(name, F_OK), -1);
  }
  assert_content(path, "new");
  mmci_output_file *direct = NULL;
  assert_int_equal(mmci_output_file_create("/dev/null", &direct, NULL), MMC_OK);
  assert_true(mmci_output_file_is_direct(direct));
  assert_null(mmci_output_file_name(direct));
  assert_int_equal(errno, ENOENT);
  mmci_output_file_discard(direct);
}

/* Until it is committed, a new file is not there and an old one is as it was. */
static void test_whole_or_not_at_all(void **state) {
  (void)state;
  scratch_clear();
  const char *path = scratch("whole");
  for (int old = 0; old <= 1; old++)
    for (int commit = 0; commit <= 1; commit++) {
      unlink(path);
      if (old) put_file(path, "old", 3);
      mmci_output_file *file = NULL;
      assert_int_equal(mmci_output_file_create(path, &file, NULL), MMC_OK);
      assert_int_equal(mmci_output_file_write(file, "ne", 2, NULL), MMC_OK);
      assert_int_equal(mmci_output_file_write(file, "", 0, NULL), MMC_OK);
      assert_int_equal(mmci_output_file_write(file, "w", 1, NULL), MMC_OK);
      if (old)
        assert_content(path, "old");
      else
        assert_int_equal(access(path, F_OK), -1);
      if (commit)
        assert_int_equal(mmci_output_file_commit(file, NULL), MMC_OK);
      else
        mmci_output_file_discard(file);
      if (commit || old) assert_content(path, commit ? "new" : "old");
      assert_int_equal(entries_in(scratch_directory), commit || old);
    }
  mmci_output_file_discard(NULL);
}

/* Two writers of one path: each whole, the last stays. */
static void test_two_writers(void **state) {
  (void)state;
  scratch_clear();
  mmci_output_file *first = NULL, *second = NULL;
  const char *path = scratch("shared");
  assert_int_equal(mmci_output_file_create(path, &first, NULL), MMC_OK);
  assert_int_equal(mmci_output_file_create(path, &second, NULL), MMC_OK);
  assert_int_equal(mmci_output_file_write(first, "first", 5, NULL), MMC_OK);
  assert_int_equal(mmci_output_file_write(second, "second", 6, NULL), MMC_OK);
  assert_int_equal(mmci_output_file_commit(second, NULL), MMC_OK);
  assert_content(path, "second");
  assert_int_equal(mmci_output_file_commit(first, NULL), MMC_OK);
  assert_content(path, "first");
  assert_int_equal(entries_in(scratch_directory), 1);
}

static void test_permissions(void **state) {
  (void)state;
  static const mode_t masks[] = {022, 027, 077, 0};
  const char *path = scratch("mode");
  mode_t saved = umask(022);
  for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
    umask(masks[i]);
    unlink(path);
    assert_int_equal(put_output(path, "new", NULL), MMC_OK);
    assert_int_equal(permissions_of(path), 0666 & ~masks[i]);
    /* An old file keeps what it has, wider or narrower than the mask would leave. */
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(put_output(path, "newer", NULL), MMC_OK);
    assert_int_equal(permissions_of(path), 0640);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(put_output(path, "newest", NULL), MMC_OK);
    assert_int_equal(permissions_of(path), 0666);
    assert_content(path, "newest");
  }
  umask(saved);
}

/* As many links as the kernel follows. */
static void test_many_links(void **state) {
  (void)state;
  scratch_clear();
  char name[16], next[16] = "target";
  for (int i = 0; i < 40; i++) {
    snprintf(name, sizeof name, "link%d", i);
    assert_int_equal(symlink(next, scratch(name)), 0);
    memcpy(next, name, sizeof next);
  }
  for (int again = 0; again <= 1; again++) {
    assert_int_equal(put_output(scratch(name), "content", NULL), MMC_OK);
    assert_content(scratch("target"), "content");
    assert_int_equal(entries_in(scratch_directory), 41);
  }
}

static void test_symbolic_links(void **state) {
  (void)state;
  scratch_clear();
  assert_int_equal(mkdir(scratch("there"), 0755), 0);
  put_file(scratch("there/target"), "old", 3);
  /* Through two links, one of them relative to another directory, one absolute. */
  assert_int_equal(symlink("target", scratch("there/link")), 0);
  assert_int_equal(symlink(scratch("there/link"), scratch("link")), 0);
  assert_int_equal(put_output(scratch("link"), "new", NULL), MMC_OK);
  assert_content(scratch("there/target"), "new");
  struct stat status;
  assert_int_equal(lstat(scratch("link"), &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  assert_int_equal(lstat(scratch("there/link"), &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  assert_int_equal(lstat(scratch("there/target"), &status), 0);
  assert_true(S_ISREG(status.st_mode));

  /* A link to nothing yet makes what it points to. */
  assert_int_equal(symlink("there/made", scratch("dangling")), 0);
  assert_int_equal(put_output(scratch("dangling"), "made", NULL), MMC_OK);
  assert_content(scratch("there/made"), "made");
  assert_int_equal(lstat(scratch("dangling"), &status), 0);
  assert_true(S_ISLNK(status.st_mode));

  assert_int_equal(symlink("nowhere/made", scratch("lost")), 0);
  assert_cannot_write(scratch("lost"), "No such file or directory");
  assert_int_equal(symlink("loop", scratch("loop")), 0);
  assert_cannot_write(scratch("loop"), "Too many levels of symbolic links");
  assert_int_equal(symlink("there", scratch("to-directory")), 0);
  assert_cannot_write(scratch("to-directory"), "Is a directory");

  assert_int_equal(entries_in(scratch("there")), 3);
  unlink(scratch("there/target"));
  unlink(scratch("there/link"));
  unlink(scratch("there/made"));
  assert_int_equal(entries_in(scratch_directory), 6);
}

/* A path without a directory is one in the current directory. */
static void test_relative_path(void **state) {
  (void)state;
  scratch_clear();
  int here = open(".", O_RDONLY | O_DIRECTORY);
  assert_true(here >= 0);
  assert_int_equal(chdir(scratch_directory), 0);
  assert_int_equal(put_output("relative", "content", NULL), MMC_OK);
  assert_int_equal(put_output("./dotted", "content", NULL), MMC_OK);
  char longest[256];
  memset(longest, 'n', 255);
  longest[255] = '\0';
  assert_int_equal(put_output(longest, "content", NULL), MMC_OK);
  assert_int_equal(fchdir(here), 0);
  close(here);
  assert_content(scratch("relative"), "content");
  assert_content(scratch("dotted"), "content");
  assert_int_equal(entries_in(scratch_directory), 3);
}

static void test_unwritable(void **state) {
  (void)state;
  scratch_clear();
  assert_cannot_write(scratch("no/such/directory.npy"), "No such file or directory");
  assert_cannot_write(scratch("new/"), "No such file or directory");
  assert_cannot_write("", "No such file or directory");
  assert_cannot_write(scratch_directory, "Is a directory");
  put_file(scratch("file"), "x", 1);
  assert_cannot_write(scratch("file/in.npy"), "Not a directory");
  char longer[400] = "";
  snprintf(longer, sizeof longer, "%s/", scratch_directory);
  memset(longer + strlen(longer), 'n', 256);
  mmci_error error = {.text = ""};
  assert_int_equal(put_output(longer, "x", &error), MMC_E_IO);
  assert_holds(error.text, "File name too long");
  assert_int_equal(entries_in(scratch_directory), 1);
}

/* What gets in the way between the first byte and the last. */
static void test_commit_fails(void **state) {
  (void)state;
  scratch_clear();
  mmci_output_file *file = NULL;
  mmci_error error = {.text = ""};
  assert_int_equal(mmci_output_file_create(scratch("taken"), &file, NULL), MMC_OK);
  assert_int_equal(mmci_output_file_write(file, "x", 1, NULL), MMC_OK);
  assert_int_equal(mkdir(scratch("taken"), 0755), 0);
  assert_int_equal(mmci_output_file_commit(file, &error), MMC_E_IO);
  assert_holds(error.text, "/taken: cannot write: Is a directory");
  assert_int_equal(entries_in(scratch_directory), 1);

  assert_int_equal(mmci_output_file_create(scratch("taken/gone"), &file, NULL), MMC_OK);
  bool gone = rmdir(scratch("taken")) == 0; /* not while a file in it has a name */
  if (gone) {
    assert_int_equal(mmci_output_file_commit(file, &error), MMC_E_IO);
    assert_holds(error.text, "/taken/gone: cannot write: No such file or directory");
  } else {
    mmci_output_file_discard(file);
  }
}

static void test_permission(void **state) {
  (void)state;
  scratch_clear();
  assert_int_equal(mkdir(scratch("locked"), 0555), 0);
  assert_int_equal(mkdir(scratch("open"), 0755), 0);
  assert_int_equal(chmod(scratch("open"), 0777), 0);
  assert_int_equal(chmod(scratch_directory, 0755), 0);
  if (!drop_privileges()) skip();
  mmci_error no_directory = {.text = ""}, no_file = {.text = ""};
  mmc_status in_locked = put_output(scratch("locked/file"), "x", &no_directory);
  /* The directory would allow it, but the file says no. */
  mmc_status in_open = put_output(scratch("open/file"), "kept", NULL);
  int changed = chmod(scratch("open/file"), 0444);
  mmc_status on_locked = put_output(scratch("open/file"), "lost", &no_file);
  restore_privileges();

  assert_int_equal(in_locked, MMC_E_IO);
  assert_holds(no_directory.text, "Permission denied");
  assert_int_equal(entries_in(scratch("locked")), 0);
  assert_int_equal(in_open, MMC_OK);
  assert_int_equal(changed, 0);
  assert_int_equal(on_locked, MMC_E_IO);
  assert_holds(no_file.text, "/open/file: cannot write: Permission denied");
  assert_content(scratch("open/file"), "kept");
  assert_int_equal(entries_in(scratch("open")), 1);
  unlink(scratch("open/file"));
}

/* ---- failures that leave nothing ------------------------------------------------------------ */

/* Says whether the scratch directory takes files without a name. */
static bool has_unnamed_files(void) {
  int descriptor = open(scratch_directory, O_TMPFILE | O_WRONLY, 0600);
  if (descriptor < 0) return false;
  close(descriptor);
  return true;
}

/* A process killed in the middle leaves nothing behind. */
static void test_killed(void **state) {
  (void)state;
  scratch_clear();
  if (!has_unnamed_files()) skip();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    mmci_output_file *file = NULL;
    if (mmci_output_file_create(scratch("killed"), &file, NULL) != MMC_OK) _exit(1);
    if (mmci_output_file_write(file, "part", 4, NULL) != MMC_OK) _exit(2);
    raise(SIGKILL);
  }
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFSIGNALED(result));
  assert_int_equal(entries_in(scratch_directory), 0);
}

/* From here on, this process finds no file system that has files without a name. */
static bool forbid_unnamed_files(void) {
  const uint32_t unnamed = O_TMPFILE & ~O_DIRECTORY;
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]) +
                                             (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, unnamed, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return false;
  return !has_unnamed_files();
}

/* Where a file cannot be without a name, it has one until it is complete. */
static void test_named_temporary(void **state) {
  (void)state;
  scratch_clear();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    if (!forbid_unnamed_files()) _exit(77);
    signal(SIGXFSZ, SIG_IGN);
    umask(027);
    mmci_output_file *file = NULL;
    if (mmci_output_file_create(scratch("file"), &file, NULL) != MMC_OK) _exit(1);
    if (mmci_output_file_write(file, "content", 7, NULL) != MMC_OK) _exit(2);
    if (entries_in(scratch_directory) != 1 || access(scratch("file"), F_OK) == 0) _exit(3);
    if (mmci_output_file_commit(file, NULL) != MMC_OK) _exit(4);
    if (entries_in(scratch_directory) != 1) _exit(5);
    if (permissions_of(scratch("file")) != 0640) _exit(6);
    limit_files(3);
    mmci_error error = {.text = ""};
    mmc_status status = put_output(scratch("file"), "longer", &error);
    mmc_status other_status = put_output(scratch("other"), "longer", &error);
    limit_files(RLIM_INFINITY);
    if (status != MMC_E_IO || other_status != MMC_E_IO) _exit(7);
    if (strstr(error.text, "File too large") == NULL) _exit(8);
    if (entries_in(scratch_directory) != 1) _exit(9);
    _exit(0);
  }
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  if (WEXITSTATUS(result) == 77) {
    print_message("no system call filter can be set here\n");
    skip();
  }
  assert_int_equal(WEXITSTATUS(result), 0);
  assert_content(scratch("file"), "content");
}

/* ---- special files ------------------------------------------------------------------------- */

static void test_devices(void **state) {
  (void)state;
  if (!drop_privileges()) skip();
  mmci_error error = {.text = ""};
  mmc_status full = put_output("/dev/full", "content", &error);
  mmc_status null = put_output("/dev/null", "content", NULL);
  restore_privileges();
  assert_int_equal(full, MMC_E_IO);
  assert_holds(error.text, "/dev/full: cannot write: No space left on device");
  assert_int_equal(null, MMC_OK);
}

/* "/dev/stdout" is standard output as it is: a file goes on where it stands. */
static void test_standard_output(void **state) {
  (void)state;
  scratch_clear();
  put_file(scratch("log"), "before ", 7);
  fflush(stdout);
  int saved = dup(STDOUT_FILENO);
  int descriptor = open(scratch("log"), O_WRONLY | O_APPEND);
  assert_true(saved >= 0 && descriptor >= 0);
  if (!drop_privileges()) {
    close(saved);
    close(descriptor);
    skip();
  }
  dup2(descriptor, STDOUT_FILENO);
  close(descriptor);
  mmc_status status = put_output("/dev/stdout", "during", NULL);
  ssize_t written = write(STDOUT_FILENO, " after", 6);
  close(STDOUT_FILENO);
  mmci_error error = {.text = ""};
  mmc_status closed = put_output("/dev/stdout", "x", &error);
  dup2(saved, STDOUT_FILENO);
  close(saved);
  restore_privileges();
  assert_int_equal(status, MMC_OK);
  assert_int_equal(written, 6);
  assert_content(scratch("log"), "before during after");
  assert_int_equal(closed, MMC_E_IO);
  assert_holds(error.text, "/dev/stdout: cannot write: Bad file descriptor");
  assert_int_equal(entries_in(scratch_directory), 1);
}

enum { FIFO_BYTES = 1 << 20 }; /* more than a pipe holds */

typedef struct drainer {
  pthread_t writer;
  int descriptor;
  char *bytes;
  size_t size;
} drainer;

/* Reads slowly, and interrupts the writer each time. */
static void *drain(void *argument) {
  drainer *d = argument;
  for (ssize_t got; (got = read(d->descriptor, d->bytes + d->size, 5000)) > 0;) {
    d->size += (size_t)got;
    pthread_kill(d->writer, SIGALRM);
    usleep(100);
  }
  close(d->descriptor);
  return NULL;
}

static void ignore_signal(int number) {
  (void)number;
}

/* Straight into a FIFO, which is there afterwards, in pieces when signals interrupt; and nobody
 * reading is an error, not a death. */
static void test_fifo(void **state) {
  (void)state;
  scratch_clear();
  signal(SIGPIPE, SIG_IGN);
  const char *path = scratch("fifo");
  assert_int_equal(mkfifo(path, 0600), 0);
  int reader = open(path, O_RDONLY | O_NONBLOCK);
  assert_true(reader >= 0);
  assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
  drainer d = {.writer = pthread_self(), .descriptor = reader, .bytes = malloc(FIFO_BYTES + 5000)};
  char *content = malloc(FIFO_BYTES + 1);
  assert_non_null(d.bytes);
  assert_non_null(content);
  for (size_t i = 0; i < FIFO_BYTES; i++) content[i] = (char)('a' + i % 23);
  content[FIFO_BYTES] = '\0';
  mmci_output_file *file = NULL; /* open before the reader reads, or it sees an end at once */
  assert_int_equal(mmci_output_file_create(path, &file, NULL), MMC_OK);
  pthread_t thread;
  struct sigaction action = {.sa_handler = ignore_signal};
  sigaction(SIGALRM, &action, NULL); /* writes are not restarted */
  assert_int_equal(pthread_create(&thread, NULL, drain, &d), 0);
  mmc_status status = put_output(path, content, NULL);
  assert_int_equal(mmci_output_file_commit(file, NULL), MMC_OK);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(status, MMC_OK);
  assert_int_equal(d.size, FIFO_BYTES);
  assert_memory_equal(d.bytes, content, FIFO_BYTES);
  free(d.bytes);
  free(content);
  struct stat now;
  assert_int_equal(lstat(path, &now), 0);
  assert_true(S_ISFIFO(now.st_mode));

  reader = open(path, O_RDONLY | O_NONBLOCK);
  assert_int_equal(mmci_output_file_create(path, &file, NULL), MMC_OK);
  close(reader);
  mmci_error error = {.text = ""};
  assert_int_equal(mmci_output_file_write(file, "x", 1, &error), MMC_E_IO);
  assert_holds(error.text, "Broken pipe");
  mmci_output_file_discard(file);
  assert_int_equal(entries_in(scratch_directory), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_or_not_at_all),
      cmocka_unit_test(test_a_temporary_name),
      cmocka_unit_test(test_two_writers),
      cmocka_unit_test(test_permissions),
      cmocka_unit_test(test_many_links),
      cmocka_unit_test(test_symbolic_links),
      cmocka_unit_test(test_relative_path),
      cmocka_unit_test(test_unwritable),
      cmocka_unit_test(test_commit_fails),
      cmocka_unit_test(test_permission),
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_named_temporary),
      cmocka_unit_test(test_devices),
      cmocka_unit_test(test_standard_output),
      cmocka_unit_test(test_fifo),
      cmocka_unit_test(test_nothing_left),
  };
  return cmocka_run_group_tests_name("output file", tests, scratch_setup, scratch_teardown);
}
