/* tensor_f64.cuh: products of tiles of doubles by tensor cores, whose arithmetic of doubles is the
 * native one: exact products, sums rounded to nearest.
 *
 * Lane 4 g + t of a warp holds, of 8 rows, row g of A and C and column g of B; column t of A and
 * row t of B in each four along k; columns 2 t and 2 t + 1 of C. */
#ifndef MMCI_CUDA_TENSOR_F64_CUH
#define MMCI_CUDA_TENSOR_F64_CUH

#include "device/cuda/launch.cuh"

/* Computes sum += a b of 8 x 4 and 4 x 8. */
static __device__ __forceinline__ void mmci_multiply_f64(double (&sum)[2], double a, double b) {
#ifdef MMCI_EMULATE_CUDA
  mmci_emulation_machine &m = mmci_emulation();
  const unsigned rank = mmci_emulation_rank(), warp = rank & ~31u, g = rank % 32 / 4, t = rank % 4;
  double left[4], right[4];
  memcpy(&m.exchange[rank], &a, sizeof a);
  __syncwarp();
  memcpy(left, &m.exchange[warp + 4 * g], sizeof left);
  __syncwarp();
  memcpy(&m.exchange[rank], &b, sizeof b);
  __syncwarp();
  for (unsigned c = 0; c < 2; c++) {
    memcpy(right, &m.exchange[warp + 4 * (2 * t + c)], sizeof right);
    for (int k = 0; k < 4; k++) sum[c] = fma(left[k], right[k], sum[c]);
  }
  __syncwarp();
#else
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(sum[0]), "+d"(sum[1])
               : "d"(a), "d"(b));
#endif
}

/* Computes sum += a b of 16 x 8 and 8 x 8: a[h][r] is of row g + 8 r and column t + 4 h, b[h] of
 * row t + 4 h; sum[2 r] and sum[2 r + 1] are of row g + 8 r. */
static __device__ __forceinline__ void mmci_multiply_f64(double (&sum)[4], const double (&a)[2][2],
                                                         const double (&b)[2]) {
#if !defined MMCI_EMULATE_CUDA && __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+d"(sum[0]), "+d"(sum[1]), "+d"(sum[2]), "+d"(sum[3])
      : "d"(a[0][0]), "d"(a[0][1]), "d"(a[1][0]), "d"(a[1][1]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int half = 0; half < 2; half++) {
    double part[2] = {sum[2 * half], sum[2 * half + 1]};
#pragma unroll
    for (int h = 0; h < 2; h++) mmci_multiply_f64(part, a[h][half], b[h]);
    sum[2 * half] = part[0];
    sum[2 * half + 1] = part[1];
  }
#endif
}

#endif
