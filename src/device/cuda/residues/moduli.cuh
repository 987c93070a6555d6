/* moduli.cuh: cuts numbers into residues or digits of a byte, and puts sums together again. The
 * same source serves the emulation. */
#ifndef MMCI_CUDA_RESIDUES_MODULI_CUH
#define MMCI_CUDA_RESIDUES_MODULI_CUH

#include <stdint.h>
#include <string.h>

#include "device/cuda/residues/residues_kernels.h"
#include "device/whole/rows.h"

static const uint64_t MMCI_BYTES_OF_128 = 0x8080808080808080ull;

/* Adds the products of four signed bytes of each. */
static __device__ __forceinline__ int mmci_dot_bytes(uint32_t x, uint32_t y, int sum) {
#ifdef MMCI_EMULATE_CUDA
  for (int b = 0; b < 32; b += 8) sum += (int)(int8_t)(x >> b) * (int8_t)(y >> b);
  return sum;
#else
  return __dp4a((int)x, (int)y, sum);
#endif
}

/* Returns byte e of a word, which has a sign. */
static __device__ __forceinline__ int32_t mmci_signed_byte_of(uint32_t word, int e) {
#ifdef MMCI_EMULATE_CUDA
  return (int8_t)(word >> 8 * e);
#else
  int32_t byte; /* __byte_perm() knows no signs */
  asm("prmt.b32 %0, %1, %1, %2;" : "=r"(byte) : "r"(word), "r"(0x8880u + 0x1111u * (unsigned)e));
  return byte;
#endif
}

/* Returns the signed digits of base 256 of a number below 2^63 - 2^56 in magnitude, a byte each;
 * the last one may wrap around. */
static __device__ __forceinline__ uint64_t mmci_digits_of(int64_t x) {
  return ((uint64_t)x + MMCI_BYTES_OF_128) ^ MMCI_BYTES_OF_128;
}

/* Does so for a number below 2^31 - 2^23. */
static __device__ __forceinline__ uint32_t mmci_digits_of(int32_t x) {
  return ((uint32_t)x + 0x80808080u) ^ 0x80808080u;
}

/* Returns the residue of least magnitude of a number that is below 2^30: of an even modulus p,
 * -p/2 and not p/2. */
static __device__ __forceinline__ int mmci_residue_of(int x, int modulus, int reciprocal) {
  const int high = (int)(((long long)x * reciprocal + (1ll << 37)) >> 32);
  return x - (high >> 6) * modulus;
}

static __device__ __forceinline__ float mmci_int_bits_float(int bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static __device__ __forceinline__ int mmci_float_bits_int(float x) {
  int bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* Return the sum of a number's digits times their weights, below 2^17, as the end of a float of
 * 2^23 and more. */
static __device__ __forceinline__ int mmci_weigh_digits(uint32_t digits, const mmci_modulus &m) {
  return mmci_dot_bytes(digits, m.weights[0], 0x4b400000);
}
static __device__ __forceinline__ int mmci_weigh_digits(uint64_t digits, const mmci_modulus &m) {
  return mmci_dot_bytes((uint32_t)(digits >> 32), m.weights[1],
                        mmci_weigh_digits((uint32_t)digits, m));
}

/* Returns an integer whose lowest byte is the residue of a number that is given by its digits. The
 * quotient is the end of a float, too; their lowest bytes are those of integers. */
template <class Digits>
static __device__ __forceinline__ int mmci_residue_of_digits(Digits digits, const mmci_modulus &m) {
  const float base = 0x1.8p23f;
  const int sum = mmci_weigh_digits(digits, m);
  const int quotient = mmci_float_bits_int(fmaf(mmci_int_bits_float(sum) - base, m.inverse, base));
  return (int)((uint32_t)sum - (uint32_t)m.modulus * (uint32_t)quotient);
}

static __device__ __forceinline__ uint32_t mmci_pack_bytes(const int (&x)[4]) {
#ifdef MMCI_EMULATE_CUDA
  uint32_t packed = 0;
  for (int e = 0; e < 4; e++) packed |= (uint32_t)(uint8_t)x[e] << 8 * e;
  return packed;
#else
  return __byte_perm(__byte_perm((uint32_t)x[0], (uint32_t)x[1], 0x0040),
                     __byte_perm((uint32_t)x[2], (uint32_t)x[3], 0x0040), 0x5410);
#endif
}

/* Returns the residue of least magnitude. */
static __device__ __forceinline__ int64_t mmci_residue_around_0(int64_t x, uint64_t modulus) {
  const int64_t p = (int64_t)modulus, r = x % p; /* has the sign of x */
  return r > p / 2 ? r - p : r < -(p / 2) ? r + p : r;
}

/* Byte r of word e becomes byte e of word r. */
static __device__ __forceinline__ void mmci_turn_bytes(uint32_t (&x)[4]) {
#ifdef MMCI_EMULATE_CUDA
  uint32_t turned[4] = {0, 0, 0, 0};
  for (int e = 0; e < 4; e++)
    for (int r = 0; r < 4; r++) turned[r] |= (x[e] >> 8 * r & 0xff) << 8 * e;
  for (int r = 0; r < 4; r++) x[r] = turned[r];
#else
  const uint32_t low01 = __byte_perm(x[0], x[1], 0x5140), low23 = __byte_perm(x[2], x[3], 0x5140),
                 high01 = __byte_perm(x[0], x[1], 0x7362), high23 = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(low01, low23, 0x5410);
  x[1] = __byte_perm(low01, low23, 0x7632);
  x[2] = __byte_perm(high01, high23, 0x5410);
  x[3] = __byte_perm(high01, high23, 0x7632);
#endif
}

#endif
