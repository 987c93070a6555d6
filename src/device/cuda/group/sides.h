/* sides.h: the sides of the squares that sides.cu, lanes.cu and strips.cu multiply, and how.
 *
 * SIDE(side, height, width, piece, lanes, slots, units, first, terms): a chain has so many lanes, 4
 * across and 4 down, or 8 and 4, 8 and 8, 16 and 8, 16 and 16. A lane has height rows and width
 * columns, which it reads in pieces, and the last one alone where it is left over. A unit, one
 * chain, or two that share a warp, or four of an odd side, two in f64, whose matrices begin at no
 * whole word alone, has slots for factors; a block has so many units at most. first is 1 where the
 * first factor lies where the running product will, and the result is stored from registers; terms
 * of a sum are unrolled.
 *
 * LANES(side, lanes, warps, apart): a chain has so many lanes, which keep rows of the running
 * product, and a block so many warps at most. apart is 1 where each matrix is copied alone, so that
 * chains do not begin in the same banks.
 *
 * STRIPS(side, strips, slots, units): a warp has so many strips of 16 rows of a chain's product,
 * and a chain as many warps as that takes; a unit, one chain, or two or eight whose matrices begin
 * at no whole word alone, has slots for factors; a block has so many units at most.
 *
 * What is here was the fastest of what was tried for each side on an H200. */
#ifndef MMCI_CUDA_GROUP_SIDES_H
#define MMCI_CUDA_GROUP_SIDES_H

#define MMCI_SIDES_F32(SIDE)           \
  SIDE(17, 5, 5, 1, 16, 3, 8, 0, 8)    \
  SIDE(18, 5, 5, 2, 16, 3, 16, 0, 8)   \
  SIDE(19, 5, 5, 1, 16, 2, 10, 0, 8)   \
  SIDE(20, 5, 5, 4, 16, 3, 16, 0, 8)   \
  SIDE(21, 6, 6, 1, 16, 3, 7, 0, 8)    \
  SIDE(22, 6, 3, 2, 32, 3, 16, 0, 8)   \
  SIDE(23, 6, 6, 1, 16, 3, 6, 0, 8)    \
  SIDE(24, 6, 3, 2, 32, 3, 16, 0, 8)   \
  SIDE(25, 7, 7, 1, 16, 3, 5, 0, 8)    \
  SIDE(26, 7, 4, 2, 32, 3, 16, 0, 8)   \
  SIDE(27, 7, 7, 1, 16, 3, 4, 0, 8)    \
  SIDE(28, 7, 4, 4, 32, 3, 16, 0, 8)   \
  SIDE(29, 8, 4, 1, 32, 2, 4, 0, 8)    \
  SIDE(30, 8, 4, 2, 32, 2, 16, 0, 8)   \
  SIDE(31, 8, 4, 1, 32, 2, 4, 0, 8)    \
  SIDE(33, 9, 5, 1, 32, 2, 4, 0, 8)    \
  SIDE(34, 9, 5, 2, 32, 3, 12, 0, 8)   \
  SIDE(35, 9, 5, 1, 32, 2, 3, 0, 8)    \
  SIDE(36, 9, 5, 4, 32, 3, 11, 0, 8)   \
  SIDE(37, 10, 5, 1, 32, 2, 3, 0, 8)   \
  SIDE(38, 10, 5, 2, 32, 2, 12, 0, 8)  \
  SIDE(39, 10, 5, 1, 32, 2, 3, 0, 8)   \
  SIDE(40, 5, 5, 4, 64, 2, 8, 0, 8)    \
  SIDE(41, 6, 6, 1, 64, 2, 2, 0, 8)    \
  SIDE(42, 6, 6, 2, 64, 2, 8, 0, 8)    \
  SIDE(43, 6, 6, 1, 64, 2, 2, 0, 8)    \
  SIDE(44, 6, 6, 2, 64, 2, 8, 0, 8)    \
  SIDE(45, 6, 6, 1, 64, 2, 2, 0, 8)    \
  SIDE(46, 6, 6, 2, 64, 2, 8, 0, 8)    \
  SIDE(47, 6, 6, 1, 64, 2, 2, 0, 8)    \
  SIDE(48, 6, 6, 2, 64, 2, 8, 1, 24)   \
  SIDE(50, 7, 7, 2, 64, 2, 7, 0, 8)    \
  SIDE(52, 7, 7, 2, 64, 2, 6, 0, 8)    \
  SIDE(54, 7, 7, 2, 64, 2, 6, 0, 8)    \
  SIDE(56, 7, 7, 2, 64, 2, 6, 1, 24)   \
  SIDE(58, 8, 8, 2, 64, 2, 5, 0, 8)    \
  SIDE(62, 8, 8, 2, 64, 2, 4, 0, 8)    \
  SIDE(68, 9, 5, 4, 128, 1, 4, 1, 8)   \
  SIDE(72, 9, 5, 4, 128, 1, 4, 1, 8)   \
  SIDE(76, 5, 5, 4, 256, 2, 2, 1, 8)   \
  SIDE(80, 10, 5, 4, 128, 1, 4, 1, 8)  \
  SIDE(84, 11, 6, 2, 128, 2, 2, 1, 8)  \
  SIDE(88, 11, 6, 2, 128, 2, 2, 1, 4)  \
  SIDE(92, 6, 6, 2, 256, 2, 2, 1, 8)   \
  SIDE(96, 6, 6, 2, 256, 2, 2, 1, 16)  \
  SIDE(100, 13, 7, 2, 128, 1, 2, 1, 4) \
  SIDE(104, 13, 7, 2, 128, 1, 2, 1, 4) \
  SIDE(108, 7, 7, 2, 256, 1, 2, 1, 16) \
  SIDE(112, 7, 7, 2, 256, 1, 2, 1, 8)  \
  SIDE(116, 8, 8, 4, 256, 2, 1, 1, 16) \
  SIDE(120, 8, 8, 4, 256, 2, 1, 1, 8)  \
  SIDE(124, 8, 8, 4, 256, 2, 1, 1, 16) \
  SIDE(128, 8, 8, 4, 256, 2, 1, 1, 16)

#define MMCI_SIDES_F64(SIDE)         \
  SIDE(11, 3, 3, 1, 16, 3, 16, 0, 8) \
  SIDE(12, 3, 3, 2, 16, 3, 16, 0, 8) \
  SIDE(13, 4, 4, 1, 16, 3, 16, 0, 8) \
  SIDE(14, 4, 4, 2, 16, 3, 16, 0, 8) \
  SIDE(15, 4, 2, 1, 32, 2, 8, 0, 8)  \
  SIDE(16, 4, 4, 2, 16, 3, 13, 0, 8) \
  SIDE(17, 5, 5, 1, 16, 3, 11, 0, 8) \
  SIDE(18, 5, 5, 2, 16, 3, 10, 0, 8) \
  SIDE(19, 5, 5, 1, 16, 2, 12, 0, 8) \
  SIDE(20, 5, 5, 2, 16, 3, 8, 0, 8)  \
  SIDE(21, 6, 3, 1, 32, 2, 8, 0, 8)  \
  SIDE(22, 6, 3, 2, 32, 2, 16, 0, 8) \
  SIDE(23, 6, 3, 1, 32, 2, 8, 0, 8)  \
  SIDE(24, 6, 3, 2, 32, 2, 16, 0, 8) \
  SIDE(25, 7, 4, 1, 32, 2, 7, 0, 8)  \
  SIDE(26, 7, 4, 2, 32, 2, 13, 0, 8) \
  SIDE(27, 7, 4, 1, 32, 2, 6, 0, 8)  \
  SIDE(28, 7, 4, 2, 32, 2, 12, 0, 8) \
  SIDE(29, 4, 4, 1, 64, 2, 4, 0, 8)  \
  SIDE(30, 4, 4, 2, 64, 2, 8, 0, 8)  \
  SIDE(31, 4, 4, 1, 64, 2, 4, 0, 8)  \
  SIDE(32, 4, 4, 2, 64, 2, 8, 1, 8)  \
  SIDE(33, 9, 5, 1, 32, 2, 4, 0, 8)  \
  SIDE(34, 9, 5, 2, 32, 2, 8, 0, 8)  \
  SIDE(35, 5, 5, 1, 64, 2, 3, 0, 8)  \
  SIDE(36, 9, 5, 2, 32, 2, 7, 0, 8)  \
  SIDE(37, 5, 5, 1, 64, 2, 3, 0, 8)  \
  SIDE(38, 5, 5, 2, 64, 2, 6, 0, 8)  \
  SIDE(39, 5, 5, 1, 64, 2, 3, 0, 8)  \
  SIDE(40, 5, 5, 2, 64, 1, 8, 1, 8)  \
  SIDE(41, 6, 6, 1, 64, 2, 2, 0, 8)  \
  SIDE(42, 6, 6, 2, 64, 2, 5, 0, 8)  \
  SIDE(43, 6, 6, 1, 64, 2, 2, 0, 8)  \
  SIDE(44, 6, 6, 2, 64, 2, 4, 1, 8)  \
  SIDE(45, 6, 6, 1, 64, 2, 2, 0, 8)  \
  SIDE(46, 6, 6, 2, 64, 1, 6, 1, 8)  \
  SIDE(47, 6, 6, 1, 64, 2, 2, 0, 8)  \
  SIDE(48, 6, 3, 2, 128, 2, 4, 1, 8) \
  SIDE(50, 7, 4, 2, 128, 2, 3, 1, 8) \
  SIDE(52, 7, 4, 2, 128, 2, 3, 1, 8) \
  SIDE(54, 7, 4, 2, 128, 2, 3, 1, 8) \
  SIDE(56, 7, 7, 2, 64, 1, 4, 1, 8)

#define MMCI_LANES_F32(LANES) \
  LANES(2, 1, 32, 0)          \
  LANES(3, 1, 32, 0)          \
  LANES(5, 1, 20, 0)          \
  LANES(6, 2, 20, 0)          \
  LANES(7, 2, 16, 0)          \
  LANES(9, 2, 12, 0)          \
  LANES(10, 4, 16, 0)         \
  LANES(11, 4, 16, 0)         \
  LANES(12, 4, 12, 0)         \
  LANES(13, 8, 16, 0)         \
  LANES(14, 8, 16, 0)         \
  LANES(15, 8, 16, 0)

#define MMCI_LANES_F64(LANES) \
  LANES(2, 1, 32, 0)          \
  LANES(3, 1, 24, 0)          \
  LANES(4, 4, 28, 0)          \
  LANES(5, 2, 16, 0)          \
  LANES(6, 2, 12, 0)          \
  LANES(7, 4, 16, 0)          \
  LANES(8, 4, 12, 1)          \
  LANES(9, 8, 16, 0)          \
  LANES(10, 8, 12, 0)

#define MMCI_LANES_C64(LANES) \
  LANES(2, 1, 32, 0)          \
  LANES(3, 1, 24, 0)          \
  LANES(4, 4, 28, 0)          \
  LANES(5, 2, 16, 0)          \
  LANES(6, 2, 12, 0)          \
  LANES(7, 4, 16, 0)          \
  LANES(8, 4, 12, 1)          \
  LANES(9, 8, 16, 0)          \
  LANES(10, 16, 16, 0)        \
  LANES(11, 16, 16, 0)        \
  LANES(12, 16, 12, 0)        \
  LANES(13, 16, 16, 0)        \
  LANES(14, 16, 12, 0)        \
  LANES(15, 16, 16, 0)        \
  LANES(16, 16, 12, 0)

#define MMCI_LANES_C128(LANES) \
  LANES(2, 1, 24, 0)           \
  LANES(3, 1, 16, 0)           \
  LANES(4, 4, 20, 0)           \
  LANES(5, 4, 12, 0)           \
  LANES(6, 8, 16, 0)           \
  LANES(7, 8, 16, 0)           \
  LANES(8, 8, 12, 1)           \
  LANES(9, 16, 12, 0)          \
  LANES(10, 16, 12, 0)         \
  LANES(11, 16, 12, 0)         \
  LANES(12, 16, 8, 0)          \
  LANES(13, 16, 8, 0)          \
  LANES(14, 16, 8, 0)

#define MMCI_LANES_HALF(LANES) \
  LANES(2, 1, 32, 0)           \
  LANES(3, 1, 32, 0)           \
  LANES(4, 1, 24, 0)           \
  LANES(5, 2, 28, 0)           \
  LANES(6, 2, 20, 0)           \
  LANES(7, 2, 16, 0)           \
  LANES(8, 4, 20, 0)           \
  LANES(9, 2, 12, 0)           \
  LANES(10, 2, 12, 0)          \
  LANES(11, 4, 16, 0)          \
  LANES(12, 4, 12, 0)          \
  LANES(13, 4, 12, 0)

#define MMCI_STRIPS_HALF(STRIPS) \
  STRIPS(14, 1, 3, 15)           \
  STRIPS(15, 1, 3, 4)            \
  STRIPS(16, 1, 4, 15)           \
  STRIPS(17, 2, 2, 4)            \
  STRIPS(18, 2, 3, 12)           \
  STRIPS(19, 2, 3, 3)            \
  STRIPS(20, 2, 3, 15)           \
  STRIPS(21, 2, 3, 3)            \
  STRIPS(22, 2, 3, 12)           \
  STRIPS(23, 2, 3, 3)            \
  STRIPS(24, 2, 3, 15)           \
  STRIPS(25, 2, 3, 3)            \
  STRIPS(26, 2, 3, 8)            \
  STRIPS(27, 2, 3, 2)            \
  STRIPS(28, 1, 3, 12)           \
  STRIPS(29, 2, 3, 2)            \
  STRIPS(30, 2, 2, 8)            \
  STRIPS(31, 2, 3, 2)            \
  STRIPS(32, 2, 3, 15)           \
  STRIPS(33, 3, 3, 2)            \
  STRIPS(34, 3, 2, 8)            \
  STRIPS(35, 3, 3, 2)            \
  STRIPS(36, 2, 3, 8)            \
  STRIPS(37, 3, 3, 2)            \
  STRIPS(38, 3, 2, 8)            \
  STRIPS(39, 3, 2, 2)            \
  STRIPS(40, 1, 3, 8)            \
  STRIPS(41, 3, 2, 2)            \
  STRIPS(42, 3, 2, 8)            \
  STRIPS(43, 3, 2, 2)            \
  STRIPS(44, 1, 3, 8)            \
  STRIPS(45, 3, 2, 2)            \
  STRIPS(46, 3, 2, 8)            \
  STRIPS(47, 3, 2, 2)            \
  STRIPS(48, 1, 3, 8)            \
  STRIPS(49, 2, 3, 1)            \
  STRIPS(50, 2, 3, 4)            \
  STRIPS(51, 2, 3, 1)            \
  STRIPS(52, 2, 3, 8)            \
  STRIPS(53, 2, 3, 1)            \
  STRIPS(54, 2, 3, 4)            \
  STRIPS(55, 2, 3, 1)            \
  STRIPS(56, 2, 3, 8)            \
  STRIPS(57, 2, 3, 1)            \
  STRIPS(58, 2, 3, 4)            \
  STRIPS(59, 2, 3, 1)            \
  STRIPS(60, 2, 3, 8)            \
  STRIPS(61, 2, 3, 1)            \
  STRIPS(62, 2, 2, 4)            \
  STRIPS(63, 2, 3, 1)            \
  STRIPS(64, 2, 3, 8)

#endif
