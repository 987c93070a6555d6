#include "base/interrupt.h"

#include <stddef.h>

#include "base/monotonic.h"

static const double ASK_EVERY_S = 0.05;

static _Thread_local mmci_interrupt *current;

mmci_interrupt *mmci_interrupt_begin(mmci_interrupt *of) {
  mmci_interrupt *before = current;
  current = of->ask != NULL ? of : NULL;
  of->done = 0;
  of->stopped = false;
  if (current != NULL) of->asked_s = mmci_now_s();
  return before;
}

void mmci_interrupt_end(mmci_interrupt *before) {
  current = before;
}

void mmci_interrupt_done(double share) {
  if (current != NULL) current->done = share;
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
