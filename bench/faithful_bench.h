/* faithful_bench.h: what bench_faithful and bench_residues share: the device, words of the command
 * line, and numbers of a JSON line. */
#ifndef MMC_BENCH_FAITHFUL_BENCH_H
#define MMC_BENCH_FAITHFUL_BENCH_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "faithful_data.h"
#include "inside.h"

static mmci_opened on;
static mmci_queue *queue;

static void copy_bytes(void *to, const void *from, size_t bytes, bool up) {
  mmci_error error = {0};
  const mmci_transfer all = {to, from, (int64_t)bytes, (int64_t)bytes, 1, (int64_t)bytes};
  check((up ? on.ops->async->upload : on.ops->async->download)(queue, &all, &error), &error);
  check(on.ops->sync(queue, &error), &error);
}

static int wait_for_all(void *user) {
  (void)user;
  return on.ops->sync(queue, NULL) != MMC_OK;
}

/* A number, or null. */
static void print_number(const char *name, double value) {
  if (isfinite(value))
    printf(", \"%s\": %.6g", name, value);
  else
    printf(", \"%s\": null", name);
}

/* Returns the quotient of two errors; 0 when ours is 0. */
static double ratio_of(double ours, double theirs) {
  return ours == 0 ? 0 : ours / theirs;
}

static bool read_size(const char *text, int64_t size[3]) {
  char after;
  int fields =
      sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%c", &size[0], &size[1], &size[2], &after);
  if (fields == 1) size[1] = size[2] = size[0];
  return (fields == 1 || fields == 3) && size[0] > 0 && size[1] > 0 && size[2] > 0;
}

static bool read_data(const char *text, faithful_data *out) {
  for (int t = 0; t < FAITHFUL_DATA; t++)
    if (strcmp(text, faithful_data_name((faithful_data)t)) == 0) {
      *out = (faithful_data)t;
      return true;
    }
  return false;
}

#endif
