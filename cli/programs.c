#include "programs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

bool cli_program_find(const char *name, char path[PATH_MAX]) {
  const char *at = getenv("PATH");
  char tried[PATH_MAX];
  if (at == NULL) at = "/usr/bin:/bin";
  for (;;) {
    size_t length = strcspn(at, ":");
    int size = snprintf(tried, sizeof tried, "%.*s/%s", length == 0 ? 1 : (int)length,
                        length == 0 ? "." : at, name);
    if (size > 0 && size < PATH_MAX && access(tried, X_OK) == 0) {
      strcpy(path, tried);
      return true;
    }
    if (at[length] == '\0') return false;
    at += length + 1;
  }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Starts argv with its input and output in pipes, whose other ends are write_end and read_end.
 * Returns 0 or errno. */
static int spawn(char *const argv[], pid_t *child, int *write_end, int *read_end) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return errno;
  if (pipe2(out, O_CLOEXEC) != 0) {
    int code = errno;
    close(in[0]);
    close(in[1]);
    return code;
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  /* The program gets the default action of SIGPIPE, which this process ignores. */
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int code = posix_spawnp(child, argv[0], &actions, &attributes, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in[0]);
  close(out[1]);
  if (code != 0) {
    close(in[1]);
    close(out[0]);
    return code;
  }
  *write_end = in[1];
  *read_end = out[0];
  return 0;
}

/* Writes input and reads output, whichever is possible, until the output ends. It closes both.
 * Returns 0 or errno; a program that does not read all of its input is no failure yet. */
static int exchange(int write_end, int read_end, const cli_buffer *input, cli_buffer *out) {
  size_t written = 0;
  int code = 0;
  fcntl(write_end, F_SETFL, O_NONBLOCK);
  for (;;) {
    if (write_end >= 0 && written == input->size) {
      close(write_end);
      write_end = -1;
    }
    struct pollfd ends[2] = {{.fd = read_end, .events = POLLIN},
                             {.fd = write_end, .events = POLLOUT}};
    if (poll(ends, 2, -1) < 0) {
      if (errno == EINTR) continue;
      code = errno;
      break;
    }
    if (ends[1].revents != 0) {
      ssize_t n = write(write_end, input->bytes + written, input->size - written);
      if (n > 0) written += (size_t)n;
      if (n < 0 && errno != EAGAIN && errno != EINTR) written = input->size;
    }
    if (ends[0].revents != 0) {
      char bytes[1 << 14];
      ssize_t n = read(read_end, bytes, sizeof bytes);
      if (n == 0) break;
      if (n < 0 && errno == EINTR) continue;
      code = n < 0 ? errno : cli_buffer_write(out, bytes, (size_t)n);
      if (code != 0) break;
    }
  }
  if (write_end >= 0) close(write_end);
  close(read_end);
  return code;
}

int cli_program_run(cli_call *call, const char *package, char *const argv[],
                    const cli_buffer *input, cli_buffer *out) {
  pid_t child = -1;
  int write_end = -1, read_end = -1;
  int code = spawn(argv, &child, &write_end, &read_end);
  if (code == ENOENT || code == EACCES)
    return cli_fail(call, CLI_FAILED, "%s: not found: install %s", argv[0], package);
  if (code != 0)
    return cli_fail(call, CLI_FAILED, "%s: cannot be started: %s", argv[0], strerror(code));
  code = exchange(write_end, read_end, input, out);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return cli_fail(call, CLI_FAILED, "%s: %s", argv[0], strerror(errno));
  if (code != 0) return cli_fail(call, CLI_FAILED, "%s: %s", argv[0], strerror(code));
  if (WIFSIGNALED(status))
    return cli_fail(call, CLI_FAILED, "%s: ended by signal %d", argv[0], WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return cli_fail(call, CLI_FAILED, "%s: failed with exit status %d", argv[0],
                    WEXITSTATUS(status));
  return CLI_DONE;
}

int cli_buffer_save(cli_call *call, const char *option, const char *path,
                    const cli_buffer *buffer) {
  if (strcmp(path, "-") == 0) {
    cli_stream_write(&call->out, buffer->bytes, buffer->size);
    return CLI_DONE; /* main() says when it failed */
  }
  cli_file file;
  if (cli_file_create(path, &file)) {
    cli_stream_write(&file.stream, buffer->bytes, buffer->size);
    if (cli_file_commit(&file)) return CLI_DONE;
  }
  return cli_fail(call, CLI_BAD, "%s: %s: cannot write: %s", option, path, strerror(errno));
}
