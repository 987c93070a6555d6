/* interrupt.h: lets work on the host be stopped from within, by a callback of the caller's.
 *
 * What may be asked belongs to the thread that executes: so products and pieces of them can ask
 * without being told whom. */
#ifndef MMCI_INTERRUPT_H
#define MMCI_INTERRUPT_H

#include "mmchain.h"

typedef struct mmci_interrupt {
  mmc_progress_fn ask; /* NULL means that nothing can stop the work */
  void *user;
  double chunk_from, chunk_to; /* the shares of all work where the chains at work begin and end, */
  double from, to;             /* and where the product does, 0 to 1 */
  double done;                 /* share of all work that is done, 0 to 1 */
  double asked_s; /* when the caller was last asked, in seconds of the monotonic clock */
  bool stopped;
} mmci_interrupt;

/* Has this thread's work ask `of` until mmci_interrupt_end(), which takes what this returns. */
mmci_interrupt *mmci_interrupt_begin(mmci_interrupt *of);
void mmci_interrupt_end(mmci_interrupt *before);

/* Says whether this thread's work asks anybody. */
bool mmci_interrupt_asks(void);

/* Notes between which shares of all work the chains lie that begin now; these are all work at
 * first. */
void mmci_interrupt_chunk(double from, double to);
/* Notes between which shares of these the product lies that begins now. */
void mmci_interrupt_span(double from, double to);
/* Notes the share of that product that is done. */
void mmci_interrupt_done(double share);

/* Asks, at most some 20 times a second, and says whether the work must stop. */
bool mmci_interrupted(void);

#endif
