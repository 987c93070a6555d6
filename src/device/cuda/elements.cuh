/* elements.cuh: the element of each dtype: how it lies in memory (Stored, aligned to its real type)
 * and what sums are made of (Sum). read() conjugates when asked; write() rounds once. */
#ifndef MMCI_CUDA_ELEMENTS_CUH
#define MMCI_CUDA_ELEMENTS_CUH

#include <math.h>
#include <stdint.h>

#ifdef MMCI_EMULATE_CUDA
#include "base/half.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

template <typename Real>
struct mmci_complex {
  Real re, im;
};

/* A number that a generic lambda takes as a constant. */
template <int N>
struct mmci_times {
  enum { COUNT = N };
};

/* A stored element that is aligned as a whole, complex ones too. */
template <typename Stored>
struct alignas(sizeof(Stored)) mmci_whole {
  Stored value;
};

template <typename Real>
static __device__ __forceinline__ void mmci_add_product(Real &sum, Real a, Real b) {
  sum += a * b;
}
template <typename Real>
static __device__ __forceinline__ void mmci_add_product(mmci_complex<Real> &sum,
                                                        mmci_complex<Real> a,
                                                        mmci_complex<Real> b) {
  sum.re += a.re * b.re;
  sum.re -= a.im * b.im;
  sum.im += a.re * b.im;
  sum.im += a.im * b.re;
}
template <typename Real>
static __device__ __forceinline__ Real mmci_add(Real a, Real b) {
  return a + b;
}
template <typename Real>
static __device__ __forceinline__ mmci_complex<Real> mmci_add(mmci_complex<Real> a,
                                                              mmci_complex<Real> b) {
  return {a.re + b.re, a.im + b.im};
}

/* Returns a value of the lane so many bits away, of which all of the warp ask. */
template <typename Real>
static __device__ __forceinline__ Real mmci_from_lane(Real value, int bits) {
  return __shfl_xor_sync(0xffffffffu, value, bits);
}
template <typename Real>
static __device__ __forceinline__ mmci_complex<Real> mmci_from_lane(mmci_complex<Real> value,
                                                                    int bits) {
  return {mmci_from_lane(value.re, bits), mmci_from_lane(value.im, bits)};
}

/* A term of a sum as reproducible sums have it, where nothing is turned: multiplied and added with
 * one rounding, of complex numbers one after the other. */
static __device__ __forceinline__ void mmci_fuse_product(float &sum, float a, float b) {
  sum = fmaf(a, b, sum);
}
static __device__ __forceinline__ void mmci_fuse_product(double &sum, double a, double b) {
  sum = fma(a, b, sum);
}
template <typename Real>
static __device__ __forceinline__ void mmci_fuse_product(mmci_complex<Real> &sum,
                                                         mmci_complex<Real> a,
                                                         mmci_complex<Real> b) {
  mmci_fuse_product(sum.re, a.re, b.re);
  mmci_fuse_product(sum.re, -a.im, b.im);
  mmci_fuse_product(sum.im, a.re, b.im);
  mmci_fuse_product(sum.im, a.im, b.re);
}

/* Lets zeros be +0 and NaN the positive quiet one without a payload. */
static __device__ __forceinline__ float mmci_settled(float x) {
#ifdef MMCI_EMULATE_CUDA
  return x == x ? x + 0.0f : NAN;
#else
  return x == x ? x + 0.0f : __int_as_float(0x7fc00000);
#endif
}
static __device__ __forceinline__ double mmci_settled(double x) {
#ifdef MMCI_EMULATE_CUDA
  return x == x ? x + 0.0 : (double)NAN;
#else
  return x == x ? x + 0.0 : __longlong_as_double(0x7ff8000000000000LL);
#endif
}
template <typename Real>
static __device__ __forceinline__ mmci_complex<Real> mmci_settled(mmci_complex<Real> x) {
  return {mmci_settled(x.re), mmci_settled(x.im)};
}

/* Returns what is stored of a sum, or four: as it is, or a reproducible result. */
static __device__ __forceinline__ float mmci_result_of(float x, bool in_order) {
  return in_order ? mmci_settled(x) : x;
}
static __device__ __forceinline__ float4 mmci_result_of(const float4 &x, bool in_order) {
  return in_order ? make_float4(mmci_settled(x.x), mmci_settled(x.y), mmci_settled(x.z),
                                mmci_settled(x.w))
                  : x;
}

template <typename Real>
struct mmci_real_element {
  typedef Real Stored;
  typedef Real Sum;
  static __device__ __forceinline__ Sum read(Stored stored, bool) { return stored; }
  static __device__ __forceinline__ Stored write(Sum sum) { return sum; }
};

template <typename Real>
struct mmci_complex_element {
  typedef mmci_complex<Real> Stored;
  typedef mmci_complex<Real> Sum;
  static __device__ __forceinline__ Sum read(Stored stored, bool conj) {
    return {stored.re, conj ? -stored.im : stored.im};
  }
  static __device__ __forceinline__ Stored write(Sum sum) { return sum; }
};

/* Integers wrap around modulo 2^bits, whatever their sign: they are read as words without one. */
template <typename Bits, typename Word>
struct mmci_integer_element {
  typedef Bits Stored;
  typedef Word Sum;
  static __device__ __forceinline__ Sum read(Stored stored, bool) { return stored; }
  static __device__ __forceinline__ Stored write(Sum sum) { return (Stored)sum; }
};

/* Truth values: sums count the products that are true. */
struct mmci_bool_element {
  typedef uint8_t Stored;
  typedef uint64_t Sum;
  static __device__ __forceinline__ Sum read(Stored stored, bool) { return stored != 0; }
  static __device__ __forceinline__ Stored write(Sum sum) { return sum != 0; }
};

struct mmci_f16_element {
  typedef uint16_t Stored;
  typedef float Sum;
  static constexpr uint16_t INFINITE = 0x7c00, QUIET = 0x7e00; /* bits of infinity and of a NaN */
#ifdef MMCI_EMULATE_CUDA
  static float read(Stored stored, bool) {
    return mmci_f16_to_f32(stored);
  }
  static Stored write(Sum sum) {
    return mmci_f16_round(sum);
  }
#else
  static __device__ __forceinline__ Sum read(Stored stored, bool) {
    return __half2float(__ushort_as_half(stored));
  }
  static __device__ __forceinline__ Stored write(Sum sum) {
    return __half_as_ushort(__float2half_rn(sum));
  }
#endif
};

struct mmci_bf16_element {
  typedef uint16_t Stored;
  typedef float Sum;
  static constexpr uint16_t INFINITE = 0x7f80, QUIET = 0x7fc0;
#ifdef MMCI_EMULATE_CUDA
  static float read(Stored stored, bool) {
    return mmci_bf16_to_f32(stored);
  }
  static Stored write(Sum sum) {
    return mmci_bf16_round(sum);
  }
#else
  static __device__ __forceinline__ Sum read(Stored stored, bool) {
    return __bfloat162float(__ushort_as_bfloat16(stored));
  }
  static __device__ __forceinline__ Stored write(Sum sum) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(sum));
  }
#endif
};

/* The cases of a switch over a dtype, for those that have products with structure. */
#define MMCI_FULL_ELEMENT_CASES(CALL)         \
  case MMC_F32:                               \
    return CALL(mmci_real_element<float>);    \
  case MMC_F64:                               \
    return CALL(mmci_real_element<double>);   \
  case MMC_C64:                               \
    return CALL(mmci_complex_element<float>); \
  case MMC_C128:                              \
    return CALL(mmci_complex_element<double>);

/* Lets a zero of 16 bits be +0 and a NaN the positive quiet one without a payload. */
template <typename Element>
static __device__ __forceinline__ uint16_t mmci_settled_half(uint16_t x) {
  const uint16_t magnitude = (uint16_t)(x & 0x7fff);
  return magnitude > Element::INFINITE ? Element::QUIET : magnitude == 0 ? (uint16_t)0 : x;
}

/* Returns CALL(Element) for the element of dtype, or says in error that there is none. */
#define MMCI_FOR_ELEMENT(dtype, error, CALL) \
  switch (dtype) {                           \
    MMCI_FULL_ELEMENT_CASES(CALL)            \
    case MMC_F16:                            \
      return CALL(mmci_f16_element);         \
    case MMC_BF16:                           \
      return CALL(mmci_bf16_element);        \
    default:                                 \
      break;                                 \
  }                                          \
  return mmci_fail(error, MMC_E_ARG, "dtype: expected one of mmc_dtype, got %d", (int)dtype)

#endif
