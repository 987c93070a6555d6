/* cache.h: the plans of multi_dot by the shapes that they are for.
 *
 * Most programs multiply a few shapes over and over; some never see one twice. So a little chain
 * has no plan the first time: mmc_multiply() takes less than a plan does. Another plan that takes
 * little to make waits among the last few: what is used again from there is kept among many, and
 * what is not makes room at once, while its memory is still near. Of shapes that had no plan, or
 * left without being used, the hashes are remembered, so that such a shape is kept the second time
 * (the queues of S3-FIFO: Yang, Zhang, Qiu, Yue and Vigfusson, SOSP 2023). */
#ifndef MMCP_CACHE_H
#define MMCP_CACHE_H

#include "plan.h"

/* Finds the plan for a chain, made when it is not there: *out becomes a new reference, or NULL
 * where mmc_multiply() is to be called instead. Returns -1 with an exception set on failure. */
int mmcp_cache_find(const mmcp_problem *problem, const mmcp_options *options, mmcp_plan **out);

/* Returns how many plans there are. */
size_t mmcp_cache_count(void);

/* Calls visit for every plan; it may not change which there are. */
void mmcp_cache_each(void (*visit)(mmcp_plan *plan, const void *user), const void *user);

/* Returns the plan that was used last, or None, as a new reference. */
PyObject *mmcp_cache_last(void);

/* Says that what was found last is used by its plan as_rows. */
void mmcp_cache_used_as_rows(void);

/* Forgets all plans. */
void mmcp_cache_clear(void);

#endif
