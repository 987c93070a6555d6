/* tensor_f64.cuh: products of tiles of doubles by tensor cores, whose arithmetic of doubles is the
 * native one: exact products, sums rounded to nearest.
 *
 * Computes sum += a b of 16 x 8 and 8 x 8. Lane 4 g + t of a warp holds rows g and g + 8 of A and
 * C, columns t and t + 4 of A, rows t and t + 4 and column g of B, columns 2 t and 2 t + 1 of C:
 * a[h][r] is of row g + 8 r and column t + 4 h, b[h] of row t + 4 h; sum[2 r] and sum[2 r + 1] are
 * of row g + 8 r.
 *
 * The other product is of 8 x 4 and 4 x 8: the lane holds row g of A and C, column t of A, row t
 * and column g of B. */
#ifndef MMCI_CUDA_TENSOR_F64_CUH
#define MMCI_CUDA_TENSOR_F64_CUH

#include "device/cuda/launch.cuh"

#ifdef MMCI_EMULATE_CUDA

static inline void mmci_multiply_f64(double (&sum)[4], const double (&a)[2][2],
                                     const double (&b)[2]) {
  enum { WARPS = 32, WARP = 32 };
  static double left[WARPS][16][8], right[WARPS][8][8];
  const unsigned rank = mmci_emulation_rank(), warp = rank / WARP, g = rank % WARP / 4,
                 t = rank % 4;
  for (unsigned h = 0; h < 2; h++) {
    for (unsigned r = 0; r < 2; r++) left[warp][g + 8 * r][t + 4 * h] = a[h][r];
    right[warp][t + 4 * h][g] = b[h];
  }
  __syncwarp();
  for (unsigned e = 0; e < 4; e++)
    for (unsigned k = 0; k < 8; k++)
      sum[e] = fma(left[warp][g + 8 * (e / 2)][k], right[warp][k][2 * t + e % 2], sum[e]);
  __syncwarp();
}

static inline void mmci_multiply_f64(double (&sum)[2], double a, double b) {
  enum { WARPS = 32, WARP = 32 };
  static double left[WARPS][8][4], right[WARPS][4][8];
  const unsigned rank = mmci_emulation_rank(), warp = rank / WARP, g = rank % WARP / 4,
                 t = rank % 4;
  left[warp][g][t] = a;
  right[warp][t][g] = b;
  __syncwarp();
  for (unsigned e = 0; e < 2; e++)
    for (unsigned k = 0; k < 4; k++)
      sum[e] = fma(left[warp][g][k], right[warp][k][2 * t + e], sum[e]);
  __syncwarp();
}

#else

static __device__ __forceinline__ void mmci_multiply_f64(double (&sum)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(sum[0]), "+d"(sum[1])
               : "d"(a), "d"(b));
}

static __device__ __forceinline__ void mmci_multiply_f64(double (&sum)[4], const double (&a)[2][2],
                                                         const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0][0]), "d"(a[0][1]), "d"(a[1][0]), "d"(a[1][1]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int part = 0; part < 4; part++) {
    const int half = part % 2;
    double two[2] = {sum[2 * half], sum[2 * half + 1]};
    mmci_multiply_f64(two, a[part / 2][half], b[part / 2]);
    sum[2 * half] = two[0];
    sum[2 * half + 1] = two[1];
  }
#endif
}

#endif

#endif
