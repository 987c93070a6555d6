/* replay.c: plays a recording, for tests and for looking at one again.
 *
 * A line is a moment, in order of time, and # begins a comment:
 *     time_s joules [watts [sm_mhz [memory_mhz [celsius [reasons]]]]]
 * A - stands for an unknown figure; reasons is the sum of the bits in meter.h. A line's figures
 * hold from its moment to that of the next. The first moment is when the meter is first read; after
 * the last the recording has ended, which is a failure of the meter. The counter may fall, as a
 * broken one does. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "meter/meter.h"

enum { LINE_SIZE = 512, LINES_MOST = 1 << 20, COLUMNS = 7 };

typedef struct moment {
  double time_s, joules;
  mmci_meter_state state;
} moment;

struct mmci_meter {
  moment *moments;
  size_t count, capacity;
  size_t at;      /* the line that was played last */
  double start_s; /* when the first moment was played; NaN before that */
};

/* ---- the file ------------------------------------------------------------------------------ */

/* Says where a line comes from, for messages. */
typedef struct place {
  const char *path;
  int line;
} place;

static bool is_end(char c) {
  return c == '\0' || c == '\n' || c == '\r' || c == '#';
}

/* Reads at most COLUMNS numbers, "-" as NaN. Returns how many there are; -1 for anything else. */
static int read_numbers(const char *text, double out[COLUMNS]) {
  int count = 0;
  for (const char *at = text;;) {
    at += strspn(at, " \t");
    if (is_end(*at)) return count;
    if (count == COLUMNS) return -1;
    char *end = (char *)at + 1;
    double value = NAN;
    if (*at != '-' || !(is_end(at[1]) || at[1] == ' ' || at[1] == '\t')) {
      value = mmci_number_read(at, &end);
      if (end == at || !isfinite(value) || value < 0) return -1;
    }
    if (!is_end(*end) && *end != ' ' && *end != '\t') return -1;
    out[count++] = value;
    at = end;
  }
}

static mmc_status append_moment(mmci_meter *meter, const moment *m, mmci_error *error) {
  if (meter->count == meter->capacity) {
    size_t capacity = 2 * meter->capacity + 64;
    moment *grown = realloc(meter->moments, capacity * sizeof *grown);
    if (grown == NULL) return mmci_fail_nomem(error, capacity * sizeof *grown);
    meter->moments = grown;
    meter->capacity = capacity;
  }
  meter->moments[meter->count++] = *m;
  return MMC_OK;
}

static mmc_status read_moment(mmci_meter *meter, const char *text, const place *from,
                              mmci_error *error) {
  double numbers[COLUMNS] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};
  int count = read_numbers(text, numbers);
  if (count == 0) return MMC_OK;
  if (count < 2 || !isfinite(numbers[0]) || !isfinite(numbers[1]))
    return mmci_fail(error, MMC_E_FORMAT,
                     "%.200s:%d: expected time_s joules [watts [sm_mhz [memory_mhz [celsius "
                     "[reasons]]]]], numbers not below 0, - for unknown after the second",
                     from->path, from->line);
  if (meter->count > 0 && !(numbers[0] > meter->moments[meter->count - 1].time_s))
    return mmci_fail(error, MMC_E_FORMAT, "%.200s:%d: time_s: expected more than %g, got %g",
                     from->path, from->line, meter->moments[meter->count - 1].time_s, numbers[0]);
  if (isfinite(numbers[6]) && !(numbers[6] <= UINT32_MAX))
    return mmci_fail(error, MMC_E_FORMAT, "%.200s:%d: reasons: expected below 2^32, got %g",
                     from->path, from->line, numbers[6]);
  moment m = {
      .time_s = numbers[0],
      .joules = numbers[1],
      .state =
          {
              .watts = numbers[2],
              .sm_mhz = numbers[3],
              .memory_mhz = numbers[4],
              .celsius = numbers[5],
              .throttle = isfinite(numbers[6]) ? (int64_t)numbers[6] : -1,
          },
  };
  return append_moment(meter, &m, error);
}

static mmc_status read_moments(mmci_meter *meter, FILE *file, place *from, mmci_error *error) {
  char text[LINE_SIZE];
  mmc_status status = MMC_OK;
  while (status == MMC_OK && fgets(text, sizeof text, file) != NULL) {
    from->line++;
    size_t length = strlen(text);
    /* The line is too long, or is cut off by the end of the file or by a NUL. */
    if (length == 0 || text[length - 1] != '\n')
      return mmci_fail(error, MMC_E_FORMAT,
                       "%.200s:%d: expected a line of text, at most %d characters and its end",
                       from->path, from->line, LINE_SIZE - 2);
    if (from->line > LINES_MOST)
      return mmci_fail(error, MMC_E_FORMAT, "%.200s: expected at most %d lines", from->path,
                       LINES_MOST);
    status = read_moment(meter, text, from, error);
  }
  if (status == MMC_OK && ferror(file))
    return mmci_fail(error, MMC_E_IO, "%.200s: cannot read: %s", from->path, strerror(errno));
  if (status == MMC_OK && meter->count < 2)
    return mmci_fail(error, MMC_E_FORMAT, "%.200s: expected two moments at least, got %zu",
                     from->path, meter->count);
  return status;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void replay_close(mmci_meter *meter) {
  free(meter->moments);
  free(meter);
}

static mmc_status replay_open(const mmci_meter_source *source, mmci_meter **out,
                              mmci_error *error) {
  if (source->recording == NULL || source->recording[0] == '\0')
    return mmci_fail_argument(error, MMC_E_ARG, "meter", "expected a file, as in replay:FILE");
  FILE *file = fopen(source->recording, "re");
  if (file == NULL)
    return mmci_fail(error, MMC_E_IO, "%.200s: cannot open: %s", source->recording,
                     strerror(errno));
  mmci_meter *meter = mmci_alloc_zeroed(1, sizeof *meter);
  place from = {.path = source->recording};
  mmc_status status = meter == NULL ? mmci_fail_nomem(error, sizeof *meter)
                                    : read_moments(meter, file, &from, error);
  fclose(file);
  if (status != MMC_OK) {
    if (meter != NULL) replay_close(meter);
    return status;
  }
  meter->start_s = NAN;
  *out = meter;
  return MMC_OK;
}

static void replay_describe(const mmci_meter *meter, char *text, size_t size) {
  mmci_print(text, size, "a recording of %g s in %zu moments",
             meter->moments[meter->count - 1].time_s - meter->moments[0].time_s, meter->count);
}

/* ---- playing ------------------------------------------------------------------------------- */

static const moment *play(mmci_meter *meter, double time_s) {
  if (isnan(meter->start_s)) meter->start_s = time_s;
  double wanted_s = time_s - meter->start_s + meter->moments[0].time_s;
  while (meter->at + 1 < meter->count && meter->moments[meter->at + 1].time_s <= wanted_s)
    meter->at++;
  const moment *m = &meter->moments[meter->at];
  return meter->at + 1 == meter->count && wanted_s > m->time_s ? NULL : m;
}

static mmc_status replay_joules(mmci_meter *meter, double time_s, double *joules,
                                mmci_error *error) {
  const moment *m = play(meter, time_s);
  if (m == NULL)
    return mmci_fail(error, MMC_E_DEVICE, "the recording has ended after %g s",
                     meter->moments[meter->count - 1].time_s - meter->moments[0].time_s);
  *joules = m->joules;
  return MMC_OK;
}

static void replay_state(mmci_meter *meter, double time_s, mmci_meter_state *out) {
  const moment *m = play(meter, time_s);
  *out = m != NULL ? m->state : mmci_meter_state_unknown;
}

const mmci_meter_ops mmci_meter_replay = {
    .name = "replay",
    .plays_file = true,
    .open = replay_open,
    .close = replay_close,
    .describe = replay_describe,
    .joules = replay_joules,
    .state = replay_state,
};
