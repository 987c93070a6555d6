/* tensor_math.cuh: products of 16-bit tiles by tensor cores, with sums in f32.
 *
 * A warp holds A, 16 x 16, in four words, B, 16 x 16, in four, and the sums, 16 x 8, in four
 * floats, as PTX's mma.m16n8k16 and ldmatrix say. Cards before Ampere have neither; group.c does
 * not ask them. */
#ifndef MMCI_CUDA_GROUP_TENSOR_MATH_CUH
#define MMCI_CUDA_GROUP_TENSOR_MATH_CUH

#include "device/cuda/group/group_kernels.cuh"

#include "device/cuda/elements.cuh"

#ifdef MMCI_EMULATE_CUDA

template <typename Element>
static inline uint32_t mmci_pair(float low, float high) {
  return (uint32_t)Element::write(low) | (uint32_t)Element::write(high) << 16;
}

/* Where in shared memory a row of a tile begins; sums are in elements. */
typedef const uint16_t *mmci_tile_row;

static inline mmci_tile_row mmci_tile_row_of(const uint16_t *shared) {
  return shared;
}

/* Reads four tiles of 8 x 8, whose rows begin at the addresses of eight lanes each. */
template <bool trans>
static inline void mmci_load_tiles(uint32_t (&out)[4], mmci_tile_row row) {
  mmci_emulation_machine &m = mmci_emulation();
  const unsigned rank = mmci_emulation_rank(), warp = rank & ~31u, lane = rank & 31;
  const unsigned line = lane / 4, pair = lane % 4 * 2;
  if ((uintptr_t)row % 16 != 0) mmci_emulation_stop("a row of a tile is not aligned");
  m.exchange[rank] = (uint64_t)(uintptr_t)row;
  __syncwarp();
  for (unsigned t = 0; t < 4; t++) {
    const auto at = [&](unsigned r, unsigned c) {
      return (uint32_t) reinterpret_cast<const uint16_t *>(
          (uintptr_t)m.exchange[warp + 8 * t + r])[c];
    };
    out[t] = trans ? at(pair, line) | at(pair + 1, line) << 16
                   : at(line, pair) | at(line, pair + 1) << 16;
  }
  __syncwarp();
}

/* Adds 16 products to a sum, which is rounded once, as in ordered_half.cu. */
template <typename Element>
static inline void mmci_multiply_tiles(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0,
                                       uint32_t b1) {
  mmci_emulation_machine &m = mmci_emulation();
  const unsigned rank = mmci_emulation_rank(), warp = rank & ~31u, lane = rank & 31,
                 line = lane / 4, pair = lane % 4 * 2;
  uint32_t rows[2][8] = {}, cols[2][8] = {}; /* pairs of terms of two rows and two columns */
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  for (unsigned w = 0; w < 6; w++) {
    m.exchange[rank] = words[w];
    __syncwarp();
    for (unsigned t = 0; t < 4; t++) {
      if (w < 4) rows[w % 2][w / 2 * 4 + t] = (uint32_t)m.exchange[warp + line * 4 + t];
      for (unsigned c = 0; c < 2 && w >= 4; c++)
        cols[c][(w - 4) * 4 + t] = (uint32_t)m.exchange[warp + (pair + c) * 4 + t];
    }
    __syncwarp();
  }
  for (unsigned r = 0; r < 2; r++)
    for (unsigned c = 0; c < 2; c++) {
      double all = sums[2 * r + c];
      for (unsigned k = 0; k < 8; k++)
        for (unsigned h = 0; h < 32; h += 16)
          all += (double)Element::read((uint16_t)(rows[r][k] >> h), false) *
                 (double)Element::read((uint16_t)(cols[c][k] >> h), false);
      sums[2 * r + c] = (float)all;
    }
}

/* Adds 8 products, of half a tile of either operand. */
template <typename Element>
static inline void mmci_multiply_halves(float (&sums)[4], const uint32_t (&a)[2], uint32_t b) {
  const uint32_t whole[4] = {a[0], a[1], 0, 0};
  mmci_multiply_tiles<Element>(sums, whole, b, 0);
}

#else

template <typename Element>
static __device__ __forceinline__ uint32_t mmci_pair(float low, float high) {
  return (uint32_t)Element::write(low) | (uint32_t)Element::write(high) << 16;
}
template <>
__device__ __forceinline__ uint32_t mmci_pair<mmci_f16_element>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&both);
}
template <>
__device__ __forceinline__ uint32_t mmci_pair<mmci_bf16_element>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t *>(&both);
}

struct mmci_tile_row {
  unsigned address;
  __device__ __forceinline__ mmci_tile_row operator+(uint32_t elements) const {
    return {address + 2 * elements};
  }
};

static __device__ __forceinline__ mmci_tile_row mmci_tile_row_of(const uint16_t *shared) {
  return {mmci_shared_address(shared)};
}

template <bool trans>
static __device__ __forceinline__ void mmci_load_tiles(uint32_t (&out)[4], mmci_tile_row row) {
#if __CUDA_ARCH__ >= 800
  if (trans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(row.address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(row.address)
                 : "memory");
#endif
}

template <typename Element>
static __device__ __forceinline__ void mmci_multiply_tiles(float (&sums)[4], const uint32_t (&a)[4],
                                                           uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void mmci_multiply_tiles<mmci_f16_element>(float (&sums)[4],
                                                                      const uint32_t (&a)[4],
                                                                      uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
template <>
__device__ __forceinline__ void mmci_multiply_tiles<mmci_bf16_element>(float (&sums)[4],
                                                                       const uint32_t (&a)[4],
                                                                       uint32_t b0, uint32_t b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

template <typename Element>
static __device__ __forceinline__ void mmci_multiply_halves(float (&sums)[4],
                                                            const uint32_t (&a)[2], uint32_t b);
template <>
__device__ __forceinline__ void mmci_multiply_halves<mmci_f16_element>(float (&sums)[4],
                                                                       const uint32_t (&a)[2],
                                                                       uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}
template <>
__device__ __forceinline__ void mmci_multiply_halves<mmci_bf16_element>(float (&sums)[4],
                                                                        const uint32_t (&a)[2],
                                                                        uint32_t b) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

#endif

#endif
