/* crowd.h: how many other threads of this process run.
 *
 * Threads of OpenBLAS look for their next product for 0.1 s before they sleep, and so do those of
 * other libraries: a processor on which nobody works may be taken. A helper that is woken meanwhile
 * shares a processor with them or with the thread that waits for it. The system tells a thread's
 * processor time to the nanosecond, so that some microseconds show whether it runs. */
#ifndef MMCI_BLAS_CROWD_H
#define MMCI_BLAS_CROWD_H

#include <stdbool.h>

/* Returns how many threads of the process run, but for the caller and those that were left out; 0
 * where the system does not tell. It takes about a microsecond while they sleep and some five while
 * one of them runs. Any thread may call it. */
int mmci_crowd_running(void);

/* Says whether so many threads, the caller among them, and those that run have more than the
 * processors of this process. */
bool mmci_crowd_is_there(int threads);

/* Leaves the calling thread out of what is counted, until it calls the other. */
void mmci_crowd_leave_out(void);
void mmci_crowd_count_again(void);

/* Must be called in a forked child, which has none of the other threads. */
void mmci_crowd_forget(void);

#endif
