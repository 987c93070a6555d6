/* bytes.cuh: splits an FP32 number into three signed bytes, and tells where they are enough.
 *
 * A row of op(A), or a column of op(B), is scaled so that its largest element is MMCI_BYTES_TOP at
 * most, and rounded to integers: three digits of base 256, from -128 to 127. Scales are four bits
 * times a power of two, so that for elements of 11 bits the third digit is 0 and products are
 * exact. Unlike two FP16 parts, bytes hold small elements less well than large ones, so they are
 * used where rows have many large elements: docs/faithful.md. The same source serves the
 * emulation. */
#ifndef MMCI_CUDA_EMULATED_BYTES_CUH
#define MMCI_CUDA_EMULATED_BYTES_CUH

#include "device/cuda/emulated/parts.cuh"

enum {
  MMCI_BYTES = 3,
  MMCI_BYTES_TOP = 8355584, /* the most that three digits hold, less 2^7 for rounding */
  MMCI_BYTES_BIAS = 0x808080,
  MMCI_BYTES_SMALL = 1 << 18, /* a smaller number is small: below 2^-5 of the largest */
  MMCI_BYTES_FEW_SMALL = 4,   /* one of so many elements of a row may be small */
  MMCI_ROUGH = 64,            /* the greatest mean roughness of a product's rows */
  MMCI_ROUGH_MOST = 154,      /* the greatest roughness of one row */
};

/* The squares of a row must add up, on average, to at least sqrt(k) times this times the largest
 * one. */
static const float MMCI_BYTES_SPREAD = 2.1f;

/* Returns 2^e, for an exponent e in the range of normal doubles. */
static __device__ __forceinline__ double mmci_double_power(int e) {
  const uint64_t bits = (uint64_t)(e + 1023) << 52;
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Returns the factor, of four bits, for the largest element scaled to [2^14, 2^15). */
static __device__ __forceinline__ float mmci_bytes_stretch(uint32_t most, mmci_scale scale) {
  const float largest = mmci_bits_float(most) * scale.first * scale.second;
  const int stretch = (int)((float)MMCI_BYTES_TOP / largest);
  return (float)(stretch < 256 ? 240 : stretch / 32 * 32);
}

static __device__ __forceinline__ bool mmci_bytes_scalable(uint32_t most) {
  return most - 1 < 0x7f800000u - 1;
}

/* Returns the factor of the elements, first * second; 0 for a row of zeros or one that is not
 * finite. */
static __device__ __forceinline__ mmci_scale mmci_bytes_scale(uint32_t most) {
  if (!mmci_bytes_scalable(most)) return {0, 0};
  mmci_scale scale = mmci_parts_scale(mmci_parts_exponent(most));
  scale.second *= mmci_bytes_stretch(most, scale);
  return scale;
}

/* Returns what 1 of the scaled row stands for. */
static __device__ __forceinline__ double mmci_bytes_unit(uint32_t most) {
  if (!mmci_bytes_scalable(most)) return 0;
  const int exponent = mmci_parts_exponent(most);
  return mmci_double_power(-exponent) /
         (double)mmci_bytes_stretch(most, mmci_parts_scale(exponent));
}

/* Returns the nearest integer plus MMCI_BYTES_BIAS, whose bytes are the digits plus 128. Half
 * of the largest floats lie in the middle of two integers: they go to the even one, so that sums of
 * one sign do not grow. */
static __device__ __forceinline__ uint32_t mmci_bytes_of(float scaled) {
#ifdef MMCI_EMULATE_CUDA
  const int nearest = (int)lrintf(scaled);
#else
  const int nearest = __float2int_rn(scaled);
#endif
  return (uint32_t)(nearest + MMCI_BYTES_BIAS);
}

/* Returns byte `which` of each of four. */
static __device__ __forceinline__ uint32_t mmci_bytes_pick(const uint32_t (&x)[4], int which) {
#ifdef MMCI_EMULATE_CUDA
  uint32_t picked = 0;
  for (int e = 0; e < 4; e++) picked |= (x[e] >> 8 * which & 0xff) << 8 * e;
  return picked;
#else
  const uint32_t both = (uint32_t)(which | (which + 4) << 4);
  return __byte_perm(__byte_perm(x[0], x[1], both), __byte_perm(x[2], x[3], both), 0x5410);
#endif
}

/* Cuts four neighbours into digits, the first digits first. The facts' poor elements are the small
 * ones, zeros as well, because bytes of the other operand that they meet do not count either. */
static __device__ __forceinline__ void mmci_bytes_cut(const float (&x)[4], mmci_scale scale,
                                                      uint32_t (&words)[MMCI_BYTES],
                                                      mmci_row_facts &facts) {
  uint32_t biased[4];
#pragma unroll
  for (int e = 0; e < 4; e++) {
    const float scaled = x[e] * scale.first * scale.second;
    facts.squares += scaled * scaled;
    facts.poor += mmci_magnitude(scaled) < (uint32_t)(18 + 127) << 23;
    biased[e] = mmci_bytes_of(scaled);
  }
#pragma unroll
  for (int w = 0; w < MMCI_BYTES; w++)
    words[w] = mmci_bytes_pick(biased, MMCI_BYTES - 1 - w) ^ 0x80808080u;
}

/* Returns how badly bytes hold a row; over the rows of an operand it may add up to MMCI_ROUGH
 * each. */
static __device__ __forceinline__ uint64_t mmci_bytes_roughness(uint32_t most, mmci_row_facts facts,
                                                                int64_t k) {
  const float top = (float)MMCI_BYTES_TOP;
  if (most == 0) return MMCI_ROUGH;
  const float rough = MMCI_ROUGH * MMCI_BYTES_SPREAD * sqrtf((float)k) * top * top;
  const bool bearable = mmci_bytes_scalable(most) &&
                        (int64_t)facts.poor * MMCI_BYTES_FEW_SMALL <= k &&
                        rough <= MMCI_ROUGH_MOST * facts.squares;
  return bearable ? (uint64_t)(rough / facts.squares) + 1 : (uint64_t)1 << 40;
}

#endif
