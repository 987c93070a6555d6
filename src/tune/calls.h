/* calls.h: what several products take as one call of a device, and the products of a batch.
 *
 * A call is timed like a product that is computed by one plain call. What it takes is kept as a
 * fact of the machine under the call's name. */
#ifndef MMCI_CALLS_H
#define MMCI_CALLS_H

#include "tune/tuner.h"

/* The name of a call's fact: the ops of its operands, its products, and the batch,
 *
 *     call NTN 10x30x5:0*1 10x5x60:3*2 @1
 *
 * an operand being below n, a result n more than the number of its product. Of a call whose name
 * would be longer, how many products and a hash (64 bits) of the rest. Of one product,
 * mmci_batch_name(). */
enum { MMCI_CALL_NAME_SIZE = 192 };
void mmci_call_name(const mmci_device_chain *call, char name[MMCI_CALL_NAME_SIZE]);
/* The key of MMCI_ASK_CALL. */
void mmci_call_key(const mmci_device_chain *call, char key[MMCI_TUNE_KEY_SIZE]);

/* Measures the calls, each of which is told to the journal; those that the device does not take are
 * passed over. With a budget, no more than half of what is left of it. Returns: what
 * mmci_tuner_ask() does. */
mmc_status mmci_tune_calls(mmci_tuner *tuner, const mmci_device_chain *const *calls, int count,
                           mmci_error *error);

/* Tells the tuner what mmci_tune_calls() will ask for. */
void mmci_calls_expect(mmci_tuner *tuner, const mmci_device_chain *const *calls, int count);

#endif
