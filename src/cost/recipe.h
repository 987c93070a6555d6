/* recipe.h: how one product is computed: by one call, or cut into pieces.
 *
 * A product is a box of m x k x n multiplications. A recipe cuts it in two along m, n or k, each
 * part again, and so on; what is not cut any more is a piece, one call of the device. Pieces work
 * in place by pointer arithmetic: parts along m and n write their own part of C, and of two parts
 * along k the second adds to what the first wrote (Lvov, Xiong and Zolotov, US 9836434 B2, cut
 * along m and n).
 *
 * As text, which wisdom keeps and people read:
 *
 *     recipe = { option "/" } part
 *     option = "pad" number            lines of the operands made multiples of so many elements
 *            | "queues" number         pieces at work together at most
 *     part   = "whole" [ kernel ] | split
 *     split  = ("m" | "k" | "n") ":" sized "," sized
 *     sized  = number [ kernel | "(" split ")" ]
 *     kernel = "@" name                the device's variant that is called so, blanks as '-'
 *
 * "n:96,32" cuts n = 128; "queues2/n:64,64"; "whole@libxsmm"; "n:96@2-threads,32(m:2,2)". Numbers
 * have no leading zeros, pad and queues are at least 2 and come in this order: every recipe has one
 * text. A variant without a name is written by its number, "v3", and so are all where the text
 * would be too long with names. Texts of earlier versions are read as well: they have numbers, "v3"
 * in place of "whole@name" too, and "lanes" in place of "queues". */
#ifndef MMCI_RECIPE_H
#define MMCI_RECIPE_H

#include "chain/facts.h"

enum {
  MMCI_RECIPE_PIECES = 16,
  MMCI_RECIPE_NODES = 2 * MMCI_RECIPE_PIECES - 1,
  MMCI_RECIPE_TEXT_SIZE = 256, /* bytes of a text with its final NUL at most */
  MMCI_RECIPE_MOST = 9999      /* the greatest pad and variant */
};

typedef enum mmci_axis { MMCI_PIECE, MMCI_AXIS_M, MMCI_AXIS_K, MMCI_AXIS_N } mmci_axis;

typedef struct mmci_recipe_node {
  mmci_axis axis;   /* MMCI_PIECE when it is not cut */
  int variant;      /* variant of a piece */
  int64_t sizes[2]; /* sizes of the two parts along axis */
} mmci_recipe_node;

/* A split's first part follows it, and the second follows the whole of the first. */
typedef struct mmci_recipe {
  int pad;    /* lines are padded to a multiple of this; 0 means that they stay as they are */
  int queues; /* pieces at work together; 1 means one after the other */
  int count;
  mmci_recipe_node nodes[MMCI_RECIPE_NODES];
} mmci_recipe;

/* What the variants are called in texts of recipes for products of a dtype. */
typedef struct mmci_variants {
  mmci_variant_name_fn name; /* gives names as in mmci_facts; NULL means that variants have none */
  mmc_dtype dtype;
} mmci_variants;

/* Returns the recipe of one call, by the device's variant. */
mmci_recipe mmci_recipe_whole(int variant);
/* Writes it, without the nodes that it does not have. */
static inline void mmci_recipe_set_whole(mmci_recipe *out, int variant) {
  out->pad = 0;
  out->queues = out->count = 1;
  out->nodes[0] = (mmci_recipe_node){.variant = variant};
}
/* Says whether a recipe is one call of variant 0 on the operands as they lie. */
static inline bool mmci_recipe_is_plain(const mmci_recipe *recipe) {
  return recipe->pad == 0 && recipe->count == 1 && recipe->nodes[0].variant == 0;
}
/* Says whether two recipes are the same. */
bool mmci_recipe_equal(const mmci_recipe *a, const mmci_recipe *b);
/* Returns the number of calls. */
int mmci_recipe_count(const mmci_recipe *recipe);
/* Cuts along axis into parts of these sizes, computed as first and second say, whose pad and queues
 * are dropped. Returns false, with out as it was, when there are too many pieces or the text is too
 * long. */
bool mmci_recipe_split(mmci_axis axis, const int64_t sizes[2], const mmci_recipe *first,
                       const mmci_recipe *second, mmci_recipe *out);

/* Returns the recipe that cuts the transposed product, C' = B' A', in the same places. */
mmci_recipe mmci_recipe_transposed(const mmci_recipe *recipe);

/* Returns the size of the product along axis. */
int64_t mmci_gemm_size(const mmci_gemm *gemm, mmci_axis axis);
/* Returns gemm with another size along axis, and with its forms as they are. */
mmci_gemm mmci_gemm_resized(const mmci_gemm *gemm, mmci_axis axis, int64_t size);

/* Reads text, which may come from anywhere, as a recipe for an m x k by k x n product: parts are
 * positive and add up, at most MMCI_RECIPE_PIECES of them, no more queues than pieces. variants may
 * be NULL; then no name is known.
 * Returns: E_FORMAT, with the place and what was expected there. */
mmc_status mmci_recipe_parse(const char *text, int64_t m, int64_t k, int64_t n,
                             const mmci_variants *variants, mmci_recipe *out, mmci_error *error);
/* Writes the text; returns false, with "" there, when it does not fit. A recipe that was parsed
 * fits. variants may be NULL. */
bool mmci_recipe_format(const mmci_recipe *recipe, const mmci_variants *variants,
                        char text[MMCI_RECIPE_TEXT_SIZE]);
/* Writes the text as earlier versions spelled it, with "" when that does not fit. */
bool mmci_recipe_format_old(const mmci_recipe *recipe, char text[MMCI_RECIPE_TEXT_SIZE]);

/* One call; the offsets of its operands from those of the product are in elements. Pieces of one
 * queue run in the order of the list; those of different queues touch different parts of C. */
typedef struct mmci_recipe_piece {
  mmci_gemm gemm;
  int64_t a, b, c;
  int queue; /* 0 to queues-1 */
} mmci_recipe_piece;

/* Returns the product as its pieces see it: with pad, mmci_gemm_padded(), whose operands the run
 * copies before and back after. The parts that it is cut into do not contain the zeros. */
mmci_gemm mmci_recipe_padded(const mmci_recipe *recipe, const mmci_gemm *gemm);
/* Fills pieces with the calls that make the (padded) product, and returns how many. The recipe must
 * be one for the product's sizes. */
int mmci_recipe_pieces(const mmci_recipe *recipe, const mmci_gemm *gemm,
                       mmci_recipe_piece pieces[MMCI_RECIPE_PIECES]);

#endif
