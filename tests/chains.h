/* chains.h: chains from the literature and what they are known to cost. */
#ifndef MMC_TEST_CHAINS_H
#define MMC_TEST_CHAINS_H

#include <stdint.h>

typedef struct known_chain {
  const char *name, *dims;
  uint64_t multiplications, left_to_right;
  const char *order; /* NULL: long */
} known_chain;

/* Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, chapter 15; Nishida, Ito and
 * Nakano 2011, figure 1; the shape of US patent 9,836,434; the six chains of the TEE-ACM2 poster
 * and its fusion table; the benchmark of PyTorch's multi_dot; str_matrix_chain_multiplication_100
 * of the einsum benchmark, whose published path costs 152,521,044. Costs that are not in those
 * sources were found by an exact table. */
static const known_chain known_chains[] = {
    {"clrs", "30x35x15x5x10x20x25", 15125, 40500, "((A1 (A2 A3)) ((A4 A5) A6))"},
    {"cormen-3", "10x30x5x60", 4500, 4500, "((A1 A2) A3)"},
    {"nishida-figure-1", "2x9x3x1x4x11x5", 154, 266, "((A1 (A2 A3)) ((A4 A5) A6))"},
    {"nishida-3", "5x1x5x1", 10, 50, "(A1 (A2 A3))"},
    {"patent", "256x3072x2048", 1610612736, 1610612736, "(A1 A2)"},
    {"fusion-table", "936x1008x552x368x1016x616x616", 1134099456, 2001871872, NULL},
    {"best-6", "8000x10000x12000x14000x16000x18000x20000", 9280000000000, 9280000000000, NULL},
    {"worst-6", "20000x18000x16000x14000x12000x10000x8000", 9280000000000, 17600000000000, NULL},
    {"random-6", "10000x20000x15000x9000x9000x22000x21000", 11208000000000, 11760000000000, NULL},
    {"best-12", "8000x9000x10000x11000x12000x13000x14000x15000x16000x17000x18000x19000x20000",
     19360000000000, 19360000000000, NULL},
    {"worst-12", "20000x19000x18000x17000x16000x15000x14000x13000x12000x11000x10000x9000x8000",
     19360000000000, 42240000000000, NULL},
    {"random-12", "20000x16000x17000x10000x16000x19000x9000x24000x16000x16000x12000x8000x10000",
     20784000000000, 46020000000000, NULL},
    {"t1", "725x257x151x49x725", 36787093, 59254975, NULL},
    {"t2", "81x1772x83x37x81", 10995253, 12404664, NULL},
    {"t3", "3x3022x78x1598x3", 1081782, 1095462, NULL},
    {"einsum-100",
     "371x222x511x205x502x134x416x89x24x244x247x462x427x128x174x224x23x220x415x129x453x503x96x"
     "43x60x221x219x81x447x46x484x102x141x162x270x393x153x378x57x505x462x401x226x119x160x478x2"
     "1x330x272x480x404x126x180x377x195x43x303x274x340x310x121x483x163x290x385x261x151x372x380"
     "x125x174x206x283x507x339x396x465x199x403x107x94x427x429x305x233x357x407x32x110x30x490x30"
     "3x281x54x319x160x405x434x189x203x424",
     146690388, 2509217690, NULL},
};

#endif
