#include "base/interrupt.h"

#include <stddef.h>

#include "base/monotonic.h"

static const double ASK_EVERY_S = 0.05;

static _Thread_local mmci_interrupt *current;

mmci_interrupt *mmci_interrupt_begin(mmci_interrupt *of) {
  mmci_interrupt *before = current;
  current = of->ask != NULL ? of : NULL;
  of->chunk_from = of->from = of->done = 0;
  of->chunk_to = of->to = 1;
  of->stopped = false;
  if (current != NULL) of->asked_s = mmci_now_s();
  return before;
}

void mmci_interrupt_end(mmci_interrupt *before) {
  current = before;
}

bool mmci_interrupt_asks(void) {
  return current != NULL;
}

void mmci_interrupt_chunk(double from, double to) {
  if (current == NULL) return;
  current->chunk_from = from;
  current->chunk_to = to;
}

void mmci_interrupt_span(double from, double to) {
  if (current == NULL) return;
  const double all = current->chunk_to - current->chunk_from;
  current->from = current->done = current->chunk_from + from * all;
  current->to = current->chunk_from + to * all;
}

void mmci_interrupt_done(double share) {
  if (current != NULL) current->done = current->from + share * (current->to - current->from);
}

bool mmci_interrupted(void) {
  mmci_interrupt *x = current;
  if (x == NULL || x->stopped) return x != NULL;
  double now = mmci_now_s();
  if (now - x->asked_s < ASK_EVERY_S) return false;
  /* The callback may execute another run. */
  x->stopped = x->ask(x->user, x->done) != 0;
  x->asked_s = mmci_now_s();
  return x->stopped;
}
