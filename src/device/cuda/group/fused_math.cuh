/* fused_math.cuh: how a block of the fused kernel multiplies what lies in shared memory.
 *
 * Each of these holds a ROWS x COLS tile of sums in the registers of THREADS threads:
 *
 *     step(a, b, DEPTH)   adds A B; a[k * (ROWS + PAD) + r], b[k * ld + c]
 *     rows(f)             f(row, col, values[]) for pieces of rows
 *     columns(f)          f(row, col, values[]) for pieces of columns
 *
 * PAD spreads what the threads of a warp read over the banks. */
#ifndef MMCI_CUDA_GROUP_FUSED_MATH_CUH
#define MMCI_CUDA_GROUP_FUSED_MATH_CUH

/* Multiplies in FP32 by FFMA, PART_ROWS x PART_COLS sums a thread, both multiples of 4. */
template <int ROWS_, int COLS_, int PART_ROWS, int PART_COLS>
struct FusedFma {
  typedef float Element;
  static constexpr int ROWS = ROWS_, COLS = COLS_, PAD = 4;
  static constexpr int ACROSS = COLS / PART_COLS, DOWN = ROWS / PART_ROWS;
  static constexpr int THREADS = ACROSS * DOWN;
  float sum[PART_ROWS][PART_COLS];

  __device__ __forceinline__ static int row_of(int p) {
    return (int)threadIdx.x / ACROSS * 4 + p / 4 * 4 * DOWN + p % 4;
  }
  __device__ __forceinline__ static int col_of(int q) {
    return (int)threadIdx.x % ACROSS * 4 + q / 4 * 4 * ACROSS + q % 4;
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int p = 0; p < PART_ROWS; p++)
#pragma unroll
      for (int q = 0; q < PART_COLS; q++) sum[p][q] = 0;
  }
  template <int DEPTH>
  __device__ __forceinline__ void step(const float *a, const float *b, int ld) {
#pragma unroll 4
    for (int k = 0; k < DEPTH; k++) {
      float x[PART_ROWS], y[PART_COLS];
#pragma unroll
      for (int p = 0; p < PART_ROWS; p += 4)
        *reinterpret_cast<float4 *>(&x[p]) =
            *reinterpret_cast<const float4 *>(&a[k * (ROWS + PAD) + row_of(p)]);
#pragma unroll
      for (int q = 0; q < PART_COLS; q += 4)
        *reinterpret_cast<float4 *>(&y[q]) =
            *reinterpret_cast<const float4 *>(&b[k * ld + col_of(q)]);
#pragma unroll
      for (int p = 0; p < PART_ROWS; p++)
#pragma unroll
        for (int q = 0; q < PART_COLS; q++) sum[p][q] = fmaf(x[p], y[q], sum[p][q]);
    }
  }
  template <typename F>
  __device__ __forceinline__ void rows(F f) const {
#pragma unroll
    for (int p = 0; p < PART_ROWS; p++)
#pragma unroll
      for (int q = 0; q < PART_COLS; q += 4) {
        const float values[4] = {sum[p][q], sum[p][q + 1], sum[p][q + 2], sum[p][q + 3]};
        f(row_of(p), col_of(q), values);
      }
  }
  template <typename F>
  __device__ __forceinline__ void columns(F f) const {
#pragma unroll
    for (int q = 0; q < PART_COLS; q++)
#pragma unroll
      for (int p = 0; p < PART_ROWS; p += 4) {
        const float values[4] = {sum[p][q], sum[p + 1][q], sum[p + 2][q], sum[p + 3][q]};
        f(row_of(p), col_of(q), values);
      }
  }
};

/* Multiplies by tensor cores: WARPS_DOWN x WARPS_ACROSS warps each compute a part of the tile by
 * mma of ONE_ROWS x 8. Lane l of a warp holds row l / 4 (and the one 8 further) and columns 2 (l %
 * 4) and the next. */
template <typename Mma, int ROWS_, int COLS_, int WARPS_DOWN, int WARPS_ACROSS>
struct FusedMma {
  typedef typename Mma::Element Element;
  static constexpr int ROWS = ROWS_, COLS = COLS_, PAD = Mma::PAD;
  static constexpr int THREADS = 32 * WARPS_DOWN * WARPS_ACROSS;
  static constexpr int ALONG_M = ROWS / WARPS_DOWN / Mma::M, ALONG_N = COLS / WARPS_ACROSS / 8;
  static_assert(ALONG_M >= 1 && ALONG_N >= 1, "a warp's part is at least one mma");
  Element sum[ALONG_M][ALONG_N][Mma::SUMS];

  __device__ __forceinline__ static int first_row() {
    return (int)threadIdx.x / 32 / WARPS_ACROSS * (ROWS / WARPS_DOWN);
  }
  __device__ __forceinline__ static int first_col() {
    return (int)threadIdx.x / 32 % WARPS_ACROSS * (COLS / WARPS_ACROSS);
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < ALONG_M; i++)
#pragma unroll
      for (int j = 0; j < ALONG_N; j++)
#pragma unroll
        for (int s = 0; s < Mma::SUMS; s++) sum[i][j][s] = 0;
  }
  template <int DEPTH>
  __device__ __forceinline__ void step(const Element *a, const Element *b, int ld) {
    const int group = (int)threadIdx.x % 32 / 4, within = (int)threadIdx.x % 4;
    a += first_row() + group;
    b += first_col() + group;
#pragma unroll 2
    for (int k = 0; k < DEPTH; k += Mma::K) {
      typename Mma::A x[ALONG_M];
      typename Mma::B y[ALONG_N];
#pragma unroll
      for (int i = 0; i < ALONG_M; i++)
        Mma::load_a(x[i], a + (k + within) * (ROWS + PAD) + i * Mma::M, ROWS + PAD);
#pragma unroll
      for (int j = 0; j < ALONG_N; j++) Mma::load_b(y[j], b + (k + within) * ld + j * 8, ld);
#pragma unroll
      for (int i = 0; i < ALONG_M; i++)
#pragma unroll
        for (int j = 0; j < ALONG_N; j++) Mma::multiply(sum[i][j], x[i], y[j]);
    }
  }
  template <typename F>
  __device__ __forceinline__ void rows(F f) const {
    const int group = (int)threadIdx.x % 32 / 4, within = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < ALONG_M; i++)
#pragma unroll
      for (int j = 0; j < ALONG_N; j++)
#pragma unroll
        for (int s = 0; s < Mma::SUMS; s += 2) {
          const Element values[2] = {sum[i][j][s], sum[i][j][s + 1]};
          f(first_row() + i * Mma::M + group + s / 2 * 8, first_col() + j * 8 + 2 * within, values);
        }
  }
  template <typename F>
  __device__ __forceinline__ void columns(F f) const {
    const int group = (int)threadIdx.x % 32 / 4, within = (int)threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < ALONG_M; i++)
#pragma unroll
      for (int j = 0; j < ALONG_N; j++)
#pragma unroll
        for (int s = 0; s < Mma::SUMS; s++) {
          const Element values[1] = {sum[i][j][s]};
          f(first_row() + i * Mma::M + group + s / 2 * 8, first_col() + j * 8 + 2 * within + s % 2,
            values);
        }
  }
};

/* FP64, by m8n8k4. */
struct FusedMmaF64 {
  typedef double Element, A, B;
  static constexpr int M = 8, K = 4, SUMS = 2, PAD = 4;
  __device__ __forceinline__ static void load_a(A &x, const double *a, int) { x = *a; }
  __device__ __forceinline__ static void load_b(B &y, const double *b, int) { y = *b; }
  __device__ __forceinline__ static void multiply(double (&sum)[2], A x, B y) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(sum[0]), "+d"(sum[1])
        : "d"(x), "d"(y));
  }
};

/* TF32, by m16n8k8, with operands rounded to nearest. */
struct FusedMmaTf32 {
  typedef float Element;
  struct A {
    unsigned bits[4];
  };
  struct B {
    unsigned bits[2];
  };
  static constexpr int M = 16, K = 8, SUMS = 4, PAD = 8;
  __device__ __forceinline__ static unsigned round(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
  }
  __device__ __forceinline__ static void load_a(A &x, const float *a, int ld) {
    x.bits[0] = round(a[0]);
    x.bits[1] = round(a[8]);
    x.bits[2] = round(a[4 * ld]);
    x.bits[3] = round(a[4 * ld + 8]);
  }
  __device__ __forceinline__ static void load_b(B &y, const float *b, int ld) {
    y.bits[0] = round(b[0]);
    y.bits[1] = round(b[4 * ld]);
  }
  __device__ __forceinline__ static void multiply(float (&sum)[4], const A &x, const B &y) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(x.bits[0]), "r"(x.bits[1]), "r"(x.bits[2]), "r"(x.bits[3]), "r"(y.bits[0]),
          "r"(y.bits[1]));
  }
};

#endif
