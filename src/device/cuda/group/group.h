/* group.h: chains of small factors in one launch: what group.c and its kernels share.
 *
 * general takes any tree or DAG of up to MMCI_GENERAL_PRODUCTS products: a group of threads takes
 *          one chain of the batch, with operands and intermediates in shared memory (general.c,
 *          general.cu)
 * packs  takes small chains of a batch, several to a warp, whole products in registers of few lanes
 *        (packs.c, packs.cu)
 * tensor takes what general does in f16 and bf16, by tensor cores (tensor.c, tensor.cu)
 * tiles  takes f32 from left to right, any shapes in squares of a few sizes, by large tiles in
 *        registers (tiles.c, tiles.cu)
 * rings  takes f32 without gaps, any tree of matrices to 64 x 64 in large batches, on Hopper
 *        (rings.c, rings.cu)
 * vectors takes batches of chains of any dtype whose running product is a vector, by matrices of
 *        any size without gaps, on Hopper (vector_chains.h, vector_chains.c, vector_chains.cu)
 *
 * single takes chains of a few factors, f32 or f64, no more than multiprocessors (single.c,
 *        single.cu)
 *
 * squares takes f32 squares of a few sizes from left to right, for large batches (squares.cu)
 *
 * sides  takes squares of sides that kernels were compiled for, without gaps, from left to right,
 *        in batches, on Hopper: f32, f64 and c64 by sides.cu, f64 and c128 by strips_double.cu, f16
 *        and bf16 by strips.cu, and small ones of any dtype by lanes.cu (sides.h, sides.c)
 *
 * panels takes squares in f32 of any side from 65 to 208, and odd ones from 49 on, without gaps,
 *        from left to right, in batches, on Hopper (sides.h, panels.c, panels.cu)
 *
 * spines takes one chain of any length, or few, their products on the whole device (spines.c,
 *        spines.cu)
 */
#ifndef MMCI_CUDA_GROUP_GROUP_H
#define MMCI_CUDA_GROUP_GROUP_H

#ifdef MMCI_EMULATE_CUDA
#include "cuda_emulation_c.h"
#else
#include <cuda_runtime_api.h>
#endif

#include <stdalign.h>

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  MMCI_GROUP_SIDE = 128,       /* no dimension exceeds this */
  MMCI_GROUP_ALONE_SIDE = 256, /* ... but those of a reproducible product on its own, this */
  MMCI_GENERAL_PRODUCTS = 16,
  MMCI_GENERAL_LOADS = 32,
  MMCI_PACKS_PRODUCTS = 20,
  MMCI_TENSOR_PRODUCTS = 20,
  MMCI_TENSOR_THREADS = 512,       /* threads of a block at most */
  MMCI_TENSOR_SMALL_THREADS = 256, /* threads of a block at most when chains are small */
  MMCI_SQUARES_FACTORS = 8,
  MMCI_SIDES_FACTORS = 16,
  MMCI_TILES_FACTORS = 8,
  MMCI_RINGS_FACTORS = 8,
  MMCI_SINGLE_WARPS = 8, /* warps of a block, and operands of a group at most */
  MMCI_SINGLE_PRODUCTS = 7,
  /* Bulk copies take a tenth longer where their places in shared memory lie otherwise behind a
   * multiple of so many bytes than what they copy. A slot for matrices at whole 16-byte words has
   * so many more. */
  MMCI_LINE_BYTES = 128,
  MMCI_PLACE_BYTES = MMCI_LINE_BYTES - 16
};

/* What the device can do for chains. */
typedef struct mmci_group_limits {
  int multiprocessors;
  size_t shared_bytes; /* the most that a block may have */
  bool overlap;        /* a launch may begin while the one before it ends */
  bool tensor;         /* has tensor cores for f16 and bf16 with sums in f32 */
  bool hopper;         /* has warpgroups' products and tensor copies (sm_90a) */
} mmci_group_limits;

/* Returns the limits of a device of so many multiprocessors, whose blocks may have so many bytes of
 * shared memory, and whose compute capability is major.x. */
mmci_group_limits mmci_group_limits_of(int multiprocessors, size_t shared_bytes, int major);

/* ---- steps ----------------------------------------------------------------------------------- */

/* A part of an operand that is copied to the arena, the chain's shared memory. As it is stored, the
 * operand is lines x length; in the arena it has rows of pitch elements and zeros up to multiples
 * of four both ways. */
typedef struct mmci_general_load {
  const void *data;
  int64_t ld, stride;
  uint32_t magic; /* the magic number that divides by across */
  /* The operand's place, in elements, and which of its lines * across elements, padded, a group
   * loads. */
  uint32_t at, begin, end;
  uint16_t lines, length, across, pitch;
  uint8_t operand, trans, conj, gathered;
  uint8_t wide; /* whether 16 bytes of the arena are written at once */
} mmci_general_load;

/* A product in the arena. It is computed in tiles of 1 x 4 or 4 x 4 elements, whose sums over k are
 * shared by 2^split lanes. */
typedef struct mmci_general_product {
  uint32_t magic;    /* the magic number that divides by tiles_across */
  uint32_t a, b, to; /* places of the operands and the result, in elements */
  uint16_t a_pitch, b_pitch, to_pitch, m, n, k4, tiles_across, work; /* k4: k / 4, padded */
  uint8_t tall, split;
  uint8_t loads; /* loads issued by now, with the next product's or, when late, its own */
  uint8_t pad;
} mmci_general_product;

typedef struct mmci_general {
  int64_t batch, ldc, c_stride;
  void *c;
  bool c_gathered, late; /* late: operands are loaded when they are needed, not a product before */
  bool in_order;         /* sums are reproducible: no lanes share one */
  uint8_t count, loads_first, loads; /* products; loads before the first; all loads */
  uint8_t groups;                    /* a block works on so many chains at a time */
  uint16_t threads;                  /* threads of a group, a multiple of 32 */
  uint32_t arena_bytes;              /* bytes of a group's arena */
  mmci_general_product products[MMCI_GENERAL_PRODUCTS];
  mmci_general_load load[MMCI_GENERAL_LOADS];
} mmci_general;

/* Lays the chain out; returns false when it does not fit. */
bool mmci_general_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_general *out);
/* Makes the kernel ready for what steps asks. */
mmc_status mmci_general_prepare(mmc_dtype dtype, const mmci_general *steps, mmci_error *error);
mmc_status mmci_general_launch(cudaStream_t stream, const mmci_group_limits *limits,
                               mmc_dtype dtype, const mmci_general *steps, mmci_error *error);

/* ---- packs ----------------------------------------------------------------------------------- */

/* An operand that is copied to a chain's part of the arena; as it is stored, it is lines x length.
 */
typedef struct mmci_packs_load {
  const void *data;
  int64_t ld, stride;
  uint32_t line_magic, matrix_magic; /* magic numbers that divide by length and by lines * length */
  uint32_t at;                       /* the operand's place in a chain's part, in elements */
  uint16_t lines, length, pitch;
  uint8_t operand, trans, conj, gathered;
  uint8_t tight; /* the matrices of the batch follow each other without gaps */
} mmci_packs_load;

/* A product of a chain by all lanes that share the chain, in tiles of height x width, so many down
 * and across. */
typedef struct mmci_packs_product {
  uint32_t magic;    /* the magic number that divides by across */
  uint32_t a, b, to; /* places of the operands and the result, in elements */
  uint16_t m, n, k, a_pitch, b_pitch, to_pitch, across, down;
  uint8_t height, width;
  uint8_t loads;  /* loads issued by now, with the next product's */
  uint8_t spread; /* a tile has every down-th row and every across-th column, not neighbours */
} mmci_packs_product;

typedef struct mmci_packs {
  int64_t batch, ldc, c_stride;
  void *c;
  uint32_t c_magic, c_line_magic; /* divide by m * n and n of the result */
  uint32_t chain_elements;        /* elements of a chain's part of the arena */
  uint16_t m, n;                  /* rows and columns of the result */
  bool c_gathered, c_tight;
  bool in_order; /* the result is a reproducible one */
  uint8_t count, loads_first, loads;
  uint8_t lanes; /* lanes that share a chain: 1 to 32, a power of two */
  uint8_t warps; /* warps of a block */
  mmci_packs_product products[MMCI_PACKS_PRODUCTS];
  mmci_packs_load load[MMCI_PACKS_PRODUCTS + 1];
} mmci_packs;

/* Lays the chain out; returns false when the kernel does not take it. */
bool mmci_packs_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_packs *out);
mmc_status mmci_packs_prepare(mmc_dtype dtype, const mmci_packs *packs, mmci_error *error);
mmc_status mmci_packs_launch(cudaStream_t stream, const mmci_group_limits *limits, mmc_dtype dtype,
                             const mmci_packs *packs, mmci_error *error);

/* ---- tensor ---------------------------------------------------------------------------------- */

/* An operand that is copied to the arena as it is stored, lines x length, so many elements at once;
 * single ones are written eight at once. Lines have zeros up to a multiple of 16, and there are
 * lines of zeros up to one where lines are terms of a product. */
typedef struct mmci_tensor_load {
  const void *data;
  int64_t ld, stride;
  uint32_t magic;     /* the magic number that divides by across */
  uint32_t at, words; /* the operand's place in elements, and how many words are written */
  uint16_t lines, length, across, pitch; /* across: words of a line, padded */
  uint8_t operand, gathered, word;       /* word: 8, 4, 2 or 1 elements */
  bool has_terms;                        /* its lines are terms */
} mmci_tensor_load;

/* Where an operand of a product lies: so many elements from one 16 rows (of A) or columns (of B) to
 * the next 16, and from 16 terms to the next. */
typedef struct mmci_tensor_side {
  uint32_t at, step, k_step;
  uint16_t pitch;
  uint16_t trans;
} mmci_tensor_side;

/* A product in the arena by strips of 16 rows and 16 * width columns, a warp each. */
typedef struct mmci_tensor_product {
  mmci_tensor_side a, b;
  uint32_t to, magic; /* magic is the number that divides by strips */
  uint16_t to_pitch, m, n;
  uint8_t k16, n16, strips, width; /* strips counts those of a row */
  uint16_t units;                  /* strips in all */
  uint8_t loads;                   /* loads issued by now, with the next product's */
} mmci_tensor_product;

typedef struct mmci_tensor {
  int64_t batch, ldc, c_stride;
  void *c;
  uint32_t c_at, c_magic, c_words; /* where the result lies; c_magic divides by c_across */
  uint16_t c_pitch, c_across;      /* words of a line */
  bool c_gathered, late;           /* late: operands are loaded when they are needed */
  bool in_order;                   /* the result is a reproducible one */
  bool small;                      /* no strip is wider than two tiles */
  uint8_t c_word;                  /* elements that are written at once: 8, 4, 2 or 1 */
  uint8_t count, loads_first, loads;
  uint8_t groups;   /* a block works on so many chains at a time */
  uint16_t threads; /* threads of a group, a multiple of 32 */
  uint32_t arena_bytes;
  mmci_tensor_product products[MMCI_TENSOR_PRODUCTS];
  mmci_tensor_load load[MMCI_TENSOR_PRODUCTS + 1];
} mmci_tensor;

/* Lays the chain out; returns false when the kernel does not take it. */
bool mmci_tensor_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_tensor *out);
/* Lets words be so small that the addresses of operands and result are whole words. */
void mmci_tensor_bind(mmci_tensor *tensor, const void *const *operands, void *c);
mmc_status mmci_tensor_prepare(mmc_dtype dtype, const mmci_tensor *tensor, mmci_error *error);
mmc_status mmci_tensor_launch(cudaStream_t stream, const mmci_group_limits *limits, mmc_dtype dtype,
                              const mmci_tensor *tensor, mmci_error *error);

/* ---- tiles ----------------------------------------------------------------------------------- */

/* A factor, rows x cols, of which word elements are copied at once: 4, 2 or 1. */
typedef struct mmci_tiles_factor {
  const void *data;
  int64_t ld, stride;
  uint32_t magic, words; /* magic divides by across; both are of what is copied, padded */
  uint16_t rows, cols, across;
  uint8_t word, gathered;
} mmci_tiles_factor;

typedef struct mmci_tiles {
  mmci_tiles_factor factors[MMCI_TILES_FACTORS];
  void *c;
  int64_t ldc, c_stride, batch;
  uint32_t c_magic, c_words;
  uint16_t c_across;
  uint8_t c_word; /* elements that are written at once: 4 or 1 */
  bool c_gathered;
  bool in_order;   /* the result is a reproducible one */
  uint8_t n, size; /* size: one of those that tiles.cu has, by number */
} mmci_tiles;

/* Says how large the squares of size number i are, and how many chains a multiprocessor works on
 * together; false where there is no such size. */
typedef struct mmci_tiles_size {
  int side, threads; /* the squares' side, and the threads of a chain */
  int together;
} mmci_tiles_size;
bool mmci_tiles_size_of(int i, mmci_tiles_size *out);

/* Lays the chain out; returns false when the kernel does not take it. */
bool mmci_tiles_plan(const mmci_group *chain, mmci_tiles *out);
/* Lets words be so small that the addresses of operands and result are whole words. */
void mmci_tiles_bind(mmci_tiles *tiles, const void *const *operands, void *c);
mmc_status mmci_tiles_prepare(const mmci_tiles *tiles, mmci_error *error);
mmc_status mmci_tiles_launch(cudaStream_t stream, const mmci_group_limits *limits,
                             const mmci_tiles *tiles, mmci_error *error);

/* ---- rings ----------------------------------------------------------------------------------- */

/* A factor, which lies in its slot as it is stored; by_rows: its rows are copied one by one. */
typedef struct mmci_rings_load {
  const void *data;
  int64_t stride;
  uint32_t elements;
  uint16_t rows, cols, pitch;
  uint8_t operand;
  bool by_rows;
} mmci_rings_load;

/* A product of operands that are loaded, by their loads' numbers, or lie in places, where these are
 * -1. Places are in elements. */
typedef struct mmci_rings_product {
  uint32_t a, b, to;
  uint16_t m, k, n, a_pitch, b_pitch, to_pitch;
  int8_t a_load, b_load;
  bool is_small; /* by small tiles */
} mmci_rings_product;

typedef struct mmci_rings {
  mmci_rings_load loads[MMCI_RINGS_FACTORS]; /* in the order in which products take them */
  mmci_rings_product products[MMCI_RINGS_FACTORS - 1];
  void *c;
  int64_t ldc, c_stride, batch;
  uint32_t slot, places;         /* elements of the first slot, and before the places */
  uint32_t warp_bytes;           /* bytes of a warp's memory */
  uint8_t n, count, size, warps; /* size: one of those that rings.cu has, by number */
} mmci_rings;

typedef struct mmci_rings_tile {
  int height, width; /* a lane's rows and columns */
  int down;          /* lanes of a warp below each other */
} mmci_rings_tile;
typedef struct mmci_rings_size {
  mmci_rings_tile tile; /* of products that have no small ones */
  int word;             /* elements that are read at once, and that all lines are multiples of */
  int warps, tiles;     /* warps of a multiprocessor, and tiles of a product, at most */
} mmci_rings_size;
/* Says what size number i is; false where there is no such size. */
bool mmci_rings_size_of(int i, mmci_rings_size *out);
/* Returns the tile of the size, or the small one. */
const mmci_rings_tile *mmci_rings_tile_of(const mmci_rings_size *size, bool is_small);
/* Returns how many tiles cover m x n. */
int64_t mmci_rings_tiles(const mmci_rings_tile *tile, int64_t m, int64_t n);
/* Returns the reads of a lane for a term of one of the product's tiles, each as often as its words
 * are in the same banks as others. */
double mmci_rings_reads(const mmci_rings_size *size, const mmci_rings_product *p);

/* Lays the chain out by tiles of a size, by its number, and words of at most so many elements;
 * returns false when the kernel does not take it so, or the same tiles take larger words. */
bool mmci_rings_plan(const mmci_group_limits *limits, const mmci_group *chain, int word, int number,
                     mmci_rings *out);
/* Sets the addresses of operands and result; returns false when they are no whole words. */
bool mmci_rings_bind(mmci_rings *rings, const void *const *operands, void *c);
mmc_status mmci_rings_prepare(const mmci_rings *rings, mmci_error *error);
mmc_status mmci_rings_launch(cudaStream_t stream, const mmci_group_limits *limits,
                             const mmci_rings *rings, mmci_error *error);

/* ---- alone ----------------------------------------------------------------------------------- */

/* What a warp loads: elements begin to end of an operand, in rows of across elements, into rows of
 * pitch elements in the arena, with zeros beyond rows x cols. */
typedef struct mmci_single_load {
  const void *data;
  int32_t ld;
  uint32_t magic; /* the magic number that divides by across */
  uint16_t at, begin, end;
  uint8_t rows, cols, across, pitch, operand, wide; /* wide: 16 bytes at once */
} mmci_single_load;

/* A product in the arena, by warps of which threads / 32 work side by side. It is computed in tiles
 * of 1 x 4 elements, whose sums over k are shared by 2^split lanes. */
typedef struct mmci_single_product {
  alignas(16) uint32_t magic; /* the magic number that divides by tiles_across */
  uint16_t a, b, to, work, a_pitch, b_pitch, to_pitch, m, n, tiles_across, first, threads;
  uint8_t k4, split;
} mmci_single_product;

typedef struct mmci_single {
  void *c;
  int64_t ldc;
  int32_t count, rounds, batch;
  uint32_t arena_bytes;
  mmci_single_load loads[MMCI_SINGLE_WARPS];
  uint8_t turns[MMCI_SINGLE_PRODUCTS][MMCI_SINGLE_WARPS]; /* the product of a round and warp */
  mmci_single_product products[MMCI_SINGLE_PRODUCTS];
  /* From a chain's operands and result to the next's, in elements; the first chain reads none. */
  int64_t strides[MMCI_SINGLE_WARPS], c_stride;
} mmci_single;

/* Lays the chain out; returns false when the kernel does not take it. */
bool mmci_single_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_single *out);
mmc_status mmci_single_prepare(mmc_dtype dtype, const mmci_single *alone, mmci_error *error);
mmc_status mmci_single_launch(cudaStream_t stream, const mmci_group_limits *limits, mmc_dtype dtype,
                              const mmci_single *alone, mmci_error *error);

/* ---- equal ----------------------------------------------------------------------------------- */

/* R = A1 ... An, all side x side and without gaps; strides are in elements. */
typedef struct mmci_squares {
  const void *data[MMCI_SIDES_FACTORS];
  int64_t stride[MMCI_SIDES_FACTORS];
  void *c;
  int64_t c_stride, batch;
  int n;
  bool in_order; /* the result is a reproducible one */
} mmci_squares;

/* Returns the side of a batch of chains whose matrices are all squares of one side, none of them
 * transposed or conjugated, without gaps, and multiplied from left to right; or 0. */
int64_t mmci_squares_side(const mmci_group *chain);
/* Fills in all but the addresses. */
void mmci_squares_fill(const mmci_group *chain, mmci_squares *out);
bool mmci_squares_has(int64_t side);
mmc_status mmci_squares_prepare(int64_t side, mmci_error *error);
mmc_status mmci_squares_launch(cudaStream_t stream, const mmci_group_limits *limits, int64_t side,
                               const mmci_squares *equal, mmci_error *error);

/* ---- sides ----------------------------------------------------------------------------------- */

typedef struct mmci_sides {
  mmci_squares squares;
  mmc_dtype dtype;
  uint8_t size; /* one of the dtype's in sides.h, by number */
} mmci_sides;

enum { MMCI_LANES_SLOTS = 3 /* for factors that a warp of lanes.cu has on their way */ };

/* What takes a size: lanes.cu, whose units are warps, sides.cu, or strips.cu and strips_double.cu,
 * whose height is the number of strips that a warp has. */
typedef enum mmci_sides_way { MMCI_BY_LANE, MMCI_BY_SIDE, MMCI_BY_STRIP } mmci_sides_way;

/* Says what sides.h has about size number i of a dtype; false where there is no such size. */
typedef struct mmci_sides_size {
  int side, height, width, piece, lanes, slots, units;
  int chains; /* of a unit */
  mmci_sides_way way;
  int number; /* among those of the same way */
} mmci_sides_size;
bool mmci_sides_size_of(mmc_dtype dtype, int i, mmci_sides_size *out);

/* Lays the chain out; returns false when the kernel does not take it. */
bool mmci_sides_plan(const mmci_group_limits *limits, const mmci_group *chain, mmci_sides *out);
/* Sets the addresses of operands and result; returns false when they are no whole words. */
bool mmci_sides_bind(mmci_sides *sides, const void *const *operands, void *c);
mmc_status mmci_sides_prepare(const mmci_sides *sides, mmci_error *error);
mmc_status mmci_sides_launch(cudaStream_t stream, const mmci_group_limits *limits,
                             const mmci_sides *sides, mmci_error *error);
/* These prepare and launch the kernels by lane and by strip. */
mmc_status mmci_lanes_prepare(mmc_dtype dtype, int number, mmci_error *error);
mmc_status mmci_lanes_launch(cudaStream_t stream, const mmci_group_limits *limits, mmc_dtype dtype,
                             int number, const mmci_squares *squares, mmci_error *error);
mmc_status mmci_strips_prepare(mmc_dtype dtype, int number, mmci_error *error);
mmc_status mmci_strips_launch(cudaStream_t stream, const mmci_group_limits *limits, mmc_dtype dtype,
                              int number, const mmci_squares *squares, mmci_error *error);
mmc_status mmci_strips_double_prepare(mmc_dtype dtype, int number, mmci_error *error);
mmc_status mmci_strips_double_launch(cudaStream_t stream, const mmci_group_limits *limits,
                                     mmc_dtype dtype, int number, const mmci_squares *squares,
                                     mmci_error *error);

/* ---- panels ---------------------------------------------------------------------------------- */

typedef struct mmci_panels {
  mmci_squares squares;
  int32_t side;
  uint8_t size; /* one of the tiles in sides.h, by number */
} mmci_panels;

/* Says what sides.h has about tile number i; false where there is no such tile. */
typedef struct mmci_panels_size {
  int tile, down, units;
} mmci_panels_size;
bool mmci_panels_size_of(int i, mmci_panels_size *out);

/* Lays the chain out by tile number i; returns false when the kernel does not take it so. */
bool mmci_panels_plan(const mmci_group_limits *limits, const mmci_group *chain, int i,
                      mmci_panels *out);
/* Sets the addresses of operands and result. */
void mmci_panels_bind(mmci_panels *panels, const void *const *operands, void *c);
mmc_status mmci_panels_prepare(const mmci_group_limits *limits, const mmci_panels *panels,
                               mmci_error *error);
mmc_status mmci_panels_launch(cudaStream_t stream, const mmci_group_limits *limits,
                              const mmci_panels *panels, mmci_error *error);

/* ---- spines -----------------------------------------------------------------------------------
 */

/* A spine is a run of products from left to right, x0 x1 ... xn, each of which reads the result of
 * the one before as its left operand and is its only reader; xi is an operand or the result of
 * another spine. The rows of a spine are independent of each other, so it may be cut into pieces of
 * rows; a piece waits until the spines that it reads are whole. Any tree can be cut into spines.
 * Those with few levels run well: a single spine from left to right; or, for n equal factors, runs
 * that are combined in runs and so on, one for every multiprocessor first, then a quarter as many,
 * and fewer still: 132, 33 and 5 for 1000 factors on 132 multiprocessors. Balanced binary trees
 * take a quarter more time and above, because they have eight or ten levels. */
typedef struct mmci_spines mmci_spines;

/* Say whether the chain can be cut into spines, and whether it is large enough to gain when there
 * is one of it. */
bool mmci_spines_can(const mmci_group *chain);
bool mmci_spines_suit(const mmci_group_limits *limits, const mmci_group *chain);

mmc_status mmci_spines_create(const mmci_group_limits *limits, const mmci_group *chain,
                              mmci_spines **out, mmci_error *error);
void mmci_spines_destroy(mmci_spines *spines);
/* Launches the kernel. Launches of the same spines follow each other, because their intermediates
 * lie in one place. */
mmc_status mmci_spines_launch(cudaStream_t stream, const mmci_group_limits *limits,
                              const mmci_spines *spines, const void *const *operands, void *c,
                              mmci_error *error);

#ifdef __cplusplus
}
#endif

#endif
