/* sides_tile.cuh: the tile of a chain's product that a lane has in sides.cu and panels.cu, and
 * where it reads and writes.
 *
 * A Shape has a lane's HEIGHT rows and WIDTH columns of a product, lanes of which DOWN are below
 * and ACROSS beside each other, the elements of a WORD and of a PIECE of the right operand that are
 * read at once, the PITCH from a column of the running product, which lies turned, to the next, and
 * says whether terms are read one AHEAD of those that are multiplied. SIDE is 0 where a kernel is
 * given the side of its matrices. Where the tiles' WHOLE_ROWS or WHOLE_COLS are as many as a
 * product has, no edge is looked for. */
#ifndef MMCI_CUDA_GROUP_SIDES_TILE_CUH
#define MMCI_CUDA_GROUP_SIDES_TILE_CUH

#include "device/cuda/elements.cuh"

enum { WARP = 32, BANKS = 32, BANK_BYTES = 4, WORD_BYTES = 16 };

static constexpr int up(int x, int to) {
  return (x + to - 1) / to * to;
}

/* Returns what is from a column of so many rows, in words, to the next: four columns that lanes
 * write at once, a piece apart, begin in different banks, or two and two where pieces are words of
 * four. */
static constexpr int mmci_sides_pitch(int rows, int piece, int word, int in_banks) {
  const int wanted = piece >= 4 ? in_banks / 2 : in_banks / 4;
  for (int pitch = up(rows, word); pitch < rows + in_banks; pitch += word) {
    const int at = piece * pitch % in_banks;
    if (at == wanted || at == in_banks - wanted) return pitch;
  }
  return up(rows, word);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

template <int value_>
struct constant {
  static constexpr int value = value_;
};

/* Calls for_piece(at, size), constants, for pieces of COUNT elements of a lane: as many of PIECE as
 * there are, then smaller ones. */
template <int COUNT, int PIECE, int AT = 0, typename Call>
static __device__ __forceinline__ void for_pieces(Call for_piece) {
  if constexpr (AT + PIECE <= COUNT) {
    for_piece(constant<AT>{}, constant<PIECE>{});
    for_pieces<COUNT, PIECE, AT + PIECE>(for_piece);
  } else if constexpr (AT < COUNT) {
    for_pieces<COUNT, PIECE / 2, AT>(for_piece);
  }
}

/* Reads a lane's elements of a line: LANES lanes have neighbouring pieces. */
template <int COUNT, int PIECE, int LANES, typename Element>
static __device__ __forceinline__ void read_line(Element *to, const Element *line, int lane) {
  for_pieces<COUNT, PIECE>([&](auto at, auto size) {
    mmci_copy_word<size.value>(to + at.value, line + at.value * LANES + lane * size.value);
  });
}

/* Terms of the sums that a lane is about to add, and of those after. */
template <typename Shape>
struct Terms {
  alignas(WORD_BYTES) typename Shape::Element left[2][up(Shape::HEIGHT, Shape::WORD)],
      right[2][up(Shape::WIDTH, Shape::WORD)];
  template <typename Element>
  __device__ __forceinline__ void read(int which, const Element *column, const Element *row,
                                       int lane_down, int lane_across) {
    read_line<Shape::HEIGHT, Shape::WORD, Shape::DOWN>(left[which], column, lane_down);
    read_line<Shape::WIDTH, Shape::PIECE, Shape::ACROSS>(right[which], row, lane_across);
  }
};

/* Adds COUNT terms, from a column of the product and a row of the factor on, which has `side`
 * elements. */
template <typename Shape, int COUNT, typename Element = typename Shape::Element>
static __device__ __forceinline__ void add_terms(const Element *column, const Element *row,
                                                 int side, int lane_down, int lane_across,
                                                 Terms<Shape> &terms,
                                                 Element (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  constexpr int HEIGHT = Shape::HEIGHT;
  const int length = Shape::SIDE > 0 ? Shape::SIDE : side;
#pragma unroll
  for (int k = 0; k < COUNT; k++) {
    const int now = k % 2, read = Shape::AHEAD ? k + 1 : k;
    terms.read(read % 2, column + read * Shape::PITCH, row + read * length, lane_down, lane_across);
#pragma unroll
    for (int j = 0; j < Shape::WIDTH; j++)
#pragma unroll
      for (int at = 0; at < HEIGHT; at++) {
        /* Columns go to and fro: the last row of one is the first of the next. */
        const int i = j % 2 == 0 ? at : HEIGHT - 1 - at;
        mmci_fuse_product(sums[i][j], terms.left[now][i], terms.right[now][j]);
      }
  }
}

/* ---- where lanes and sums are ---------------------------------------------------------------- */

/* Tells a lane's place among those of a chain. Its neighbours read the same words of either
 * operand. */
template <typename Shape>
static __device__ __forceinline__ void place_lane(unsigned lane, int *down, int *across) {
  const unsigned warp = lane / WARP, pair = (lane & 1) | ((lane >> 1) & 2), high = (lane >> 1) & 1,
                 wide = pair | ((lane >> 2) & 4), tall = high | ((lane >> 2) & 6);
  if constexpr (Shape::SPLIT) {
    *across = (int)pair;
    *down = (int)(high | ((lane >> 2) & 2));
  } else if constexpr (Shape::ACROSS % 8 == 0) { /* a warp is 4 x 8 lanes */
    *across = (int)(warp % (Shape::ACROSS / 8) * 8 + wide);
    *down = (int)(warp / (Shape::ACROSS / 8) * 4 + (tall & 3));
  } else { /* or 8 x 4 */
    *across = (int)(warp % (Shape::ACROSS / 4) * 4 + pair);
    *down = (int)(warp / (Shape::ACROSS / 4) * 8 + tall);
  }
}

/* Writes a lane's sums to the place of the product; rows of each pair change places. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void store_product(
    Element *product, int side, int lane_down, int lane_across,
    const Element (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  const int length = Shape::SIDE > 0 ? Shape::SIDE : side;
  for_pieces<Shape::WIDTH, Shape::PIECE>([&](auto cols, auto width) {
    const int c = cols.value * Shape::ACROSS + lane_across * width.value;
    if (!Shape::WHOLE_COLS && c >= length) return;
#pragma unroll
    for (int p = 0; p < width.value; p++)
      for_pieces<Shape::HEIGHT, Shape::WORD>([&](auto rows, auto height) {
        alignas(WORD_BYTES) Element piece[height.value];
#pragma unroll
        for (int q = 0; q < height.value; q++)
          piece[q] = sums[rows.value + (height.value > 1 ? q ^ 1 : q)][cols.value + p];
        mmci_copy_word<height.value>(
            product + (c + p) * Shape::PITCH + rows.value * Shape::DOWN + lane_down * height.value,
            piece);
      });
  });
}

/* Writes a lane's sums as a result, of which the rows of each pair lie in each other's place where
 * flip is 1. */
template <typename Shape, typename Element = typename Shape::Element>
static __device__ __forceinline__ void store_result(
    Element *to, int side, int lane_down, int lane_across, int flip, bool in_order,
    const Element (&sums)[Shape::HEIGHT][Shape::WIDTH]) {
  const int length = Shape::SIDE > 0 ? Shape::SIDE : side;
  for_pieces<Shape::HEIGHT, Shape::WORD>([&](auto rows, auto height) {
#pragma unroll
    for (int q = 0; q < height.value; q++) {
      const int r =
          rows.value * Shape::DOWN + lane_down * height.value + (height.value > 1 ? q ^ flip : q);
      if (!Shape::WHOLE_ROWS && r >= length) continue;
      for_pieces<Shape::WIDTH, Shape::PIECE>([&](auto cols, auto width) {
        const int c = cols.value * Shape::ACROSS + lane_across * width.value;
        if (!Shape::WHOLE_COLS && c >= length) return;
        alignas(WORD_BYTES) Element piece[width.value];
#pragma unroll
        for (int p = 0; p < width.value; p++) {
          const Element sum = sums[rows.value + q][cols.value + p];
          piece[p] = in_order ? mmci_settled(sum) : sum;
        }
        mmci_copy_word<width.value>(to + r * length + c, piece);
      });
    }
  });
}

#endif
