#include "run/structured_place.h"

#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "chain/copy.h"
#include "run/matrices.h"

enum { ALIGNED = 256 };

/* ---- creation -------------------------------------------------------------------------------- */

mmc_status mmci_place_create(const mmci_plan *plan, const mmci_device_ops *ops, mmci_device *device,
                             mmci_queue *queue, mmci_structured_place *out, mmci_error *error) {
  *out = (mmci_structured_place){
      .plan = plan, .ops = ops, .device = device, .queue = queue, .on_device = ops->async != NULL};
  if (!out->on_device) return MMC_OK;
  const size_t n = (size_t)plan->chain->n;
  out->products = (plan->step_count + 1) * MMCI_STEP_PRODUCTS;
  const size_t products = (size_t)out->products, bytes = products * sizeof *out->pivots;
  out->kept = mmci_alloc_zeroed(products, sizeof *out->kept);
  out->blames = mmci_alloc_zeroed(products, sizeof *out->blames);
  out->here = mmci_alloc_zeroed(n + 1, sizeof *out->here);
  out->brought = mmci_alloc_zeroed(n, sizeof *out->brought);
  out->same = mmci_alloc_zeroed(n, sizeof *out->same);
  out->told = mmci_alloc_zeroed(products, sizeof *out->told);
  if (out->kept == NULL || out->blames == NULL || out->here == NULL || out->brought == NULL ||
      out->same == NULL || out->told == NULL)
    return mmci_fail_nomem(error, products * sizeof *out->kept);
  void *pivots = NULL;
  mmc_status status = ops->alloc(device, bytes, &pivots, error);
  out->pivots = pivots;
  return status;
}

void mmci_place_destroy(mmci_structured_place *place) {
  for (int32_t k = 0; place->kept != NULL && k < place->products; k++)
    if (place->kept[k].kernel != NULL) place->ops->structured_release(place->kept[k].kernel);
  if (place->aside != NULL) place->ops->queue_close(place->aside);
  if (place->told_last != NULL) place->ops->async->event_destroy(place->told_last);
  if (place->pivots != NULL) place->ops->dealloc(place->device, place->pivots);
  if (place->room != NULL) place->ops->dealloc(place->device, place->room);
  free(place->kept);
  free(place->blames);
  free(place->here);
  free((void *)place->brought);
  free(place->same);
  free(place->told);
}

/* ---- matrices on the host -------------------------------------------------------------------- */

static uint64_t bytes_of(const mmci_structured_place *place, const mmc_matrix *x) {
  const uint64_t size = mmc_dtype_size(place->plan->chain->dtype);
  uint64_t bytes;
  if (__builtin_mul_overflow((uint64_t)x->rows, (uint64_t)x->cols, &bytes) ||
      __builtin_mul_overflow(bytes, size, &bytes) || bytes > UINT64_MAX / 512)
    return UINT64_MAX / 512;
  return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Returns the matrix that one on the host becomes in the room, without gaps. */
static mmc_matrix in_room(const mmci_structured_place *place, const mmc_matrix *x,
                          uint64_t offset) {
  mmc_matrix there = {.data = mmci_address(place->room, (int64_t)offset),
                      .rows = x->rows,
                      .cols = x->cols,
                      .layout = x->layout,
                      .location = MMC_DEVICE};
  there.ld = mmci_matrix_line_length(x) > 0 ? mmci_matrix_line_length(x) : 1;
  return there;
}

static mmci_transfer transfer_of(const mmci_structured_place *place, const mmc_matrix *to,
                                 const mmc_matrix *from) {
  const int64_t size = (int64_t)mmc_dtype_size(place->plan->chain->dtype);
  return (mmci_transfer){.to = to->data,
                         .from = from->data,
                         .to_pitch = mmci_matrix_ld(to) * size,
                         .from_pitch = mmci_matrix_ld(from) * size,
                         .lines = mmci_matrix_lines(from),
                         .line_bytes = mmci_matrix_line_length(from) * size};
}

/* Returns the first factor on the host that is the same matrix as factor i. */
static int32_t first_same(const mmc_matrix *factors, int32_t i) {
  for (int32_t j = 0; j < i; j++)
    if (mmci_matrix_same(&factors[j], &factors[i])) return j;
  return i;
}

/* Takes room for the factors and the result as far as they are on the host. */
static mmc_status take_room(mmci_structured_place *place, const mmc_matrix *factors,
                            const mmc_matrix *out, mmci_error *error) {
  const int32_t n = place->plan->chain->n;
  uint64_t bytes = 0;
  for (int32_t i = 0; i <= n; i++) {
    const mmc_matrix *x = i < n ? &factors[i] : out;
    if (x->location == MMC_HOST && (i == n || place->same[i] == i))
      bytes = mmci_bytes_add(bytes, bytes_of(place, x));
  }
  if (bytes <= place->room_bytes) return MMC_OK;
  if (place->room != NULL) {
    mmc_status status = place->ops->sync(place->queue, error);
    if (status != MMC_OK) return status;
    place->ops->dealloc(place->device, place->room);
  }
  place->room = NULL;
  place->room_bytes = 0;
  void *room = NULL;
  if (bytes > SIZE_MAX) return mmci_fail_nomem(error, bytes);
  mmc_status status = place->ops->alloc(place->device, (size_t)bytes, &room, error);
  if (status != MMC_OK) return status;
  place->room = room;
  place->room_bytes = bytes;
  return MMC_OK;
}

mmc_status mmci_place_begin(mmci_structured_place *place, const mmc_matrix *factors,
                            const mmc_matrix *out, mmci_error *error) {
  if (!place->on_device) return MMC_OK;
  for (int32_t i = 0; i < place->plan->chain->n; i++) {
    place->brought[i] = NULL;
    place->same[i] = first_same(factors, i);
  }
  return take_room(place, factors, out, error);
}

mmc_status mmci_place_bring(mmci_structured_place *place, const mmc_matrix *factors,
                            const mmc_matrix *out, int64_t number, const mmc_matrix **here,
                            mmci_error *error) {
  const mmc_chain *chain = place->plan->chain;
  const int32_t n = chain->n;
  uint64_t offset = 0;
  place->asked = 0;
  place->is_asked = false;
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < n && status == MMC_OK; i++) {
    const mmc_matrix x = mmci_matrix_of_batch(&factors[i], chain->dtype, number);
    const int32_t same = place->same[i];
    place->here[i] = x;
    if (x.location != MMC_HOST) continue;
    place->here[i] = place->here[same];
    if (same < i) continue;
    place->here[i] = in_room(place, &x, offset);
    offset += bytes_of(place, &x);
    if (place->brought[i] == x.data) continue;
    const mmci_transfer transfer = transfer_of(place, &place->here[i], &x);
    if (transfer.lines > 0 && transfer.line_bytes > 0)
      status = place->ops->async->upload(place->queue, &transfer, error);
    place->brought[i] = x.data;
  }
  place->to_host = out->location == MMC_HOST;
  place->here[n] = place->to_host ? in_room(place, out, offset)
                                  : mmci_matrix_of_batch(out, chain->dtype, number);
  *here = place->here;
  return status;
}

mmc_status mmci_place_settle(mmci_structured_place *place, const mmc_matrix *out, int64_t number,
                             int64_t *pivot, mmci_structured_blame *blame, mmci_error *error) {
  const mmci_device_async *async = place->ops->async;
  mmc_status status = MMC_OK;
  *pivot = 0;
  if (place->asked > 0) {
    const int64_t bytes = (int64_t)place->asked * (int64_t)sizeof *place->pivots;
    const mmci_transfer transfer = {.to = place->told,
                                    .from = place->pivots,
                                    .to_pitch = bytes,
                                    .from_pitch = bytes,
                                    .lines = 1,
                                    .line_bytes = bytes};
    status = async->event_wait(place->aside, place->told_last, error);
    if (status == MMC_OK) status = async->download(place->aside, &transfer, error);
    if (status == MMC_OK) status = place->ops->sync(place->aside, error);
  }
  for (int32_t p = 0; p < place->asked && status == MMC_OK && *pivot == 0; p++) {
    *pivot = place->told[p];
    *blame = place->blames[p];
  }
  if (status != MMC_OK || *pivot != 0 || !place->to_host) return status;
  const mmc_matrix result = mmci_matrix_of_batch(out, place->plan->chain->dtype, number);
  const mmci_transfer transfer = transfer_of(place, &result, &place->here[place->plan->chain->n]);
  if (transfer.lines > 0 && transfer.line_bytes > 0)
    status = async->download(place->queue, &transfer, error);
  return status == MMC_OK ? place->ops->sync(place->queue, error) : status;
}

/* ---- work ------------------------------------------------------------------------------------ */

mmc_status mmci_place_copy(const mmci_structured_place *place, int64_t rows, int64_t cols,
                           const void *from, const mmci_form *form, void *to, int64_t ld,
                           bool by_columns, mmci_error *error) {
  const mmc_dtype dtype = place->plan->chain->dtype;
  if (place->on_device)
    return place->ops->async->copy(place->queue, dtype, rows, cols, from, form, to, ld, by_columns,
                                   error);
  mmci_copy(dtype, rows, cols, from, form, to, ld, by_columns);
  return MMC_OK;
}

mmc_status mmci_place_zeros(const mmci_structured_place *place, void *data, int64_t lines,
                            int64_t length, int64_t ld, mmci_error *error) {
  const mmc_dtype dtype = place->plan->chain->dtype;
  const size_t size = mmc_dtype_size(dtype);
  if (lines == 0 || length == 0) return MMC_OK;
  if (place->on_device) {
    const mmci_resizing all = {
        .from = data, .to = data, .ld = 1, .to_lines = lines, .to_length = length, .to_ld = ld};
    return place->ops->async->resize(place->queue, dtype, &all, 1, error);
  }
  for (int64_t l = 0; l < lines; l++)
    memset((char *)data + (size_t)(l * ld) * size, 0, (size_t)length * size);
  return MMC_OK;
}

static bool is_same(const mmci_structured *x, const mmci_structured *y) {
  return x->kernel == y->kernel && x->dtype == y->dtype && x->rows == y->rows &&
         x->cols == y->cols && x->depth == y->depth && x->ldz == y->ldz && x->lds == y->lds &&
         x->right == y->right && x->inverts == y->inverts && x->divides == y->divides &&
         x->op == y->op && x->traits == y->traits && x->hermitian == y->hermitian &&
         x->band.below == y->band.below && x->band.above == y->band.above && x->ldb == y->ldb &&
         x->b_op == y->b_op && x->b_band.below == y->b_band.below &&
         x->b_band.above == y->b_band.above;
}

/* Opens what brings pivots to the host beside the work. */
static mmc_status open_aside(mmci_structured_place *place, mmci_error *error) {
  mmc_status status = MMC_OK;
  if (place->aside == NULL) status = place->ops->queue_open(place->device, &place->aside, error);
  if (status == MMC_OK && place->told_last == NULL)
    status = place->ops->async->event_create(place->device, &place->told_last, error);
  return status;
}

mmc_status mmci_place_compute(mmci_structured_place *place, int32_t number,
                              const mmci_structured *product, void *z, void *s, int64_t *pivot,
                              mmci_error *error) {
  if (!place->on_device) return place->ops->structured(place->device, product, z, s, pivot, error);
  mmci_structured_kept *kept = &place->kept[number];
  mmc_status status = MMC_OK;
  *pivot = 0;
  place->is_asked = mmci_structured_has_pivot(product);
  if (kept->kernel == NULL || !is_same(&kept->product, product)) {
    if (kept->kernel != NULL) place->ops->structured_release(kept->kernel);
    *kept = (mmci_structured_kept){.product = *product};
    status = place->ops->structured_prepare(place->device, product, &kept->kernel, error);
  }
  if (status != MMC_OK) return status;
  if (place->is_asked) status = open_aside(place, error);
  if (status != MMC_OK) return status;
  int32_t *told = place->is_asked ? &place->pivots[place->asked++] : NULL;
  return place->ops->structured_enqueue(place->queue, kept->kernel, z, s, product->b, told,
                                        place->is_asked ? place->told_last : NULL, error);
}

void mmci_place_blame(mmci_structured_place *place, int32_t first, int32_t last, bool definite) {
  if (!place->is_asked) return;
  place->blames[place->asked - 1] = (mmci_structured_blame){first, last, definite};
  place->is_asked = false;
}
