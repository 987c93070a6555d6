#include "tune/calls.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "wisdom/wisdom_pricing.h"

/* ---- names --------------------------------------------------------------------------------- */

/* Text that may be longer than there is room for, and the hash of all of it. */
typedef struct writer {
  char *text;
  size_t size, used;
  uint64_t hash;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
  char piece[128];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  for (int i = 0; i < length; i++, w->used++) {
    w->hash = mmci_hash_byte(w->hash, (unsigned char)piece[i]);
    if (w->used < w->size) w->text[w->used] = piece[i];
  }
}

static void put_text(const mmci_device_chain *call, char *text, size_t size) {
  writer w = {.text = text, .size = size, .hash = MMCI_HASH_START};
  for (int32_t o = 0; o < call->n; o++)
    put(&w, "%c", "NTCH"[2 * call->forms[o].conj + call->forms[o].trans]);
  for (int32_t p = 0; p < call->count; p++) {
    const mmci_chain_step *x = &call->products[p];
    put(&w, " %" PRId64 "x%" PRId64 "x%" PRId64 ":%" PRId32 "*%" PRId32, x->m, x->k, x->n, x->left,
        x->right);
  }
  put(&w, " @%" PRId64, call->batch);
  if (w.used < size)
    text[w.used] = '\0';
  else
    snprintf(text, size, "%" PRId32 " products #%016" PRIx64 " @%" PRId64, call->count, w.hash,
             call->batch);
}

/* The call of one product. */
static mmci_gemm product_of(const mmci_device_chain *call) {
  const mmci_chain_step *p = call->products;
  return (mmci_gemm){.dtype = call->dtype,
                     .precision = call->precision,
                     .m = p->m,
                     .k = p->k,
                     .n = p->n,
                     .a = call->forms[p->left],
                     .b = call->forms[p->right],
                     .ldc = call->ldc,
                     .c_stride = call->c_stride,
                     .batch = call->batch};
}

enum { WORD = sizeof "call " - 1 };

void mmci_call_name(const mmci_device_chain *call, char name[MMCI_CALL_NAME_SIZE]) {
  if (call->count == 1) {
    mmci_gemm gemm = product_of(call);
    mmci_batch_name(&gemm, name);
    return;
  }
  memcpy(name, "call ", WORD);
  put_text(call, name + WORD, MMCI_CALL_NAME_SIZE - WORD);
}

void mmci_call_key(const mmci_device_chain *call, char key[MMCI_TUNE_KEY_SIZE]) {
  char text[MMCI_CALL_NAME_SIZE - WORD];
  put_text(call, text, sizeof text);
  snprintf(key, MMCI_TUNE_KEY_SIZE, "call %s %s %s", mmc_dtype_name(call->dtype),
           mmci_precision_name(call->precision), text);
}

/* ---- measured ------------------------------------------------------------------------------ */

void mmci_calls_expect(mmci_tuner *tuner, const mmci_device_chain *const *calls, int count) {
  mmci_recipe plain = mmci_recipe_whole(0);
  *mmci_tuner_expected(tuner, MMCI_STAGE_CALLS) = (mmci_work){0};
  for (int c = 0; c < count; c++) {
    if (calls[c]->count > 1) {
      mmci_tuner_expect_call(tuner, MMCI_STAGE_CALLS, calls[c]);
      continue;
    }
    mmci_gemm gemm = product_of(calls[c]);
    mmci_tuner_expect(tuner, MMCI_STAGE_CALLS, MMCI_ASK_TIME, &gemm, &plain);
  }
}

static mmc_status ask(mmci_tuner *tuner, const mmci_device_chain *call, mmci_measured *out,
                      mmci_error *error) {
  if (call->count > 1) return mmci_tuner_ask_call(tuner, call, out, error);
  mmci_gemm gemm = product_of(call);
  mmci_recipe plain = mmci_recipe_whole(0);
  return mmci_tuner_ask(tuner, MMCI_ASK_TIME, &gemm, &plain, out, error);
}

mmc_status mmci_tune_calls(mmci_tuner *tuner, const mmci_device_chain *const *calls, int count,
                           mmci_error *error) {
  const mmci_journal *journal = &mmci_tuner_options(tuner)->journal;
  const double spare_s = mmci_tuner_left_s(tuner) / 2;
  mmci_tuner_begin(tuner, MMCI_STAGE_CALLS, 0);
  mmci_calls_expect(tuner, calls, count);
  mmc_status status = MMC_OK;
  for (int c = 0; status == MMC_OK && c < count; c++) {
    if (isfinite(spare_s) && mmci_tuner_left_s(tuner) < spare_s) break;
    mmci_measured measured;
    status = ask(tuner, calls[c], &measured, error);
    if (status == MMC_OK && isfinite(measured.seconds.value) && journal->time != NULL)
      status = journal->time(journal->user, calls[c], &measured.seconds, error);
  }
  return status;
}
