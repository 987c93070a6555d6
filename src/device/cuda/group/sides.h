/* sides.h: the sides of the squares that sides.cu, panels.cu, lanes.cu, strips.cu and
 * strips_double.cu multiply, and how.
 *
 * SIDE(side, height, width, piece, down, lanes, slots, units, terms, ahead): a chain has so many
 * lanes, of which so many are below each other. A lane has height rows and width columns of a
 * product, whose terms it reads in words of the left operand and in pieces of the right one, and
 * what is left over in smaller ones. A unit, one chain, or two that share a warp, or as many of an
 * odd side as a word has elements, whose matrices begin at no whole word alone, has slots for
 * factors; a block has so many units at most. So many terms of a sum are unrolled; ahead is 1 where
 * the next one is read before one is multiplied.
 *
 * LANES(side, lanes, warps, apart): a chain has so many lanes, which keep rows of the running
 * product, and a block so many warps at most. apart is 1 where each matrix is copied alone, so that
 * chains do not begin in the same banks.
 *
 * STRIPS(side, strips, slots, units): a warp has so many strips of 16 rows of a chain's product,
 * and a chain as many warps as that takes; a unit, one chain, or two or eight whose matrices begin
 * at no whole word alone, has slots for factors; a block has so many units at most.
 *
 * In f64 and c128 a warp has one such strip, and the row is STRIPS(side, slots, units); a unit is
 * one chain, or two of an odd side of f64.
 *
 * Where a side has two rows, the second one is for few chains (sides.c).
 *
 * PANEL(tile, down, units, ahead), of panels.cu, is for the sides that so many lanes below each
 * other, and as many beside, cover by tiles of so many rows and columns, but not by smaller ones; a
 * block has so many units at most.
 *
 * What is here was the fastest of what was tried for each side on an H200; strips of f64 and c128
 * have as many units as fit with three slots, or where that is one, with two. Rows of MORE are left
 * out where MMCI_FEW_SIDES is defined: kernels take long to compile, and tests need some of each
 * kind. */
#ifndef MMCI_CUDA_GROUP_SIDES_H
#define MMCI_CUDA_GROUP_SIDES_H

/* Expands to ROW(...) for the rows of a list. */
#ifdef MMCI_FEW_SIDES
#define MMCI_NO_ROW(...)
#define MMCI_ROWS(LIST, ROW) LIST(ROW, MMCI_NO_ROW)
#else
#define MMCI_ROWS(LIST, ROW) LIST(ROW, ROW)
#endif

#define MMCI_SIDES_F32(SIDE, MORE)         \
  SIDE(17, 5, 5, 1, 4, 16, 3, 11, 2, 1)    \
  MORE(18, 5, 5, 2, 4, 16, 2, 16, 4, 0)    \
  MORE(18, 2, 3, 2, 12, 96, 2, 10, 4, 0)   \
  MORE(19, 5, 5, 1, 4, 16, 2, 12, 2, 1)    \
  MORE(20, 5, 5, 2, 4, 16, 2, 16, 4, 0)    \
  MORE(20, 5, 2, 2, 4, 64, 2, 15, 4, 0)    \
  SIDE(21, 6, 6, 1, 4, 16, 2, 10, 2, 1)    \
  MORE(22, 6, 3, 2, 4, 32, 3, 16, 4, 0)    \
  MORE(22, 2, 3, 2, 12, 96, 2, 10, 4, 0)   \
  SIDE(23, 6, 6, 1, 4, 16, 2, 8, 2, 1)     \
  SIDE(24, 6, 3, 2, 4, 32, 3, 16, 4, 0)    \
  MORE(25, 7, 7, 1, 4, 16, 2, 6, 2, 1)     \
  MORE(26, 4, 7, 2, 8, 32, 2, 16, 4, 0)    \
  MORE(27, 4, 7, 1, 8, 32, 2, 5, 4, 0)     \
  SIDE(28, 4, 7, 2, 8, 32, 3, 16, 4, 0)    \
  MORE(29, 8, 4, 1, 4, 32, 2, 5, 2, 1)     \
  SIDE(30, 4, 8, 2, 8, 32, 2, 16, 2, 1)    \
  SIDE(31, 8, 4, 1, 4, 32, 2, 4, 2, 1)     \
  MORE(33, 9, 5, 1, 4, 32, 2, 4, 2, 1)     \
  MORE(34, 9, 5, 2, 4, 32, 2, 16, 4, 0)    \
  MORE(34, 2, 5, 2, 20, 160, 2, 6, 4, 0)   \
  SIDE(35, 9, 5, 1, 4, 32, 2, 3, 2, 1)     \
  MORE(36, 9, 5, 4, 4, 32, 3, 11, 2, 1)    \
  MORE(36, 2, 5, 4, 20, 160, 2, 6, 4, 0)   \
  SIDE(37, 10, 5, 1, 4, 32, 2, 3, 2, 1)    \
  SIDE(38, 10, 5, 2, 4, 32, 2, 12, 4, 0)   \
  SIDE(38, 3, 3, 2, 16, 256, 2, 4, 4, 0)   \
  MORE(39, 10, 5, 1, 4, 32, 2, 3, 2, 1)    \
  MORE(40, 10, 5, 4, 4, 32, 3, 8, 4, 0)    \
  MORE(40, 2, 5, 4, 28, 224, 2, 4, 4, 0)   \
  MORE(41, 11, 11, 1, 4, 16, 2, 2, 2, 1)   \
  SIDE(42, 11, 6, 2, 4, 32, 3, 8, 4, 0)    \
  SIDE(42, 3, 3, 2, 16, 256, 2, 4, 4, 0)   \
  MORE(43, 6, 11, 1, 8, 32, 2, 2, 4, 0)    \
  SIDE(44, 4, 6, 2, 12, 96, 2, 8, 4, 0)    \
  SIDE(45, 12, 3, 1, 4, 64, 2, 2, 2, 1)    \
  MORE(46, 6, 12, 2, 8, 32, 2, 8, 4, 0)    \
  MORE(46, 3, 3, 2, 16, 256, 2, 4, 4, 0)   \
  MORE(47, 12, 6, 1, 4, 32, 2, 2, 4, 0)    \
  MORE(48, 12, 6, 4, 4, 32, 2, 8, 4, 0)    \
  MORE(48, 2, 6, 4, 32, 256, 2, 4, 4, 0)   \
  SIDE(49, 7, 7, 1, 8, 64, 2, 1, 2, 1)     \
  MORE(50, 13, 7, 2, 4, 32, 2, 7, 4, 0)    \
  MORE(50, 4, 4, 2, 16, 256, 2, 4, 4, 0)   \
  SIDE(51, 7, 7, 1, 8, 64, 2, 1, 2, 1)     \
  SIDE(52, 7, 7, 2, 8, 64, 2, 6, 4, 0)     \
  MORE(53, 7, 7, 1, 8, 64, 2, 1, 2, 1)     \
  MORE(54, 7, 7, 2, 8, 64, 2, 6, 4, 0)     \
  MORE(55, 7, 7, 1, 8, 64, 2, 1, 2, 1)     \
  SIDE(56, 7, 7, 4, 8, 64, 3, 4, 2, 1)     \
  MORE(57, 8, 8, 1, 8, 64, 2, 1, 4, 0)     \
  SIDE(58, 8, 4, 2, 8, 128, 3, 4, 4, 0)    \
  SIDE(59, 8, 8, 1, 8, 64, 2, 1, 4, 0)     \
  MORE(60, 8, 4, 2, 8, 128, 2, 5, 4, 0)    \
  MORE(61, 16, 4, 1, 4, 64, 2, 1, 2, 1)    \
  MORE(62, 8, 4, 2, 8, 128, 2, 4, 4, 0)    \
  SIDE(63, 16, 4, 1, 4, 64, 2, 1, 2, 1)    \
  SIDE(66, 6, 9, 2, 12, 96, 2, 4, 4, 0)    \
  MORE(68, 6, 9, 4, 12, 96, 2, 4, 4, 0)    \
  SIDE(70, 6, 5, 2, 12, 192, 3, 2, 4, 0)   \
  SIDE(72, 6, 9, 4, 12, 96, 1, 5, 4, 0)    \
  MORE(74, 10, 5, 2, 8, 128, 2, 3, 4, 0)   \
  MORE(76, 10, 5, 4, 8, 128, 2, 3, 4, 0)   \
  MORE(78, 10, 5, 2, 8, 128, 2, 3, 4, 0)   \
  SIDE(80, 10, 5, 4, 8, 128, 3, 2, 4, 0)   \
  MORE(82, 7, 11, 2, 12, 96, 1, 4, 4, 0)   \
  SIDE(84, 7, 11, 2, 12, 96, 1, 4, 4, 0)   \
  SIDE(84, 6, 6, 4, 16, 256, 2, 2, 4, 0)   \
  SIDE(86, 6, 11, 2, 16, 128, 1, 3, 4, 0)  \
  MORE(88, 6, 11, 4, 16, 128, 1, 3, 4, 0)  \
  MORE(90, 12, 6, 2, 8, 128, 2, 2, 4, 0)   \
  MORE(92, 6, 12, 4, 16, 128, 1, 3, 4, 0)  \
  MORE(92, 6, 6, 2, 16, 256, 2, 2, 4, 0)   \
  SIDE(94, 12, 6, 2, 8, 128, 2, 2, 4, 0)   \
  MORE(96, 6, 12, 4, 16, 128, 1, 3, 4, 0)  \
  SIDE(98, 13, 7, 2, 8, 128, 1, 2, 4, 0)   \
  SIDE(100, 13, 7, 2, 8, 128, 1, 2, 4, 0)  \
  MORE(102, 13, 7, 2, 8, 128, 1, 2, 4, 0)  \
  MORE(104, 7, 13, 4, 16, 128, 1, 2, 4, 0) \
  MORE(106, 14, 7, 2, 8, 128, 1, 2, 4, 0)  \
  SIDE(108, 14, 7, 4, 8, 128, 1, 2, 4, 0)  \
  MORE(110, 14, 7, 2, 8, 128, 1, 2, 4, 0)  \
  SIDE(112, 14, 7, 4, 8, 128, 1, 2, 4, 0)  \
  SIDE(114, 10, 8, 2, 12, 192, 1, 2, 4, 0) \
  MORE(116, 8, 15, 4, 16, 128, 1, 2, 4, 0) \
  MORE(118, 10, 8, 2, 12, 192, 1, 2, 4, 0) \
  MORE(120, 4, 15, 4, 32, 256, 2, 1, 4, 0) \
  SIDE(122, 8, 8, 2, 16, 256, 2, 1, 2, 1)  \
  MORE(124, 8, 8, 4, 16, 256, 2, 1, 4, 0)  \
  SIDE(126, 8, 8, 2, 16, 256, 2, 1, 2, 1)  \
  SIDE(128, 8, 8, 4, 16, 256, 2, 1, 4, 0)

#define MMCI_PANELS_F32(PANEL, MORE) \
  PANEL(9, 8, 4, 1)                  \
  MORE(10, 8, 4, 1)                  \
  MORE(11, 8, 4, 1)                  \
  MORE(12, 8, 4, 1)                  \
  MORE(13, 8, 4, 1)                  \
  MORE(7, 8, 7, 1)                   \
  MORE(8, 8, 6, 1)                   \
  PANEL(5, 16, 2, 1)                 \
  MORE(6, 16, 2, 1)                  \
  MORE(7, 16, 2, 1)                  \
  MORE(8, 16, 2, 0)                  \
  MORE(9, 16, 2, 0)                  \
  MORE(10, 16, 1, 1)                 \
  MORE(11, 16, 1, 1)                 \
  MORE(12, 16, 1, 1)                 \
  PANEL(13, 16, 1, 1)

#define MMCI_SIDES_F64(SIDE, MORE)        \
  MORE(11, 3, 3, 1, 4, 16, 2, 16, 4, 0)   \
  MORE(12, 3, 3, 2, 4, 16, 3, 16, 4, 0)   \
  MORE(12, 2, 3, 2, 8, 32, 2, 16, 4, 0)   \
  MORE(13, 4, 2, 1, 4, 32, 2, 14, 4, 0)   \
  SIDE(14, 4, 2, 2, 4, 32, 3, 16, 4, 0)   \
  MORE(15, 4, 2, 1, 4, 32, 2, 14, 2, 1)   \
  SIDE(16, 4, 2, 2, 4, 32, 3, 16, 4, 0)   \
  SIDE(17, 5, 3, 1, 4, 32, 2, 10, 2, 1)   \
  MORE(18, 3, 5, 2, 8, 32, 3, 16, 4, 0)   \
  MORE(18, 2, 3, 2, 12, 96, 2, 10, 4, 0)  \
  MORE(19, 5, 3, 1, 4, 32, 2, 10, 2, 1)   \
  MORE(20, 3, 5, 2, 8, 32, 3, 16, 4, 0)   \
  MORE(20, 2, 3, 2, 12, 96, 2, 10, 4, 0)  \
  SIDE(21, 6, 3, 1, 4, 32, 3, 7, 4, 0)    \
  MORE(22, 6, 3, 2, 4, 32, 2, 16, 4, 0)   \
  MORE(22, 2, 3, 2, 12, 96, 2, 10, 4, 0)  \
  SIDE(23, 6, 3, 1, 4, 32, 2, 8, 4, 0)    \
  SIDE(24, 6, 3, 2, 4, 32, 3, 12, 2, 1)   \
  SIDE(24, 2, 3, 2, 16, 128, 2, 8, 4, 0)  \
  MORE(25, 4, 7, 1, 8, 32, 2, 6, 2, 1)    \
  MORE(26, 4, 7, 2, 8, 32, 2, 12, 2, 1)   \
  MORE(26, 4, 2, 2, 8, 128, 2, 7, 4, 0)   \
  MORE(27, 7, 4, 1, 4, 32, 2, 6, 2, 1)    \
  SIDE(28, 4, 7, 2, 8, 32, 3, 8, 2, 1)    \
  SIDE(28, 2, 4, 2, 16, 128, 2, 7, 4, 0)  \
  MORE(29, 4, 4, 1, 8, 64, 2, 5, 2, 1)    \
  SIDE(30, 4, 4, 2, 8, 64, 2, 10, 4, 0)   \
  SIDE(31, 4, 8, 1, 8, 32, 2, 4, 2, 1)    \
  MORE(32, 4, 4, 2, 8, 64, 3, 6, 4, 0)    \
  MORE(33, 9, 5, 1, 4, 32, 2, 4, 4, 0)    \
  MORE(33, 2, 5, 1, 24, 192, 2, 2, 4, 0)  \
  MORE(34, 9, 5, 2, 4, 32, 2, 8, 4, 0)    \
  MORE(34, 3, 3, 2, 12, 192, 2, 4, 4, 0)  \
  SIDE(35, 5, 5, 1, 8, 64, 2, 3, 2, 1)    \
  MORE(36, 9, 5, 2, 4, 32, 2, 7, 2, 1)    \
  MORE(36, 3, 3, 2, 12, 192, 2, 4, 4, 0)  \
  SIDE(37, 5, 5, 1, 8, 64, 2, 3, 2, 1)    \
  SIDE(38, 5, 5, 2, 8, 64, 2, 6, 4, 0)    \
  MORE(39, 5, 5, 1, 8, 64, 2, 3, 2, 1)    \
  MORE(40, 5, 5, 2, 8, 64, 3, 4, 2, 1)    \
  MORE(41, 11, 3, 1, 4, 64, 3, 2, 2, 1)   \
  SIDE(42, 11, 3, 2, 4, 64, 3, 4, 2, 1)   \
  MORE(43, 11, 3, 1, 4, 64, 2, 2, 2, 1)   \
  SIDE(44, 6, 6, 2, 8, 64, 2, 4, 2, 1)    \
  SIDE(45, 6, 6, 1, 8, 64, 2, 2, 2, 1)    \
  MORE(46, 6, 6, 2, 8, 64, 2, 4, 2, 1)    \
  MORE(46, 2, 6, 2, 32, 256, 2, 2, 4, 0)  \
  MORE(47, 6, 6, 1, 8, 64, 2, 2, 2, 1)    \
  MORE(48, 6, 6, 2, 8, 64, 2, 4, 2, 1)    \
  MORE(48, 2, 6, 2, 32, 256, 2, 2, 4, 0)  \
  MORE(50, 2, 13, 2, 32, 128, 2, 3, 4, 0) \
  MORE(54, 7, 7, 2, 8, 64, 1, 4, 4, 0)    \
  MORE(54, 2, 7, 2, 32, 256, 2, 2, 4, 0)  \
  SIDE(56, 7, 7, 2, 8, 64, 1, 4, 4, 0)

#define MMCI_SIDES_C64(SIDE, MORE)        \
  SIDE(17, 5, 5, 1, 4, 16, 2, 15, 2, 1)   \
  MORE(18, 5, 3, 2, 4, 32, 2, 16, 4, 0)   \
  MORE(18, 2, 3, 2, 12, 96, 2, 10, 4, 0)  \
  MORE(19, 3, 5, 1, 8, 32, 3, 8, 2, 1)    \
  MORE(20, 3, 5, 2, 8, 32, 3, 16, 4, 0)   \
  SIDE(21, 6, 3, 1, 4, 32, 3, 7, 4, 0)    \
  MORE(22, 6, 3, 2, 4, 32, 2, 16, 4, 0)   \
  MORE(22, 2, 3, 2, 12, 96, 2, 10, 4, 0)  \
  SIDE(23, 6, 3, 1, 4, 32, 2, 8, 4, 0)    \
  SIDE(24, 6, 3, 2, 4, 32, 2, 16, 4, 0)   \
  SIDE(24, 2, 3, 2, 16, 128, 2, 8, 4, 0)  \
  MORE(25, 4, 7, 1, 8, 32, 2, 6, 4, 0)    \
  MORE(26, 2, 7, 2, 16, 64, 2, 10, 4, 0)  \
  MORE(26, 4, 2, 2, 8, 128, 2, 7, 4, 0)   \
  MORE(27, 7, 4, 1, 4, 32, 2, 6, 4, 0)    \
  SIDE(28, 7, 4, 2, 4, 32, 2, 12, 2, 1)   \
  SIDE(28, 2, 4, 2, 16, 128, 2, 7, 4, 0)  \
  MORE(29, 4, 4, 1, 8, 64, 3, 4, 2, 1)    \
  SIDE(30, 4, 4, 2, 8, 64, 2, 10, 4, 0)   \
  SIDE(30, 2, 4, 2, 16, 128, 2, 7, 4, 0)  \
  SIDE(31, 8, 2, 1, 4, 64, 2, 4, 4, 0)    \
  MORE(32, 8, 2, 2, 4, 64, 3, 6, 4, 0)    \
  MORE(32, 2, 4, 2, 16, 128, 2, 7, 4, 0)  \
  MORE(33, 9, 5, 1, 4, 32, 2, 4, 2, 1)    \
  MORE(33, 3, 3, 1, 12, 192, 2, 2, 4, 0)  \
  MORE(34, 9, 5, 2, 4, 32, 2, 8, 4, 0)    \
  MORE(34, 3, 3, 2, 12, 192, 2, 4, 4, 0)  \
  SIDE(35, 5, 5, 1, 8, 64, 2, 3, 2, 1)    \
  MORE(36, 3, 5, 2, 12, 96, 3, 5, 4, 0)   \
  SIDE(37, 5, 5, 1, 8, 64, 2, 3, 2, 1)    \
  SIDE(38, 5, 5, 2, 8, 64, 2, 6, 4, 0)    \
  MORE(39, 5, 5, 1, 8, 64, 2, 3, 2, 1)    \
  MORE(40, 5, 5, 2, 8, 64, 3, 4, 4, 0)    \
  MORE(41, 11, 3, 1, 4, 64, 3, 2, 4, 0)   \
  SIDE(42, 11, 3, 2, 4, 64, 3, 4, 4, 0)   \
  MORE(43, 11, 3, 1, 4, 64, 2, 2, 4, 0)   \
  SIDE(44, 2, 11, 2, 24, 96, 2, 4, 4, 0)  \
  SIDE(44, 3, 3, 2, 16, 256, 2, 3, 4, 0)  \
  SIDE(45, 12, 3, 1, 4, 64, 2, 2, 4, 0)   \
  MORE(46, 12, 3, 2, 4, 64, 2, 4, 4, 0)   \
  MORE(46, 3, 3, 2, 16, 256, 2, 3, 4, 0)  \
  MORE(47, 12, 3, 1, 4, 64, 2, 2, 4, 0)   \
  MORE(48, 12, 3, 2, 4, 64, 2, 4, 4, 0)   \
  MORE(48, 3, 3, 2, 16, 256, 2, 3, 4, 0)  \
  SIDE(49, 2, 13, 1, 32, 128, 2, 1, 4, 0) \
  MORE(50, 2, 13, 2, 32, 128, 2, 3, 4, 0) \
  SIDE(51, 2, 13, 1, 32, 128, 2, 1, 4, 0) \
  SIDE(52, 2, 13, 2, 32, 128, 2, 3, 4, 0) \
  MORE(54, 7, 7, 2, 8, 64, 1, 4, 4, 0)    \
  MORE(54, 2, 7, 2, 32, 256, 2, 2, 4, 0)  \
  SIDE(56, 7, 7, 2, 8, 64, 1, 4, 4, 0)    \
  SIDE(56, 2, 7, 2, 32, 256, 2, 2, 4, 0)  \
  SIDE(58, 8, 4, 2, 8, 128, 2, 2, 4, 0)   \
  MORE(60, 8, 4, 2, 8, 128, 2, 2, 4, 0)   \
  MORE(62, 8, 4, 2, 8, 128, 2, 2, 4, 0)   \
  MORE(64, 8, 4, 2, 8, 128, 2, 2, 4, 0)   \
  SIDE(72, 3, 9, 2, 24, 192, 1, 2, 4, 0)  \
  SIDE(72, 5, 5, 2, 16, 256, 2, 1, 4, 0)  \
  MORE(76, 10, 5, 2, 8, 128, 1, 2, 4, 0)  \
  SIDE(80, 10, 5, 2, 8, 128, 1, 2, 4, 0)

#define MMCI_LANES_F32(LANES, MORE) \
  LANES(2, 1, 32, 0)                \
  LANES(3, 1, 32, 0)                \
  MORE(5, 1, 20, 0)                 \
  MORE(6, 2, 20, 0)                 \
  LANES(7, 2, 16, 0)                \
  LANES(9, 2, 12, 0)                \
  LANES(10, 4, 16, 0)               \
  MORE(11, 4, 16, 0)                \
  MORE(12, 4, 12, 0)                \
  MORE(13, 8, 16, 0)                \
  LANES(14, 8, 16, 0)               \
  MORE(15, 8, 16, 0)

#define MMCI_LANES_F64(LANES, MORE) \
  LANES(2, 1, 32, 0)                \
  LANES(3, 1, 24, 0)                \
  MORE(4, 4, 28, 0)                 \
  MORE(5, 2, 16, 0)                 \
  MORE(6, 2, 12, 0)                 \
  LANES(7, 4, 16, 0)                \
  MORE(8, 4, 12, 1)                 \
  LANES(9, 8, 16, 0)                \
  LANES(10, 8, 12, 0)

#define MMCI_LANES_C64(LANES, MORE) \
  LANES(2, 1, 32, 0)                \
  LANES(3, 1, 24, 0)                \
  MORE(4, 4, 28, 0)                 \
  MORE(5, 2, 16, 0)                 \
  MORE(6, 2, 12, 0)                 \
  LANES(7, 4, 16, 0)                \
  MORE(8, 4, 12, 1)                 \
  LANES(9, 8, 16, 0)                \
  LANES(10, 16, 16, 0)              \
  MORE(11, 16, 16, 0)               \
  MORE(12, 16, 12, 0)               \
  MORE(13, 16, 16, 0)               \
  LANES(14, 16, 12, 0)              \
  MORE(15, 16, 16, 0)               \
  LANES(16, 16, 12, 0)

#define MMCI_LANES_C128(LANES, MORE) \
  LANES(2, 1, 24, 0)                 \
  LANES(3, 1, 16, 0)                 \
  MORE(4, 4, 20, 0)                  \
  MORE(5, 4, 12, 0)                  \
  MORE(6, 8, 16, 0)                  \
  LANES(7, 8, 16, 0)                 \
  MORE(8, 8, 12, 1)                  \
  LANES(9, 16, 12, 0)                \
  LANES(10, 16, 12, 0)               \
  MORE(11, 16, 12, 0)                \
  MORE(12, 16, 8, 0)                 \
  MORE(13, 16, 8, 0)                 \
  LANES(14, 16, 8, 0)

#define MMCI_LANES_HALF(LANES, MORE) \
  LANES(2, 1, 32, 0)                 \
  LANES(3, 1, 32, 0)                 \
  MORE(4, 1, 24, 0)                  \
  MORE(5, 2, 28, 0)                  \
  MORE(6, 2, 20, 0)                  \
  LANES(7, 2, 16, 0)                 \
  MORE(8, 4, 20, 0)                  \
  LANES(9, 2, 12, 0)                 \
  LANES(10, 2, 12, 0)                \
  MORE(11, 4, 16, 0)                 \
  MORE(12, 4, 12, 0)                 \
  MORE(13, 4, 12, 0)

#define MMCI_STRIPS_HALF(STRIPS, MORE) \
  STRIPS(14, 1, 3, 15)                 \
  MORE(15, 1, 3, 4)                    \
  STRIPS(16, 1, 4, 15)                 \
  STRIPS(17, 2, 2, 4)                  \
  MORE(18, 2, 3, 12)                   \
  MORE(19, 2, 3, 3)                    \
  MORE(20, 2, 3, 15)                   \
  STRIPS(21, 2, 3, 3)                  \
  MORE(22, 2, 3, 12)                   \
  STRIPS(23, 2, 3, 3)                  \
  STRIPS(24, 2, 3, 15)                 \
  MORE(25, 2, 3, 3)                    \
  MORE(26, 2, 3, 8)                    \
  MORE(27, 2, 3, 2)                    \
  STRIPS(28, 1, 3, 12)                 \
  MORE(29, 2, 3, 2)                    \
  STRIPS(30, 2, 2, 8)                  \
  STRIPS(31, 2, 3, 2)                  \
  MORE(32, 2, 3, 15)                   \
  MORE(33, 3, 3, 2)                    \
  MORE(34, 3, 2, 8)                    \
  STRIPS(35, 3, 3, 2)                  \
  MORE(36, 2, 3, 8)                    \
  STRIPS(37, 3, 3, 2)                  \
  STRIPS(38, 3, 2, 8)                  \
  MORE(39, 3, 2, 2)                    \
  MORE(40, 1, 3, 8)                    \
  MORE(41, 3, 2, 2)                    \
  STRIPS(42, 3, 2, 8)                  \
  MORE(43, 3, 2, 2)                    \
  STRIPS(44, 1, 3, 8)                  \
  STRIPS(45, 3, 2, 2)                  \
  MORE(46, 3, 2, 8)                    \
  MORE(47, 3, 2, 2)                    \
  MORE(48, 1, 3, 8)                    \
  STRIPS(49, 2, 3, 1)                  \
  MORE(50, 2, 3, 4)                    \
  STRIPS(51, 2, 3, 1)                  \
  STRIPS(52, 2, 3, 8)                  \
  MORE(53, 2, 3, 1)                    \
  MORE(54, 2, 3, 4)                    \
  MORE(55, 2, 3, 1)                    \
  STRIPS(56, 2, 3, 8)                  \
  MORE(57, 2, 3, 1)                    \
  STRIPS(58, 2, 3, 4)                  \
  STRIPS(59, 2, 3, 1)                  \
  MORE(60, 2, 3, 8)                    \
  MORE(61, 2, 3, 1)                    \
  MORE(62, 2, 2, 4)                    \
  STRIPS(63, 2, 3, 1)                  \
  MORE(64, 2, 3, 8)

#define MMCI_STRIPS_F64(STRIPS, MORE) \
  MORE(19, 3, 4)                      \
  MORE(20, 3, 8)                      \
  STRIPS(21, 3, 4)                    \
  MORE(22, 3, 8)                      \
  MORE(23, 3, 4)                      \
  STRIPS(24, 3, 8)                    \
  MORE(25, 3, 4)                      \
  MORE(26, 3, 8)                      \
  MORE(27, 3, 4)                      \
  MORE(28, 3, 8)                      \
  MORE(29, 3, 4)                      \
  MORE(30, 3, 8)                      \
  STRIPS(31, 3, 4)                    \
  MORE(32, 3, 8)                      \
  MORE(33, 3, 2)                      \
  MORE(34, 3, 4)                      \
  MORE(35, 3, 2)                      \
  MORE(36, 3, 4)                      \
  MORE(37, 3, 2)                      \
  MORE(38, 3, 4)                      \
  MORE(39, 3, 2)                      \
  STRIPS(40, 3, 4)                    \
  MORE(41, 3, 2)                      \
  MORE(42, 3, 4)                      \
  MORE(43, 3, 2)                      \
  STRIPS(44, 3, 4)                    \
  MORE(45, 3, 2)                      \
  MORE(46, 3, 4)                      \
  MORE(47, 3, 2)                      \
  MORE(48, 3, 4)                      \
  MORE(49, 3, 1)                      \
  STRIPS(50, 3, 2)                    \
  MORE(51, 3, 1)                      \
  MORE(52, 3, 2)                      \
  MORE(53, 3, 1)                      \
  MORE(54, 3, 2)                      \
  MORE(55, 3, 1)                      \
  MORE(56, 3, 2)                      \
  MORE(57, 3, 1)                      \
  MORE(58, 3, 2)                      \
  MORE(59, 3, 1)                      \
  MORE(60, 3, 2)                      \
  MORE(61, 3, 1)                      \
  MORE(62, 3, 2)                      \
  STRIPS(63, 3, 1)                    \
  STRIPS(64, 3, 2)                    \
  MORE(66, 3, 2)                      \
  MORE(68, 3, 2)                      \
  STRIPS(70, 2, 2)                    \
  STRIPS(72, 2, 2)                    \
  MORE(74, 2, 2)                      \
  MORE(76, 2, 2)                      \
  MORE(78, 2, 2)                      \
  MORE(84, 3, 1)

#define MMCI_STRIPS_C128(STRIPS, MORE) \
  STRIPS(15, 3, 15)                    \
  STRIPS(16, 3, 15)                    \
  MORE(17, 3, 6)                       \
  MORE(18, 3, 6)                       \
  MORE(19, 3, 6)                       \
  MORE(20, 3, 6)                       \
  STRIPS(21, 3, 6)                     \
  MORE(22, 3, 6)                       \
  MORE(23, 3, 6)                       \
  STRIPS(24, 3, 6)                     \
  MORE(25, 3, 4)                       \
  MORE(26, 3, 4)                       \
  MORE(27, 3, 4)                       \
  MORE(28, 3, 4)                       \
  MORE(29, 3, 4)                       \
  MORE(30, 3, 4)                       \
  MORE(31, 3, 4)                       \
  MORE(32, 3, 4)                       \
  STRIPS(33, 3, 2)                     \
  MORE(34, 3, 2)                       \
  MORE(35, 3, 2)                       \
  MORE(36, 3, 2)                       \
  MORE(37, 3, 2)                       \
  MORE(38, 3, 2)                       \
  MORE(39, 3, 2)                       \
  STRIPS(40, 3, 2)                     \
  MORE(41, 3, 2)                       \
  STRIPS(42, 3, 2)                     \
  MORE(43, 3, 2)                       \
  MORE(44, 3, 2)

#endif
