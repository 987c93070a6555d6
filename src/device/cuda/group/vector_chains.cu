/* vector_chains.cu: batches of chains whose running product is a vector, a row from the left or a
 * column from the right: matrices of any size are read once, and the vector stays on the chip.
 *
 * Layout   matrices without gaps, stored either way. A team of 1 to 8 warps has a ring of slots, in
 *          which chunks of whole lines lie as far behind a multiple of 128 bytes as in memory:
 *          copies take a tenth longer otherwise. The chain's first chunk brings the vector
 * Launch   as many blocks as fit at once; teams stride over the batch. A lane of one more warp
 *          copies for each team
 * Order    a thread's terms from the first to the last, then lanes by halves (along) or threads in
 *          turn (across): the same in every run
 * Traffic  each matrix once, the vector and the result once
 * Idea     copies of the next matrices are under way while a team adds up its sums, so that nothing
 *          but memory is waited for: it is read at 3.4 to 4.5 of an H200's 4.8 TB/s in f32 */
#include "device/cuda/group/bulk_copies.cuh"

#include "device/cuda/elements.cuh"
#include "device/cuda/group/vector_chains.h"

namespace {

enum {
  WARP = 32,
  THREADS = MMCI_VECTOR_WARPS * WARP, /* that multiply */
  SLOTS = MMCI_VECTOR_SLOTS,
  LINE = MMCI_LINE_BYTES,
  WORD_BYTES = 16
};

typedef mmci_vector_step Step;

template <typename Element>
constexpr int SUMS_OF = MMCI_VECTOR_SUMS_BYTES / (int)sizeof(typename Element::Sum);

/* Of what an element is made: addresses are multiples of no more. */
template <typename Stored>
struct RealOf {
  typedef Stored type;
};
template <typename Real>
struct RealOf<mmci_complex<Real>> {
  typedef Real type;
};

/* WORD elements that are read at once; one may lie at any address. */
template <typename Stored, int WORD>
struct alignas(WORD > 1 ? WORD * sizeof(Stored) : alignof(Stored)) Several {
  Stored v[WORD];
};

template <typename Stored>
__device__ __forceinline__ const Stored *matrix_of(const Step &step, int64_t chain) {
  return static_cast<const Stored *>(step.data) + chain * step.stride;
}

template <typename Stored>
__device__ __forceinline__ const Stored *vector_of(const mmci_vector_chain &e, int64_t chain) {
  return static_cast<const Stored *>(e.x) + chain * e.x_stride;
}

/* Returns behind which line the chunk ends that begins with this one. */
__device__ __forceinline__ unsigned end_of(const Step &step, unsigned line) {
  return line + step.each < step.lines ? line + step.each : step.lines;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* What is copied of so many elements: the whole 16-byte words in which they lie; where nothing that
 * belongs to the batch follows them (is_last), those that end with them, and what is left over
 * one by one. */
template <typename Stored>
struct Extent {
  typedef typename RealOf<Stored>::type Real;
  const char *begin;
  unsigned bytes, left;
  __device__ __forceinline__ Extent(const Stored *from, unsigned count, bool is_last) {
    const uintptr_t first = (uintptr_t)from, end = (uintptr_t)(from + count);
    begin = reinterpret_cast<const char *>(first - first % WORD_BYTES);
    const unsigned all = (unsigned)(end - (uintptr_t)begin), over = all % WORD_BYTES;
    left = is_last ? over / (unsigned)sizeof(Real) : 0;
    bytes = all - over + (over > 0 && !is_last ? WORD_BYTES : 0);
  }
  /* Copies, behind a multiple of LINE bytes, what no gate counts. */
  __device__ __forceinline__ void copy_left(unsigned char *to) const {
    const Real *from = reinterpret_cast<const Real *>(begin + bytes);
    Real *there = reinterpret_cast<Real *>(to + (uintptr_t)begin % LINE + bytes);
    for (unsigned i = 0; i < left; i++) there[i] = from[i];
  }
  __device__ __forceinline__ void copy(unsigned char *to, mmci_counted_gate *gate) const {
    if (bytes > 0) gate->copy(to + (uintptr_t)begin % LINE, begin, bytes);
  }
};

/* Copies chunks to the slots of a team, as it gives them back. Lanes of so many teams go together,
 * as their teams do: lanes that part never meet again, and copy one after the other. */
template <typename Stored>
__device__ __forceinline__ void copy_all(const mmci_vector_chain &e, int64_t first, int64_t stride,
                                         unsigned teams, mmci_counted_gate *full,
                                         mmci_counted_gate *empty, unsigned char *ring) {
  const unsigned together = (1u << teams) - 1;
  unsigned slot = 0, parity = 1;
#pragma unroll 1
  for (int64_t begin = blockIdx.x, chain = first; begin < e.batch;
       begin += stride, chain += stride) {
    const bool is_there = chain < e.batch, is_last = chain == e.batch - 1;
    const Stored *x = vector_of<Stored>(e, chain);
#pragma unroll 1
    for (int s = 0; s < e.count; s++) {
      const Step &step = e.steps[s];
      const Stored *from = matrix_of<Stored>(step, chain);
#pragma unroll 1
      for (unsigned line = 0; line < step.lines; line += step.each) {
        const unsigned end = end_of(step, line), count = (end - line) * step.length;
        const bool begins = s == 0 && line == 0;
        const Extent<Stored> chunk(from, count, is_last && end == step.lines),
            vector(x, e.first, is_last || e.x_stride == 0);
        unsigned char *to = ring + slot * e.slot_bytes;
        __syncwarp(together);
        if (is_there) {
          empty[slot].wait(parity);
          chunk.copy_left(to + e.x_bytes);
          if (begins) vector.copy_left(to);
          full[slot].expect(chunk.bytes + (begins ? vector.bytes : 0));
          chunk.copy(to + e.x_bytes, full + slot);
          if (begins) vector.copy(to, full + slot);
        }
        from += count;
        slot = (slot + 1) % SLOTS;
        if (slot == 0) parity ^= 1;
      }
    }
  }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Warps that work on a chain, and their ring. */
template <typename Element>
struct Team {
  typedef typename Element::Stored Stored;
  mmci_counted_gate *full, *empty;
  unsigned char *ring;
  unsigned slot_bytes, x_bytes, thread, threads;
  int number;
  typename Element::Sum *parts; /* a word's sums of every thread */
  unsigned slot, parity;

  /* Waits for the next chunk, which begins with what lies at `from`. */
  __device__ __forceinline__ const Stored *take(const Stored *from) {
    full[slot].wait(parity);
    return reinterpret_cast<const Stored *>(ring + slot * slot_bytes + x_bytes +
                                            (uintptr_t)from % LINE);
  }
  __device__ __forceinline__ const Stored *take_vector(const Stored *from) {
    full[slot].wait(parity);
    return reinterpret_cast<const Stored *>(ring + slot * slot_bytes + (uintptr_t)from % LINE);
  }
  /* Says, once for every warp, that the chunk has been read. */
  __device__ __forceinline__ void give_back() {
    mmci_order_bulk_copies();
    __syncwarp();
    if (thread % WARP == 0) empty[slot].arrive();
    slot = (slot + 1) % SLOTS;
    if (slot == 0) parity ^= 1;
  }
  __device__ __forceinline__ void wait() { mmci_group_wait(number, (int)threads); }
};

/* Adds lines from `line` on, every shares-th, the first of them at `at`: so many words of each, as
 * far apart as a round is wide, of which all are there where there is one. */
template <typename Element, int WORD, int ROUNDS>
__device__ __forceinline__ void add_lines(const typename Element::Stored *at, unsigned line,
                                          unsigned end, unsigned shares, const Step &step,
                                          unsigned col, unsigned width,
                                          const typename Element::Stored *x,
                                          typename Element::Sum (&sums)[SUMS_OF<Element>]) {
  typedef typename Element::Stored Stored;
  typedef Several<Stored, WORD> Word;
  enum { LINES = ROUNDS == 1 ? 4 : ROUNDS == 2 ? 2 : 1 };
  const unsigned apart = shares * step.length, words = step.length / WORD;
  const bool conj = step.conj;
  auto add = [&](auto times) {
    enum { COUNT = decltype(times)::COUNT };
    Word word[COUNT][ROUNDS];
    Stored right[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      right[i] = x[line + i * shares];
#pragma unroll
      for (int r = 0; r < ROUNDS; r++)
        if (r == 0 || col + r * width < words)
          word[i][r] = *reinterpret_cast<const Word *>(at + i * apart + r * width * WORD);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
      for (int r = 0; r < ROUNDS; r++)
#pragma unroll
        for (int v = 0; v < WORD; v++)
          if (r == 0 || col + r * width < words)
            mmci_fuse_product(sums[r * WORD + v], Element::read(word[i][r].v[v], conj),
                              Element::read(right[i], false));
    line += COUNT * shares;
    at += COUNT * apart;
  };
#pragma unroll 1
  while (line + (LINES - 1) * shares < end) add(mmci_times<LINES>());
#pragma unroll 1
  while (line < end) add(mmci_times<1>());
}

/* Every element of a line has its own sum: threads side by side take a line's words, and as many
 * lines at once as that leaves threads for. */
template <typename Element, int WORD>
__device__ __forceinline__ void sum_across(Team<Element> &team, const Step &step,
                                           const typename Element::Stored *from,
                                           const typename Element::Stored *x,
                                           typename Element::Stored *to) {
  typedef typename Element::Stored Stored;
  typedef typename Element::Sum Sum;
  enum { SUMS = SUMS_OF<Element>, MOST = SUMS / WORD };
  unsigned shares;
  const unsigned words = step.length / WORD,
                 rounds = mmci_vector_rounds(words, step.lines, team.threads, &shares),
                 width = (words + rounds - 1) / rounds, share = team.thread / width,
                 col = team.thread - share * width;
  const bool works = share < shares && col < words;
  Sum sums[SUMS] = {};
  unsigned next = share;
#pragma unroll 1
  for (unsigned line = 0; line < step.lines; line += step.each) {
    const Stored *chunk = team.take(from + (size_t)line * step.length);
    const unsigned end = end_of(step, line);
    if (works && next < end) {
      const Stored *at = chunk + (next - line) * step.length + col * WORD;
      if (MOST == 1 || rounds == 1)
        add_lines<Element, WORD, 1>(at, next, end, shares, step, col, width, x, sums);
      else if (MOST == 2 || rounds == 2)
        add_lines < Element, WORD,
            MOST<2 ? 1 : 2>(at, next, end, shares, step, col, width, x, sums);
      else if (MOST == 4 || rounds <= 4)
        add_lines < Element, WORD,
            MOST<4 ? 1 : 4>(at, next, end, shares, step, col, width, x, sums);
      else
        add_lines<Element, WORD, MOST>(at, next, end, shares, step, col, width, x, sums);
      next += (end - next + shares - 1) / shares * shares;
    }
    team.give_back();
  }
  if (shares == 1) {
#pragma unroll
    for (int r = 0; r < MOST; r++)
#pragma unroll
      for (int v = 0; v < WORD; v++)
        if (works && (unsigned)r < rounds && col + r * width < words)
          to[(col + r * width) * WORD + v] = Element::write(sums[r * WORD + v]);
    return;
  }
#pragma unroll
  for (int v = 0; v < WORD; v++)
    if (works) team.parts[(v * shares + share) * width + col] = sums[v];
  team.wait();
#pragma unroll 1
  for (unsigned i = team.thread; i < step.length; i += team.threads) {
    const Sum *part = team.parts + i % WORD * shares * width + i / WORD;
    Sum sum = part[0];
    for (unsigned s = 1; s < shares; s++) sum = mmci_add(sum, part[s * width]);
    to[i] = Element::write(sum);
  }
}

/* Every line has its own sum, by a group of lanes; groups take lines in turn. */
template <typename Element, int WORD>
__device__ __forceinline__ void sum_along(Team<Element> &team, const Step &step,
                                          const typename Element::Stored *from,
                                          const typename Element::Stored *x,
                                          typename Element::Stored *to) {
  typedef typename Element::Stored Stored;
  typedef typename Element::Sum Sum;
  typedef Several<Stored, WORD> Word;
  enum { AHEAD = 4 };
  const unsigned words = step.length / WORD,
                 lanes = mmci_vector_lanes(words, step.lines, team.threads),
                 groups = team.threads / lanes, group = team.thread / lanes,
                 lane = team.thread - group * lanes;
  const Word *right = reinterpret_cast<const Word *>(x);
  const bool conj = step.conj;
  unsigned next = group;
#pragma unroll 1
  for (unsigned line = 0; line < step.lines; line += step.each) {
    const Stored *chunk = team.take(from + (size_t)line * step.length);
    const unsigned end = end_of(step, line);
    /* Lanes of a warp want each other's sums as long as one of them has a line. */
#pragma unroll 1
    while (__any_sync(0xffffffffu, next < end)) {
      const bool has_line = next < end;
      const Word *left =
          reinterpret_cast<const Word *>(chunk + (has_line ? next - line : 0) * step.length);
      Sum sum = {};
      auto add = [&](unsigned w, auto times) {
        enum { COUNT = decltype(times)::COUNT };
        Word a[COUNT], b[COUNT];
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
          a[i] = left[w + i * lanes];
          b[i] = right[w + i * lanes];
        }
#pragma unroll
        for (int i = 0; i < COUNT; i++)
#pragma unroll
          for (int v = 0; v < WORD; v++)
            mmci_fuse_product(sum, Element::read(a[i].v[v], conj), Element::read(b[i].v[v], false));
      };
      unsigned w = has_line ? lane : words;
#pragma unroll 1
      for (; w + (AHEAD - 1) * lanes < words; w += AHEAD * lanes) add(w, mmci_times<AHEAD>());
#pragma unroll 1
      for (; w < words; w += lanes) add(w, mmci_times<1>());
      for (unsigned bit = lanes / 2; bit >= 1; bit /= 2)
        sum = mmci_add(sum, mmci_from_lane(sum, (int)bit));
      if (has_line && lane == 0) to[next] = Element::write(sum);
      if (has_line) next += groups;
    }
    team.give_back();
  }
}

template <typename Element, int WORD>
__global__ void __launch_bounds__(THREADS + WARP, MMCI_VECTOR_BLOCKS)
    multiply_vectors(const __grid_constant__ mmci_vector_chain e) {
  typedef typename Element::Stored Stored;
  typedef typename Element::Sum Sum;
  enum { PARTS = THREADS * WORD_BYTES / (int)sizeof(Stored) };
  MMCI_DYNAMIC_SHARED(memory);
  const unsigned threads = e.team * WARP, teams = THREADS / threads, slots = teams * SLOTS,
                 is_copier = threadIdx.x >= THREADS,
                 number = is_copier ? threadIdx.x - THREADS : threadIdx.x / threads;
  mmci_counted_gate *full = reinterpret_cast<mmci_counted_gate *>(memory), *empty = full + slots;
  unsigned char *rings = memory + (2 * slots * sizeof *full + LINE - 1) / LINE * LINE;
  if (threadIdx.x < slots) {
    full[threadIdx.x].open(1);
    empty[threadIdx.x].open(e.team);
  }
  __syncthreads();
  mmci_follow_previous();
  const int64_t first = blockIdx.x + (int64_t)number * gridDim.x,
                stride = (int64_t)gridDim.x * teams;
  mmci_counted_gate *mine = full + number * SLOTS;
  unsigned char *ring = rings + (size_t)number * SLOTS * e.slot_bytes;
  if (is_copier) {
    if (number < teams) copy_all<Stored>(e, first, stride, teams, mine, mine + slots, ring);
    return;
  }
  Sum *parts = reinterpret_cast<Sum *>(rings + (size_t)slots * e.slot_bytes);
  const size_t room = (e.most * sizeof(Stored) + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
  unsigned char *vectors = reinterpret_cast<unsigned char *>(parts + PARTS) + number * 2 * room;
  Team<Element> team = {mine,
                        mine + slots,
                        ring,
                        e.slot_bytes,
                        e.x_bytes,
                        threadIdx.x % threads,
                        threads,
                        (int)number,
                        parts + number * (PARTS / teams),
                        0,
                        0};
#pragma unroll 1
  for (int64_t chain = first; chain < e.batch; chain += stride) {
    Stored *x = reinterpret_cast<Stored *>(vectors),
           *y = reinterpret_cast<Stored *>(vectors + room);
    const Stored *given = team.take_vector(vector_of<Stored>(e, chain));
    for (unsigned i = team.thread; i < e.first; i += threads)
      x[i] = e.x_conj ? Element::write(Element::read(given[i], true)) : given[i];
    team.wait();
#pragma unroll 1
    for (int s = 0; s < e.count; s++) {
      const Step &step = e.steps[s];
      const Stored *from = matrix_of<Stored>(step, chain);
      Stored *to = s + 1 < e.count ? y : static_cast<Stored *>(e.y) + chain * e.y_stride;
      if (step.along)
        sum_along<Element, WORD>(team, step, from, x, to);
      else
        sum_across<Element, WORD>(team, step, from, x, to);
      team.wait();
      y = x;
      x = to;
    }
  }
}

/* ---- on the host ----------------------------------------------------------------------------- */

typedef void (*kernel_fn)(mmci_vector_chain);

template <typename Element>
kernel_fn kernel_of(int word) {
  enum { MOST = WORD_BYTES / (int)sizeof(typename Element::Stored) };
  if constexpr (MOST >= 8)
    if (word == 8) return multiply_vectors<Element, 8>;
  if constexpr (MOST >= 4)
    if (word == 4) return multiply_vectors<Element, 4>;
  if constexpr (MOST >= 2)
    if (word == 2) return multiply_vectors<Element, 2>;
  return multiply_vectors<Element, 1>;
}

/* The limit is raised above any before, so that chains prepared earlier still fit. */
template <typename Element>
mmc_status prepare(const mmci_vector_chain *x, int bytes, mmci_error *error) {
  for (int word = x->word; word >= 1; word /= 2) {
    const kernel_fn kernel = kernel_of<Element>(word);
    cudaFuncAttributes facts;
    MMCI_CUDA_TRY(cudaFuncGetAttributes(&facts, kernel));
    if (bytes > facts.maxDynamicSharedSizeBytes)
      MMCI_CUDA_TRY(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  }
  return MMC_OK;
}

template <typename Element>
mmc_status launch(cudaStream_t stream, const mmci_group_limits *limits, int blocks, size_t bytes,
                  const mmci_vector_chain *x, mmci_error *error) {
  MMCI_CUDA_TRY(mmci_launch_overlapped(kernel_of<Element>(x->word), limits->overlap,
                                       dim3((unsigned)blocks), dim3(THREADS + WARP), bytes, stream,
                                       *x));
  return MMC_OK;
}

}  // namespace

extern "C" mmc_status mmci_vector_chain_prepare(mmc_dtype dtype, const mmci_vector_chain *x,
                                                mmci_error *error) {
  const int bytes = (int)mmci_vector_chain_bytes(dtype, x);
#define MMCI_PREPARE(Element) prepare<Element>(x, bytes, error)
  MMCI_FOR_ELEMENT(dtype, error, MMCI_PREPARE);
#undef MMCI_PREPARE
}

extern "C" mmc_status mmci_vector_chain_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                               mmc_dtype dtype, const mmci_vector_chain *x,
                                               mmci_error *error) {
  const int64_t teams = MMCI_VECTOR_WARPS / x->team, needed = (x->batch + teams - 1) / teams,
                fit = (int64_t)limits->multiprocessors * mmci_vector_chain_blocks(limits, dtype, x);
  const int blocks = (int)(needed < fit ? needed : fit);
  const size_t bytes = mmci_vector_chain_bytes(dtype, x);
#define MMCI_LAUNCH(Element) launch<Element>(stream, limits, blocks, bytes, x, error)
  MMCI_FOR_ELEMENT(dtype, error, MMCI_LAUNCH);
#undef MMCI_LAUNCH
}
