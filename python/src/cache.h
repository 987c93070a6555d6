/* cache.h: the plans of multi_dot by the shapes that they are for.
 *
 * Most programs multiply a few shapes over and over; some never see one twice. So a plan that takes
 * little to make waits among the last few: what is used again from there is kept among many, and
 * what is not makes room at once, while its memory is still near. Of shapes that left without being
 * used the hashes are remembered, so that such a shape is kept the second time (the queues of
 * S3-FIFO: Yang, Zhang, Qiu, Yue and Vigfusson, SOSP 2023). */
#ifndef MMCP_CACHE_H
#define MMCP_CACHE_H

#include "plan.h"

/* Returns the plan for a chain, made when it is not there, as a new reference; NULL with an
 * exception set on failure. */
mmcp_plan *mmcp_cache_find(const mmcp_problem *problem, const mmcp_options *options);

/* Returns the plan that was used last, or None, as a new reference. */
PyObject *mmcp_cache_last(void);

/* Forgets all plans. */
void mmcp_cache_clear(void);

#endif
