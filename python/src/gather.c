/* gather.c: see gather.h. */
#include "gather.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- lines of elements ------------------------------------------------------------------------
 */

/* Writes count elements; steps are in bytes. */
typedef void (*line_fn)(char *to, int64_t to_step, const char *from, int64_t from_step,
                        int64_t count);

/* Complex elements are two numbers, of which the imaginary one of a real element is zero. */
typedef struct complex32 {
  float re, im;
} complex32;
typedef struct complex64 {
  double re, im;
} complex64;

/* Lines without gaps have a loop of their own, which the compiler makes vectors of, forwards,
 * backwards and of every second element. */
#define LINE(name, from_type, to_type, value) LINE_FOR(, name, from_type, to_type, value)
#define LINE_FOR(target, name, from_type, to_type, value)                                 \
  target static void name(char *to, int64_t to_step, const char *from, int64_t from_step, \
                          int64_t count) {                                                \
    const from_type *x = (const from_type *)(const void *)from;                           \
    to_type *y = (to_type *)(void *)to;                                                   \
    const int64_t element = (int64_t)sizeof(from_type);                                   \
    const bool has_gaps = to_step != (int64_t)sizeof(to_type);                            \
    if (!has_gaps && from_step == element) {                                              \
      for (int64_t i = 0; i < count; i++) y[i] = value(x[i]);                             \
      return;                                                                             \
    }                                                                                     \
    if (!has_gaps && from_step == -element) {                                             \
      for (int64_t i = 0; i < count; i++) y[i] = value(x[-i]);                            \
      return;                                                                             \
    }                                                                                     \
    if (!has_gaps && from_step == 2 * element) {                                          \
      for (int64_t i = 0; i < count; i++) y[i] = value(x[2 * i]);                         \
      return;                                                                             \
    }                                                                                     \
    for (int64_t i = 0; i < count; i++)                                                   \
      *(to_type *)(void *)(to + i * to_step) =                                            \
          value(*(const from_type *)(const void *)(from + i * from_step));                \
  }

/* Makes a float of one of 16 bits. Shifted, it is that divided by 2^112, unless it is infinite or
 * none. */
static inline float float_of_half(uint16_t half) {
  uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
  float value;
  memcpy(&value, &bits, sizeof value);
  value *= 0x1p112f;
  memcpy(&bits, &value, sizeof bits);
  bits |= ((half & 0x7c00) == 0x7c00 ? UINT32_C(0x7f800000) : 0) | (uint32_t)(half & 0x8000) << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#define SAME(x) (x)
#define HALF(x) float_of_half(x)
#define WIDE_HALF(x) ((double)float_of_half(x))
#define COMPLEX32_HALF(x) ((complex32){float_of_half(x), 0})
#define COMPLEX64_HALF(x) ((complex64){(double)float_of_half(x), 0})
#define WIDE(x) ((double)(x))
#define COMPLEX32(x) ((complex32){(x), 0})
#define COMPLEX64(x) ((complex64){(double)(x), 0})
#define WIDE_COMPLEX(x) ((complex64){(double)(x).re, (double)(x).im})

LINE(copy_1, uint8_t, uint8_t, SAME)
LINE(copy_2, uint16_t, uint16_t, SAME)
LINE(copy_4, uint32_t, uint32_t, SAME)
LINE(copy_8, uint64_t, uint64_t, SAME)
LINE(copy_complex32, complex32, complex32, SAME)
LINE(copy_complex64, complex64, complex64, SAME)
LINE(f16_to_f32, uint16_t, float, HALF)
LINE(f16_to_f64, uint16_t, double, WIDE_HALF)
LINE(f16_to_c64, uint16_t, complex32, COMPLEX32_HALF)
LINE(f16_to_c128, uint16_t, complex64, COMPLEX64_HALF)
LINE(f32_to_f64, float, double, WIDE)
LINE(f32_to_c64, float, complex32, COMPLEX32)
LINE(f32_to_c128, float, complex64, COMPLEX64)
LINE(f64_to_c128, double, complex64, COMPLEX64)
LINE(c64_to_c128, complex32, complex64, WIDE_COMPLEX)

/* The bits of elements that may lie anywhere. */
typedef uint16_t odd16 __attribute__((aligned(1)));
typedef uint32_t odd32 __attribute__((aligned(1)));
typedef uint64_t odd64 __attribute__((aligned(1)));
typedef struct __attribute__((packed)) odd_pair32 {
  uint32_t re, im;
} odd_pair32;
typedef struct __attribute__((packed)) odd_pair64 {
  uint64_t re, im;
} odd_pair64;

LINE(copy_odd_2, odd16, uint16_t, SAME)
LINE(copy_odd_4, odd32, uint32_t, SAME)
LINE(copy_odd_8, odd64, uint64_t, SAME)
LINE(copy_odd_16, odd_pair64, odd_pair64, SAME)

static line_fn odd_line_of(mmc_dtype dtype) {
  const size_t size = mmc_dtype_size(dtype);
  return size == 2 ? copy_odd_2 : size == 4 ? copy_odd_4 : size == 8 ? copy_odd_8 : copy_odd_16;
}

#define SWAPPED_PAIR32(x) ((odd_pair32){__builtin_bswap32((x).re), __builtin_bswap32((x).im)})
#define SWAPPED_PAIR64(x) ((odd_pair64){__builtin_bswap64((x).re), __builtin_bswap64((x).im)})

/* Bytes are shuffled in vectors by instructions that not all processors have. */
#define SWAPS(suffix, target)                                                           \
  LINE_FOR(target, swap_2_##suffix, odd16, uint16_t, __builtin_bswap16)                 \
  LINE_FOR(target, swap_4_##suffix, odd32, uint32_t, __builtin_bswap32)                 \
  LINE_FOR(target, swap_8_##suffix, odd64, uint64_t, __builtin_bswap64)                 \
  LINE_FOR(target, swap_complex32_##suffix, odd_pair32, odd_pair32, SWAPPED_PAIR32)     \
  LINE_FOR(target, swap_complex64_##suffix, odd_pair64, odd_pair64, SWAPPED_PAIR64)     \
  static line_fn swap_##suffix(mmc_dtype dtype) {                                       \
    const size_t size = mmc_dtype_size(dtype);                                          \
    if (dtype == MMC_C64) return swap_complex32_##suffix;                               \
    if (dtype == MMC_C128) return swap_complex64_##suffix;                              \
    return size == 2 ? swap_2_##suffix : size == 4 ? swap_4_##suffix : swap_8_##suffix; \
  }

SWAPS(portable, )
#if defined(__x86_64__)
SWAPS(avx2, __attribute__((target("avx2"))))
#endif

static line_fn swapping_line_of(mmc_dtype dtype) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return swap_avx2(dtype);
#endif
  return swap_portable(dtype);
}

static line_fn line_of(mmc_dtype from, mmc_dtype to) {
  enum { FROM = MMC_F16 + 1, TO = MMC_C128 + 1 };
  static const line_fn conversions[FROM][TO] = {
      [MMC_F16] = {[MMC_F32] = f16_to_f32,
                   [MMC_F64] = f16_to_f64,
                   [MMC_C64] = f16_to_c64,
                   [MMC_C128] = f16_to_c128},
      [MMC_F32] = {[MMC_F64] = f32_to_f64, [MMC_C64] = f32_to_c64, [MMC_C128] = f32_to_c128},
      [MMC_F64] = {[MMC_C128] = f64_to_c128},
      [MMC_C64] = {[MMC_C128] = c64_to_c128},
  };
  if (from != to) return (unsigned)from < FROM && (unsigned)to < TO ? conversions[from][to] : NULL;
  if (from == MMC_C64) return copy_complex32;
  if (from == MMC_C128) return copy_complex64;
  switch (mmc_dtype_size(from)) {
    case 1:
      return copy_1;
    case 2:
      return copy_2;
    case 4:
      return copy_4;
    default:
      return copy_8;
  }
}

bool mmcp_promote(mmc_dtype a, mmc_dtype b, mmc_dtype *out) {
  if (a == b || line_of(b, a) != NULL)
    *out = a;
  else if (line_of(a, b) != NULL)
    *out = b;
  else if ((a == MMC_F64 && b == MMC_C64) || (a == MMC_C64 && b == MMC_F64))
    *out = MMC_C128;
  else
    return false;
  return true;
}

/* ---- axes -------------------------------------------------------------------------------------
 */

/* An axis, with the bytes from one element of it to the next. */
typedef struct axis {
  int64_t size, to, from;
} axis;

/* Lists the axes that have more than one element, from that whose elements are nearest together in
 * the copy on; those that follow each other without a gap on both sides are one. */
static int list_axes(const mmcp_view *view, const int64_t *to, const int *order, axis *out) {
  int count = 0;
  for (int o = 0; o < view->ndim; o++) {
    const int d = order[o];
    const axis next = {view->shape[d], to[d], mmcp_view_stride(view, d)};
    if (next.size == 1 || next.to == 0) continue;
    axis *last = count > 0 ? &out[count - 1] : NULL;
    if (last != NULL && next.to == last->size * last->to && next.from == last->size * last->from)
      last->size *= next.size;
    else
      out[count++] = next;
  }
  return count;
}

static int64_t magnitude(int64_t x) {
  return x < 0 ? -x : x;
}

/* Takes an axis to the front. */
static void bring(axis *axes, int from) {
  const axis chosen = axes[from];
  memmove(axes + 1, axes, (size_t)from * sizeof *axes);
  axes[0] = chosen;
}

/* Writes tiles of the first two axes, for which the lines that are read and those that are written
 * stay in the first cache. */
static void write_tiles(char *to, const char *from, const axis *line, const axis *across,
                        line_fn write) {
  enum { LENGTH = 64, WIDTH = 8 };
  for (int64_t first = 0; first < across->size; first += WIDTH) {
    const int64_t last = across->size - first < WIDTH ? across->size : first + WIDTH;
    for (int64_t j = 0; j < line->size; j += LENGTH) {
      const int64_t length = line->size - j < LENGTH ? line->size - j : LENGTH;
      for (int64_t i = first; i < last; i++)
        write(to + j * line->to + i * across->to, line->to,
              from + j * line->from + i * across->from, line->from, length);
    }
  }
}

/* Writes what the axes span. The first one is the line, or where it is short the longest one, and
 * then, or where another one is nearer together in the array, both are the sides of tiles. */
static void write_axes(char *to, const char *from, axis *axes, int count, line_fn write) {
  static const axis one = {1, 0, 0};
  enum { SHORT = 4 };
  int longest = 0, nearest = 0;
  for (int a = 1; a < count; a++) {
    if (axes[a].size > axes[longest].size) longest = a;
    if (magnitude(axes[a].from) < magnitude(axes[nearest].from)) nearest = a;
  }
  const bool is_short = count > 0 && axes[0].size < SHORT;
  if (is_short) bring(axes, longest);
  if (!is_short && nearest > 0) bring(axes + 1, nearest - 1);
  const bool tiles = is_short ? longest > 0 : nearest > 0;
  const axis *line = count > 0 ? &axes[0] : &one, *across = tiles ? &axes[1] : &one;
  const int outer = count == 0 ? 0 : tiles ? 2 : 1;
  int64_t index[MMCP_MAX_NDIM] = {0};
  for (;;) {
    if (tiles)
      write_tiles(to, from, line, across, write);
    else
      write(to, line->to, from, line->from, line->size);
    int a = outer;
    for (; a < count; a++) {
      to += axes[a].to;
      from += axes[a].from;
      if (++index[a] < axes[a].size) break;
      to -= axes[a].size * axes[a].to;
      from -= axes[a].size * axes[a].from;
      index[a] = 0;
    }
    if (a >= count) return;
  }
}

/* ---- copies -----------------------------------------------------------------------------------
 */

/* Bytes from which on others may have the GIL meanwhile. */
static const int64_t gil_bytes = 1 << 18;

/* Lays out the copy: the order of its axes, from the nearest elements on, and its strides. Returns
 * its bytes, or -1 where there are too many. */
static int64_t lay_out(const mmcp_view *view, int64_t element, int *order, int64_t *to) {
  const int ndim = view->ndim;
  for (int o = 0; o < ndim; o++) order[o] = ndim - 1 - o;
  if (ndim > 1 &&
      magnitude(mmcp_view_stride(view, ndim - 2)) < magnitude(mmcp_view_stride(view, ndim - 1))) {
    order[0] = ndim - 2;
    order[1] = ndim - 1;
  }
  int64_t bytes = element;
  for (int o = 0; o < ndim; o++) {
    const int d = order[o];
    const bool repeats = o > 1 && mmcp_view_stride(view, d) == 0 && view->shape[d] > 0;
    to[d] = repeats ? 0 : bytes;
    if (!repeats && __builtin_mul_overflow(bytes, view->shape[d], &bytes)) return -1;
  }
  return bytes;
}

/* Asks for large pages where there are many: to fault small ones in takes as long as to fill them.
 */
static void advise_large(char *data, int64_t bytes) {
#ifdef MADV_HUGEPAGE
  const int64_t many = 1 << 22;
  const size_t page = 4096, skipped = (page - (uintptr_t)data % page) % page;
  if (bytes >= many)
    (void)madvise(data + skipped, ((size_t)bytes - skipped) & ~(page - 1), MADV_HUGEPAGE);
#else
  (void)data;
  (void)bytes;
#endif
}

int mmcp_gather(mmcp_view *view, mmc_dtype dtype) {
  if (view->ndim > MMCP_MAX_NDIM || view->device != MMCP_HOST) return 0;
  if (view->is_odd && dtype != view->dtype) {
    const int got = mmcp_gather(view, view->dtype);
    return got == 1 ? mmcp_gather(view, dtype) : got;
  }
  const line_fn write = view->is_swapped ? swapping_line_of(dtype)
                        : view->is_odd   ? odd_line_of(dtype)
                                         : line_of(view->dtype, dtype);
  if (write == NULL) return 0;
  enum { LINE_BYTES = 64 };
  int order[MMCP_MAX_NDIM];
  int64_t to[MMCP_MAX_NDIM];
  const int64_t bytes = lay_out(view, (int64_t)mmc_dtype_size(dtype), order, to);
  const size_t head = ((size_t)view->ndim * sizeof *to + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  char *block = bytes < 0 ? NULL : malloc(head + (size_t)bytes + LINE_BYTES);
  if (block == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  int64_t *strides = (int64_t *)(void *)block;
  char *data = block + head;
  data += (LINE_BYTES - (uintptr_t)data % LINE_BYTES) % LINE_BYTES;
  advise_large(data, bytes);
  memcpy(strides, to, (size_t)view->ndim * sizeof *to);
  if (bytes > 0) {
    axis axes[MMCP_MAX_NDIM];
    const int count = list_axes(view, to, order, axes);
    PyThreadState *thread = bytes >= gil_bytes ? mmcp_enter() : NULL;
    write_axes(data, view->data, axes, count, write);
    if (thread != NULL) mmcp_leave(thread);
  }
  free(view->copy); /* of the same dtype */
  view->copy = block;
  view->data = data;
  view->strides = strides;
  view->stride_bytes = 1;
  view->dtype = dtype;
  view->is_swapped = view->is_odd = false;
  return 1;
}
