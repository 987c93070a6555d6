/* cards_program.h: what several ranks with memories of their own do to multiply a chain: every
 * product, every copy from rank to rank, where all pieces lie, and what has to be done before what.
 *
 * A program is made from the chain's steps and the layouts of their results alone, without a
 * device, so that words and memory are known before anything runs. Copies of one operand arrive
 * piece by piece while products of the pieces that are there already run. */
#ifndef MMCI_RANKS_CARDS_PROGRAM_H
#define MMCI_RANKS_CARDS_PROGRAM_H

#include "plan/plan.h"
#include "ranks/layout.h"

/* A layout on ranks first to first + layout.ranks - 1. */
typedef struct mmci_site {
  mmci_layout layout;
  int32_t first;
} mmci_site;

/* What rank has of a rows x cols matrix there. */
static inline mmci_piece mmci_site_piece(const mmci_site *site, int64_t rows, int64_t cols,
                                         int32_t rank) {
  return mmci_layout_piece(&site->layout, rows, cols, rank - site->first);
}

/* How a step is computed: on the ranks of its result, each its own piece, or, of an inner product,
 * each a part of the sums, which are added up from rank to rank. */
typedef struct mmci_step_site {
  mmci_site result;
  bool inner;
} mmci_step_site;

/* A matrix of the caller: on the host, or in pieces on ranks as stored, before any op. A piece is
 * that of op(A), so a block of rows of op(A) may be a block of columns as stored. */
typedef struct mmci_given {
  bool on_host;
  mmci_site site;           /* where the pieces are or, of a factor on the host, are sent */
  const mmc_matrix *matrix; /* on the host; NULL means row-major without gaps */
  const mmc_matrix *pieces; /* one for every rank; those without a piece are not read */
} mmci_given;

enum { MMCI_ON_HOST = -1 };

/* A place in memory. */
typedef enum mmci_store { MMCI_IN_ROOM, MMCI_IN_FACTOR, MMCI_IN_RESULT } mmci_store;
typedef struct mmci_spot {
  mmci_store store;
  int32_t rank;   /* MMCI_ON_HOST, or whose memory it is */
  int32_t factor; /* of MMCI_IN_FACTOR */
  uint64_t offset_bytes;
} mmci_spot;

typedef enum mmci_deed_kind {
  MMCI_DO_PRODUCT,
  MMCI_DO_COPY, /* from another rank, or within one */
  MMCI_DO_UPLOAD,
  MMCI_DO_DOWNLOAD
} mmci_deed_kind;

/* What is done in order on one rank; deeds of different queues wait for one another where the
 * program says so. */
typedef enum mmci_lane {
  MMCI_LANE_PRODUCTS,
  MMCI_LANE_ARRIVALS,
  MMCI_LANE_UPLOADS,
  MMCI_LANE_DOWNLOADS,
  MMCI_LANES
} mmci_lane;

typedef struct mmci_deed {
  mmci_deed_kind kind;
  int32_t rank;
  mmci_lane lane;
  int32_t step;      /* the step that it belongs to; the step count for what follows the last */
  mmci_spot a, b, c; /* c is written; a copy has no b */
  mmci_gemm gemm;    /* the product, of a deed that is one */
  /* What any other deed moves: rows x cols elements, as they lie in lines. */
  int64_t rows, cols, to_ld;
  mmci_form form;
  bool to_trans;
  int64_t wait_first, wait_count; /* in the program's waits */
  int32_t event;                  /* recorded after it; -1 when nobody waits */
} mmci_deed;

typedef struct mmci_cards_program {
  const mmc_chain *chain;
  mmci_precision precision;
  int32_t ranks;
  mmci_deed *deeds;
  int64_t deed_count, deed_room;
  int32_t *waits; /* deeds to wait for */
  int64_t wait_count, wait_room;
  int32_t event_count;
  uint64_t *room_bytes; /* of every rank: bytes that it holds for pieces */
  mmci_u128 *words;     /* of every step, and of what follows: words that go from rank to rank */
  int32_t step_count;
} mmci_cards_program;

/* Makes the program of a plan that is a list of products. sites has the site of every step; factors
 * say where the n factors are, and out where the result goes. Pieces of more than parts_bytes that
 * come from the host or go there move in parts, and so do those that a rank waits for idly. ranks
 * is more than those of any site. Returns E_NOMEM, E_OVERFLOW (more bytes than there can be). */
mmc_status mmci_cards_program_create(const mmci_plan *plan, mmci_precision precision, int32_t ranks,
                                     uint64_t parts_bytes, const mmci_step_site *sites,
                                     const mmci_given *factors, const mmci_given *out,
                                     mmci_cards_program *program, mmci_error *error);
void mmci_cards_program_destroy(mmci_cards_program *program);

/* Returns the words of all steps. */
mmci_u128 mmci_cards_program_words(const mmci_cards_program *program);
/* Returns the most bytes that a rank holds. */
uint64_t mmci_cards_program_most_bytes(const mmci_cards_program *program);

#endif
