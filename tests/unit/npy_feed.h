/* npy_feed.h: bytes that come through a pipe or a socket. */
#ifndef NPY_FEED_H
#define NPY_FEED_H

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "io/npy.h"
#include "npy_scratch.h"

typedef struct feeder {
  int descriptor;
  const unsigned char *bytes;
  size_t size, piece;
} feeder;

/* Writes all, a piece at a time, until nobody reads any more. */
static inline void *feed(void *argument) {
  feeder *f = argument;
  for (size_t at = 0; at < f->size;) {
    size_t size = f->size - at < f->piece ? f->size - at : f->piece;
    ssize_t written = write(f->descriptor, f->bytes + at, size);
    if (written <= 0) break;
    at += (size_t)written;
  }
  close(f->descriptor);
  return NULL;
}

/* Opens "/dev/stdin" while these bytes come from a pipe or a socket. */
static inline mmc_status open_stdin(const unsigned char *bytes, size_t size, size_t piece,
                                    bool socket, mmci_file_array **out, mmci_error *error) {
  signal(SIGPIPE, SIG_IGN); /* whoever reads may stop early */
  int ends[2];
  assert_int_equal(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
  int saved = dup(STDIN_FILENO);
  assert_true(saved >= 0);
  assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
  close(ends[0]);
  feeder f = {ends[1], bytes, size, piece};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
  mmc_status status = mmci_npy_open("/dev/stdin", out, error);
  assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
  close(saved);
  assert_int_equal(pthread_join(thread, NULL), 0);
  return status;
}

#endif
