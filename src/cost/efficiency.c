#include "cost/efficiency.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

int64_t mmci_array_count(const mmci_array *array) {
  return (int64_t)array->grid[0].count * array->grid[1].count * array->grid[2].count;
}

mmc_status mmci_array_create(const mmci_gemm *like, const mmci_grid grid[3], mmci_array **out,
                             mmci_error *error) {
  mmci_array *array = mmci_alloc_zeroed(1, sizeof *array);
  if (array == NULL) return mmci_fail_nomem(error, sizeof *array);
  array->like = *like;
  memcpy(array->grid, grid, sizeof array->grid);
  size_t count = (size_t)mmci_array_count(array);
  array->seconds = mmci_alloc_array(count, sizeof *array->seconds);
  if (array->seconds == NULL) {
    mmci_array_destroy(array);
    return mmci_fail_nomem(error, count * sizeof *array->seconds);
  }
  *out = array;
  return MMC_OK;
}

void mmci_array_destroy(mmci_array *array) {
  if (array == NULL) return;
  free(array->seconds);
  free(array->floors[0]);
  free(array->floors[1]);
  free(array);
}

static bool is_grid(const mmci_grid *grid) {
  if (grid->step < 1 || grid->count < 1 || grid->count > MMCI_ARRAY_VALUES) return false;
  for (int i = 0; i < grid->count; i++)
    if (grid->values[i] <= (i > 0 ? grid->values[i - 1] : 0) || grid->values[i] % grid->step != 0)
      return false;
  return true;
}

/* A float below the number, by a little more than rounding may add. */
static float floor_of(double number) {
  return (float)(number * (1 - 1e-6));
}

/* Writes the floors along m, or along n. */
static void write_floors(mmci_array *array, int axis, float *floors) {
  const mmci_grid *grid = array->grid;
  const int64_t columns = grid[2].count, plane = grid[1].count * columns;
  const int64_t back = axis == 0 ? plane : 1; /* to the size before along the axis */
  for (int64_t at = 0; at < mmci_array_count(array); at++) {
    const int64_t i = axis == 0 ? at / plane : at % columns;
    const float here = floor_of(array->seconds[at] / (double)grid[axis].values[i]);
    floors[at] = i > 0 && floors[at - back] < here ? floors[at - back] : here;
  }
}

static mmc_status add_floors(mmci_array *array, mmci_error *error) {
  const size_t count = (size_t)mmci_array_count(array);
  for (int f = 0; f < 2; f++) {
    array->floors[f] = mmci_alloc_array(count, sizeof *array->floors[f]);
    if (array->floors[f] == NULL) return mmci_fail_nomem(error, count * sizeof *array->floors[f]);
    write_floors(array, 2 * f, array->floors[f]);
  }
  return MMC_OK;
}

mmc_status mmci_array_restore(const mmci_gemm *like, const mmci_grid grid[3], const double *seconds,
                              const mmci_trust *trust, mmci_array **out, mmci_error *error) {
  for (int i = 0; i < 3; i++)
    if (!is_grid(&grid[i]))
      return mmci_fail(error, MMC_E_FORMAT,
                       "array: expected 1 to %d rising multiples of the step along %c",
                       MMCI_ARRAY_VALUES, "mkn"[i]);
  const double facts[] = {trust->margin, trust->between, trust->error};
  for (int f = 0; f < 3; f++)
    if (!(facts[f] >= 0) || !isfinite(facts[f]))
      return mmci_fail(error, MMC_E_FORMAT, "array: expected margins and an error >= 0, got %g",
                       facts[f]);
  mmci_array *array;
  mmc_status status = mmci_array_create(like, grid, &array, error);
  if (status != MMC_OK) return status;
  array->trust = *trust;
  for (int64_t at = 0; at < mmci_array_count(array); at++) {
    array->seconds[at] = seconds[at];
    if (seconds[at] > 0 && isfinite(seconds[at])) continue;
    mmci_array_destroy(array);
    return mmci_fail(error, MMC_E_FORMAT, "array: expected seconds > 0, got %g at %" PRId64,
                     seconds[at], at);
  }
  status = add_floors(array, error);
  if (status == MMC_OK)
    *out = array;
  else
    mmci_array_destroy(array);
  return status;
}

/* ---- interpolation ------------------------------------------------------------------------- */

/* Where a size lies in a grid: it has gone this share of the way from value at to the next. */
typedef struct place {
  int at, next;
  double share;
} place;

static int64_t rounded_up(int64_t size, int64_t step) {
  return step == 1 ? size : (size + step - 1) / step * step;
}

/* Finds the place of a size; returns false when it is not within the grid. */
static bool find_in_grid(const mmci_grid *grid, int64_t size, place *out) {
  if (size < 1 || size > grid->values[grid->count - 1]) return false;
  const int64_t up = rounded_up(size, grid->step);
  int low = 0; /* ends at the first value that is not below up; no branch depends on the size */
  for (int left = grid->count; left > 1; left -= left / 2)
    low += grid->values[low + left / 2 - 1] < up ? left / 2 : 0;
  *out = (place){.at = low, .next = low};
  if (low == 0 || grid->values[low] == up) return true;
  int64_t below = grid->values[low - 1];
  out->at = low - 1;
  out->share = (double)(up - below) / (double)(grid->values[low] - below);
  return true;
}

static double between(double a, double b, double share) {
  return share > 0 ? a + share * (b - a) : a;
}

/* The seconds of an array, with the strides of its three axes. */
typedef struct view {
  const mmci_array *array;
  int64_t strides[3];
} view;

static view view_of(const mmci_array *array) {
  int64_t columns = array->grid[2].count;
  return (view){.array = array, .strides = {array->grid[1].count * columns, columns, 1}};
}

static void find_corners(const view *v, const place p[3], double corners[8]) {
  for (int c = 0; c < 8; c++) {
    int64_t at = 0;
    for (int i = 0; i < 3; i++) at += v->strides[i] * (c >> i & 1 ? p[i].next : p[i].at);
    corners[c] = v->array->seconds[at];
  }
}

/* Returns what the size takes at the best efficiency of its corners: where the time leaps between
 * grid values, the size may lie before the leap or behind it. */
static double least_seconds(const view *v, const place p[3], const double corners[8]) {
  double larger[3][2]; /* how many times the size is larger than the corner */
  double least = (double)INFINITY;
  for (int i = 0; i < 3; i++) {
    const int64_t *values = v->array->grid[i].values;
    const double at = (double)values[p[i].at], next = (double)values[p[i].next];
    const bool is_between = p[i].share > 0;
    const double size = between(at, next, p[i].share);
    larger[i][0] = is_between ? size / at : 1;
    larger[i][1] = is_between ? size / next : 1;
  }
  for (int c = 0; c < 8; c++) {
    const double seconds =
        corners[c] * (larger[0][c & 1] * larger[1][c >> 1 & 1] * larger[2][c >> 2]);
    least = seconds < least ? seconds : least;
  }
  return least;
}

static double interpolated(const double all[8], const place p[3]) {
  double corners[8];
  memcpy(corners, all, sizeof corners);
  for (int i = 2, count = 4; i >= 0; i--, count /= 2)
    for (int c = 0; c < count; c++)
      corners[c] = between(corners[c], corners[c + count], p[i].share);
  return corners[0];
}

static bool find_places(const mmci_array *array, int64_t m, int64_t k, int64_t n, place p[3]) {
  return find_in_grid(&array->grid[0], m, &p[0]) && find_in_grid(&array->grid[1], k, &p[1]) &&
         find_in_grid(&array->grid[2], n, &p[2]);
}

double mmci_array_seconds(const mmci_array *array, int64_t m, int64_t k, int64_t n) {
  place p[3];
  if (!find_places(array, m, k, n, p)) return (double)NAN;
  const view v = view_of(array);
  double corners[8];
  find_corners(&v, p, corners);
  return interpolated(corners, p);
}

/* ---- two arrays ---------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static bool has_value(const mmci_grid *grid, int64_t value) {
  for (int i = 0; i < grid->count; i++)
    if (grid->values[i] == value) return true;
  return false;
}

/* Makes the lines of both along an axis, up to `from` those of a alone; returns false when they are
 * too many. */
static bool join_lines(const mmci_grid *a, const mmci_grid *b, int64_t from, mmci_grid *out) {
  *out = (mmci_grid){.step = common_divisor(a->step, b->step)};
  for (int i = 0, j = 0; i < a->count || j < b->count;) {
    const int64_t x = i < a->count ? a->values[i] : INT64_MAX,
                  y = j < b->count ? b->values[j] : INT64_MAX, least = x < y ? x : y;
    i += x == least;
    j += y == least;
    if (least <= from && x != least) continue;
    if (out->count == MMCI_ARRAY_VALUES) return false;
    out->values[out->count++] = least;
  }
  return true;
}

/* Makes the lines of both or, where they are too many, those of the smaller range and those of the
 * other behind it. */
static bool join_grids(const mmci_grid *a, const mmci_grid *b, mmci_grid *out) {
  const int64_t a_last = a->values[a->count - 1], b_last = b->values[b->count - 1];
  if (join_lines(a, b, 0, out)) return true;
  return a_last <= b_last ? join_lines(a, b, a_last, out) : join_lines(b, a, b_last, out);
}

static bool has_point(const mmci_array *array, const int64_t sizes[3]) {
  return has_value(&array->grid[0], sizes[0]) && has_value(&array->grid[1], sizes[1]) &&
         has_value(&array->grid[2], sizes[2]);
}

static double range_of(const mmci_array *array) {
  double range = 1;
  for (int d = 0; d < 3; d++) range *= (double)array->grid[d].values[array->grid[d].count - 1];
  return range;
}

/* Returns what a point of the joined array takes; NaN when it is in neither. */
static double joined_seconds(const mmci_array *kept, const mmci_array *fresh,
                             const int64_t sizes[3]) {
  const bool measured = has_point(fresh, sizes) || has_point(kept, sizes);
  const bool first = measured ? has_point(fresh, sizes) : range_of(fresh) <= range_of(kept);
  const mmci_array *order[] = {first ? fresh : kept, first ? kept : fresh};
  const double seconds = mmci_array_seconds(order[0], sizes[0], sizes[1], sizes[2]);
  return isnan(seconds) ? mmci_array_seconds(order[1], sizes[0], sizes[1], sizes[2]) : seconds;
}

mmc_status mmci_array_join(const mmci_array *kept, const mmci_array *fresh, mmci_array **out,
                           mmci_error *error) {
  mmci_grid grid[3];
  *out = NULL;
  for (int d = 0; d < 3; d++)
    if (!join_grids(&kept->grid[d], &fresh->grid[d], &grid[d])) return MMC_OK;
  mmci_array *joined;
  mmc_status status = mmci_array_create(&fresh->like, grid, &joined, error);
  if (status != MMC_OK) return status;
  joined->trust = (mmci_trust){fmax(kept->trust.margin, fresh->trust.margin),
                               fmax(kept->trust.between, fresh->trust.between),
                               fmax(kept->trust.error, fresh->trust.error)};
  bool whole = true;
  double *at = joined->seconds;
  for (int i = 0; i < grid[0].count; i++)
    for (int j = 0; j < grid[1].count; j++)
      for (int l = 0; l < grid[2].count; l++, at++) {
        const int64_t sizes[] = {grid[0].values[i], grid[1].values[j], grid[2].values[l]};
        *at = joined_seconds(kept, fresh, sizes);
        whole = whole && !isnan(*at);
      }
  if (whole)
    *out = joined;
  else
    mmci_array_destroy(joined);
  return MMC_OK;
}

/* ---- the online search --------------------------------------------------------------------- */

typedef struct cut {
  mmci_axis axis;
  int64_t first, second;
  double seconds;
  double margin; /* the share that the cut had to gain */
} cut;

/* Writes the times along an axis up to the size itself, with the other two sizes fixed: E(*, n, k)
 * or E(m, *, k). */
static void time_line(const view *v, const place p[3], int axis, double line[MMCI_ARRAY_VALUES]) {
  int one = (axis + 1) % 3, other = (axis + 2) % 3;
  const double *from[4]; /* the corners of the other two axes */
  for (int c = 0; c < 4; c++)
    from[c] = v->array->seconds + v->strides[one] * (c & 1 ? p[one].next : p[one].at) +
              v->strides[other] * (c & 2 ? p[other].next : p[other].at);
  for (int i = 0; i <= p[axis].next; i++) {
    int64_t at = i * v->strides[axis];
    double low = between(from[0][at], from[1][at], p[one].share);
    double high = p[other].share > 0 ? between(from[2][at], from[3][at], p[one].share) : low;
    line[i] = between(low, high, p[other].share);
  }
}

/* Finds the best cut of size whose one part is a grid value; the other may lie between two. on_grid
 * says that the whole and the sizes along the other axes are grid values. */
static void best_on_line(const mmci_array *array, const double *line, mmci_axis axis, int64_t size,
                         double plain_s, bool on_grid, cut *best) {
  const mmci_grid *grid = &array->grid[axis - MMCI_AXIS_M];
  const int64_t *values = grid->values, up = rounded_up(size, grid->step);
  int above = grid->count - 1; /* ends at the first value that is not below what is left */
  for (int i = 0; i < grid->count && values[i] < size; i++) {
    int64_t rest = up - values[i];
    while (above > 0 && values[above - 1] >= rest) above--;
    if (values[above] < rest) continue;
    double seconds = line[i] + line[above];
    bool rest_on_grid = values[above] == rest || above == 0;
    if (!rest_on_grid) {
      int64_t below = values[above - 1];
      double share = (double)(rest - below) / (double)(values[above] - below);
      seconds = line[i] + between(line[above - 1], line[above], share);
    }
    if (!(seconds < best->seconds)) continue;
    double margin = on_grid && rest_on_grid ? array->trust.margin : array->trust.between;
    if (seconds * (1 + margin) < plain_s)
      *best = (cut){axis, values[i], size - values[i], seconds, margin};
  }
}

/* Says whether some cut of the size along m (0) or n (2) might take less than plain_s by more than
 * its margin. No part takes less for its size than the floor of all sizes up to the whole. */
static bool may_gain(const view *v, const place p[3], int axis, int64_t size, double plain_s) {
  const mmci_array *array = v->array;
  const float *floors = array->floors[axis / 2];
  if (floors == NULL) return true;
  const int one = (axis + 1) % 3, other = (axis + 2) % 3;
  double corners[4];
  for (int c = 0; c < 4; c++)
    corners[c] = (double)floors[v->strides[axis] * p[axis].next +
                                v->strides[one] * (c & 1 ? p[one].next : p[one].at) +
                                v->strides[other] * (c & 2 ? p[other].next : p[other].at)];
  const double low = between(corners[0], corners[1], p[one].share),
               high = between(corners[2], corners[3], p[one].share),
               least_s = (double)size * between(low, high, p[other].share);
  const mmci_trust *trust = &array->trust;
  const double margin = trust->margin < trust->between ? trust->margin : trust->between;
  return least_s * (1 + margin) < plain_s;
}

bool mmci_array_choose(const mmci_array *array, int64_t m, int64_t k, int64_t n,
                       mmci_choice *choice) {
  place p[3];
  if (!find_places(array, m, k, n, p)) return false;
  const view v = view_of(array);
  double line[MMCI_ARRAY_VALUES], corners[8];
  find_corners(&v, p, corners);
  const double plain_s = interpolated(corners, p), by_corners = least_seconds(&v, p, corners),
               least_s = by_corners < plain_s ? by_corners : plain_s;
  const bool on_grid = !(p[0].share > 0) && !(p[1].share > 0) && !(p[2].share > 0);
  cut best = {.axis = MMCI_PIECE, .seconds = least_s};
  if (may_gain(&v, p, 0, m, least_s)) {
    time_line(&v, p, 0, line);
    best_on_line(array, line, MMCI_AXIS_M, m, least_s, on_grid, &best);
  }
  if (may_gain(&v, p, 2, n, least_s)) {
    time_line(&v, p, 2, line);
    best_on_line(array, line, MMCI_AXIS_N, n, least_s, on_grid, &best);
  }

  /* Of the recipe only what is read is written, as plans ask for hundreds of prices. */
  mmci_recipe_set_whole(&choice->recipe, 0);
  choice->plain_s = choice->seconds = plain_s;
  choice->spread = array->trust.error;
  choice->gain = (mmci_estimate){1, 1, 1};
  if (best.axis == MMCI_PIECE) return true;
  const mmci_recipe plain = mmci_recipe_whole(0);
  const int64_t sizes[2] = {best.first, best.second};
  if (!mmci_recipe_split(best.axis, sizes, &plain, &plain, &choice->recipe)) return true;
  double gain = plain_s / best.seconds;
  choice->seconds = best.seconds;
  choice->gain = (mmci_estimate){gain, gain / (1 + best.margin), gain * (1 + best.margin)};
  return true;
}
