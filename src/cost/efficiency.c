#include "cost/efficiency.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lesser.h"

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
  free(array->is_whole);
  for (int i = 0; i < 3; i++) free(array->places[i]);
  free(array);
}

static bool is_grid(const mmci_grid *grid) {
  if (grid->step < 1 || grid->count < 1 || grid->count > MMCI_ARRAY_VALUES) return false;
  for (int i = 0; i < grid->count; i++)
    if (grid->values[i] <= (i > 0 ? grid->values[i - 1] : 0) || grid->values[i] % grid->step != 0)
      return false;
  return true;
}

static double between(double a, double b, double share) {
  return a + share * (b - a); /* a and b are the same where the share is 0 */
}

/* Returns how far points are apart that are neighbours along an axis. */
static int64_t stride_of(const mmci_array *array, int axis) {
  const int64_t columns = array->grid[2].count;
  return axis == 0 ? array->grid[1].count * columns : axis == 1 ? columns : 1;
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

/* By what a grid value is multiplied to give the one before; 1 for the first. */
typedef struct grid_ratios {
  double of[3][MMCI_ARRAY_VALUES];
} grid_ratios;

/* Says whether no cut along m (0) or n (2) of a product between a point and the ones before may
 * take less, by more than its margin, than the product at the efficiency of the point, which is no
 * less than what best_cut() compares with. The floor of lines along the axis, and that time, are
 * linear in each of the other two sizes, so that the four lines at their ends tell it of all. */
static bool stays_whole(const mmci_array *array, const grid_ratios *ratios, int axis,
                        const int at[3], int64_t point) {
  const double more = 1 + 1e-9; /* than roundings may add up to */
  const int other = 2 - axis;
  const float *floors = array->floors[axis / 2] + point;
  const int64_t back[2] = {at[1] > 0 ? stride_of(array, 1) : 0,
                           at[other] > 0 ? stride_of(array, other) : 0};
  const double part[2] = {ratios->of[1][at[1]], ratios->of[other][at[other]]},
               share_s = array->seconds[point] / (double)array->grid[axis].values[at[axis]] * more,
               most = 1 + mmci_lesser(array->trust.margin, array->trust.between);
  return (double)floors[0] * most >= share_s &&
         (double)floors[-back[0]] * most >= share_s * part[0] &&
         (double)floors[-back[1]] * most >= share_s * part[1] &&
         (double)floors[-back[0] - back[1]] * most >= share_s * (part[0] * part[1]);
}

static mmc_status add_floors(mmci_array *array, mmci_error *error) {
  const size_t count = (size_t)mmci_array_count(array);
  for (int f = 0; f < 2; f++) {
    array->floors[f] = mmci_alloc_array(count, sizeof *array->floors[f]);
    if (array->floors[f] == NULL) return mmci_fail_nomem(error, count * sizeof *array->floors[f]);
    write_floors(array, 2 * f, array->floors[f]);
  }
  array->is_whole = mmci_alloc_array(count, sizeof *array->is_whole);
  if (array->is_whole == NULL) return mmci_fail_nomem(error, count * sizeof *array->is_whole);
  grid_ratios ratios;
  for (int i = 0; i < 3; i++)
    for (int v = 0; v < array->grid[i].count; v++)
      ratios.of[i][v] =
          v > 0 ? (double)array->grid[i].values[v - 1] / (double)array->grid[i].values[v] : 1;
  int at[3];
  int64_t point = 0;
  for (at[0] = 0; at[0] < array->grid[0].count; at[0]++)
    for (at[1] = 0; at[1] < array->grid[1].count; at[1]++)
      for (at[2] = 0; at[2] < array->grid[2].count; at[2]++, point++)
        array->is_whole[point] =
            stays_whole(array, &ratios, 0, at, point) && stays_whole(array, &ratios, 2, at, point);
  return MMC_OK;
}

/* ---- places -------------------------------------------------------------------------------- */

static int64_t rounded_up(int64_t size, int64_t step) {
  return step == 1 ? size : (size + step - 1) / step * step;
}

/* Finds the place of a size along an axis; returns false when it is not within the grid. */
static bool find_in_grid(const mmci_array *array, int axis, int64_t size, mmci_grid_place *out) {
  const mmci_grid *grid = &array->grid[axis];
  if (size < 1 || size > grid->values[grid->count - 1]) return false;
  const int64_t up = rounded_up(size, grid->step);
  int low = 0; /* ends at the first value that is not below up; no branch depends on the size */
  for (int left = grid->count; left > 1; left -= left / 2)
    low += grid->values[low + left / 2 - 1] < up ? left / 2 : 0;
  const uint32_t stride = (uint32_t)stride_of(array, axis), at = (uint32_t)low * stride;
  *out = (mmci_grid_place){{at, at}, 0, {1, 1}};
  if (low == 0 || grid->values[low] == up) return true;
  const int64_t below = grid->values[low - 1], above = grid->values[low];
  out->at[0] = at - stride;
  out->share = (double)(up - below) / (double)(above - below);
  const double size_between = between((double)below, (double)above, out->share);
  out->larger[0] = size_between / (double)below;
  out->larger[1] = size_between / (double)above;
  return true;
}

/* Returns the place of a size along an axis, which may lie in room; NULL when it is not within the
 * grid. */
static inline const mmci_grid_place *find_place(const mmci_array *array, int axis, int64_t size,
                                                mmci_grid_place *room) {
  if (size >= 1 && size <= array->placed[axis]) return &array->places[axis][size - 1];
  return find_in_grid(array, axis, size, room) ? room : NULL;
}

/* Places of larger sizes are found when they are asked for: their products take far longer. */
enum { MOST_PLACED = 1024 };

static mmc_status add_places(mmci_array *array, mmci_error *error) {
  for (int i = 0; i < 3; i++) {
    const int64_t last = array->grid[i].values[array->grid[i].count - 1];
    const int32_t count = last < MOST_PLACED ? (int32_t)last : MOST_PLACED;
    array->places[i] = mmci_alloc_array((size_t)count, sizeof *array->places[i]);
    if (array->places[i] == NULL)
      return mmci_fail_nomem(error, (uint64_t)count * sizeof *array->places[i]);
    for (int32_t size = 1; size <= count; size++)
      find_in_grid(array, i, size, &array->places[i][size - 1]);
    array->placed[i] = count;
  }
  return MMC_OK;
}

/* ---- restored ------------------------------------------------------------------------------ */

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
  if (status == MMC_OK) status = add_places(array, error);
  if (status == MMC_OK)
    *out = array;
  else
    mmci_array_destroy(array);
  return status;
}

/* ---- interpolation ------------------------------------------------------------------------- */

/* A product in an array: the places of its sizes, some of which lie in room. Of the eight points
 * around it, point c is at the greater value along m where c & 1, along k where c & 2, along n
 * where c & 4. */
typedef struct cell {
  const mmci_array *array;
  const mmci_grid_place *place[3];
  mmci_grid_place room[3];
} cell;

/* Finds the cell of a product; returns false outside of the array. */
static inline bool find_cell(const mmci_array *array, int64_t m, int64_t k, int64_t n, cell *out) {
  out->array = array;
  out->place[0] = find_place(array, 0, m, &out->room[0]);
  out->place[1] = find_place(array, 1, k, &out->room[1]);
  out->place[2] = find_place(array, 2, n, &out->room[2]);
  return out->place[0] != NULL && out->place[1] != NULL && out->place[2] != NULL;
}

static inline size_t point_of(const cell *x, int c) {
  return (size_t)x->place[0]->at[c & 1] + x->place[1]->at[c >> 1 & 1] + x->place[2]->at[c >> 2];
}

/* Returns the seconds of the product between those of the points. */
static inline double interpolated(const cell *x) {
  const double *seconds = x->array->seconds;
  double s[4];
  for (int c = 0; c < 4; c++)
    s[c] = between(seconds[point_of(x, c)], seconds[point_of(x, c + 4)], x->place[2]->share);
  for (int c = 0; c < 2; c++) s[c] = between(s[c], s[c + 2], x->place[1]->share);
  return between(s[0], s[1], x->place[0]->share);
}

/* Returns what the product takes at the best efficiency of the points: where the time leaps between
 * grid values, the size may lie before the leap or behind it. */
static double least_seconds(const cell *x) {
  const double *m = x->place[0]->larger, *k = x->place[1]->larger, *n = x->place[2]->larger;
  double least = (double)INFINITY;
  for (int c = 0; c < 8; c++)
    least = mmci_lesser(x->array->seconds[point_of(x, c)] * (m[c & 1] * k[c >> 1 & 1] * n[c >> 2]),
                        least);
  return least;
}

double mmci_array_seconds(const mmci_array *array, int64_t m, int64_t k, int64_t n) {
  cell x;
  return find_cell(array, m, k, n, &x) ? interpolated(&x) : (double)NAN;
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
static void time_line(const cell *x, int axis, double line[MMCI_ARRAY_VALUES]) {
  const int one = (axis + 1) % 3, other = (axis + 2) % 3;
  const int64_t stride = stride_of(x->array, axis), end = x->place[axis]->at[1];
  const double share = x->place[one]->share;
  const double *from[4]; /* the points at the other two sizes and the first value */
  for (int c = 0; c < 4; c++)
    from[c] = x->array->seconds + x->place[one]->at[c & 1] + x->place[other]->at[c >> 1];
  for (int64_t at = 0, i = 0; at <= end; at += stride, i++) {
    const double low = between(from[0][at], from[1][at], share),
                 high = between(from[2][at], from[3][at], share);
    line[i] = between(low, high, x->place[other]->share);
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
static bool may_gain(const cell *x, int axis, int64_t size, double plain_s) {
  const float *floors = x->array->floors[axis / 2];
  if (floors == NULL) return true;
  const int one = (axis + 1) % 3, other = (axis + 2) % 3;
  const double share = x->place[one]->share;
  double corners[4];
  for (int c = 0; c < 4; c++)
    corners[c] = (double)floors[point_of(x, 1 << axis | (c & 1) << one | c >> 1 << other)];
  const double low = between(corners[0], corners[1], share),
               high = between(corners[2], corners[3], share),
               least_s = (double)size * between(low, high, x->place[other]->share);
  const mmci_trust *trust = &x->array->trust;
  return least_s * (1 + mmci_lesser(trust->margin, trust->between)) < plain_s;
}

/* Finds the best cut along m or n of a product that takes plain_s. */
static void best_cut(const cell *x, const int64_t sizes[3], double plain_s, cut *best) {
  const double least_s = mmci_lesser(least_seconds(x), plain_s);
  const bool on_grid =
      x->place[0]->share == 0 && x->place[1]->share == 0 && x->place[2]->share == 0;
  double line[MMCI_ARRAY_VALUES];
  *best = (cut){.axis = MMCI_PIECE, .seconds = least_s};
  for (int axis = 0; axis < 3; axis += 2) {
    if (!may_gain(x, axis, rounded_up(sizes[axis], x->array->grid[axis].step), least_s)) continue;
    time_line(x, axis, line);
    best_on_line(x->array, line, (mmci_axis)(MMCI_AXIS_M + axis), sizes[axis], least_s, on_grid,
                 best);
  }
}

/* Finds what a product takes by the plain call, and its best cut, whose axis is MMCI_PIECE where no
 * cut gains. Returns false outside of the array. */
static inline bool find_best(const mmci_array *array, int64_t m, int64_t k, int64_t n,
                             double *plain_s, cut *best) {
  cell x;
  if (!find_cell(array, m, k, n, &x)) return false;
  *plain_s = interpolated(&x);
  best->axis = MMCI_PIECE;
  if (array->is_whole == NULL || !array->is_whole[point_of(&x, 7)])
    best_cut(&x, (int64_t[]){m, k, n}, *plain_s, best);
  return true;
}

static bool split_by(const cut *cut, mmci_recipe *out) {
  const mmci_recipe plain = mmci_recipe_whole(0);
  return mmci_recipe_split(cut->axis, (int64_t[]){cut->first, cut->second}, &plain, &plain, out);
}

bool mmci_array_choose(const mmci_array *array, int64_t m, int64_t k, int64_t n,
                       mmci_choice *choice) {
  cut best;
  double plain_s;
  if (!find_best(array, m, k, n, &plain_s, &best)) return false;
  *choice = (mmci_choice){.recipe = mmci_recipe_whole(0),
                          .plain_s = plain_s,
                          .seconds = plain_s,
                          .spread = array->trust.error,
                          .gain = {1, 1, 1}};
  if (best.axis == MMCI_PIECE || !split_by(&best, &choice->recipe)) return true;
  const double gain = plain_s / best.seconds;
  choice->seconds = best.seconds;
  choice->gain = (mmci_estimate){gain, gain / (1 + best.margin), gain * (1 + best.margin)};
  return true;
}

bool mmci_array_price(const mmci_array *array, int64_t m, int64_t k, int64_t n, mmci_price *out) {
  cut best;
  double plain_s;
  if (!find_best(array, m, k, n, &plain_s, &best)) return false;
  mmci_price_plain(out, plain_s, array->trust.error);
  out->source = MMCI_ARRAY;
  if (best.axis != MMCI_PIECE && split_by(&best, &out->recipe)) out->seconds = best.seconds;
  return true;
}
