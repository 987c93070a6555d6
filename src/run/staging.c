#include "run/staging.h"

#include "base/address.h"
#include "base/alloc.h"
#include "run/matrices.h"
#include "run/stacks.h"

static size_t element_bytes(const mmci_actions *actions) {
  return mmc_dtype_size(actions->plan->chain->dtype);
}

/* Returns how many matrices have to be staged for a factor or result. */
static int64_t count_of(const mmci_actions *actions, const mmc_matrix *matrix) {
  return matrix->addresses == NULL && matrix->stride == 0 ? 1 : actions->batch;
}

/* Takes the next bytes of the room for count matrices. */
static uint64_t take_room(uint64_t *bytes, const mmc_matrix *matrix, int64_t count, size_t size) {
  uint64_t offset = *bytes;
  *bytes =
      mmci_bytes_add(offset, mmci_result_bytes(matrix->rows, matrix->cols, (size_t)count * size));
  return offset;
}

/* Gives everything on the host, and tables, an offset; returns how many bytes these take. */
static uint64_t arrange_room(mmci_staging *staging, const mmci_actions *actions,
                             const mmc_matrix *factors, const mmc_matrix *out) {
  size_t size = element_bytes(actions);
  uint64_t bytes = 0;
  staging->factors_on_host = 0;
  for (int32_t i = 0; i < actions->plan->chain->n; i++) {
    mmci_staged *x = &staging->factors[i];
    *x = (mmci_staged){.on_host = factors[i].location == MMC_HOST,
                       .has_table = factors[i].location != MMC_HOST &&
                                    factors[i].addresses != NULL && actions->batch > 1,
                       .same = i,
                       .matrix = factors[i],
                       .count = count_of(actions, &factors[i])};
    if (x->has_table) {
      x->offset_bytes = bytes;
      bytes = mmci_bytes_add(bytes, mmci_result_bytes(actions->batch, 1, sizeof(void *)));
    }
    if (!x->on_host) continue;
    staging->factors_on_host++;
    x->same = mmci_factor_first_same(actions->plan->chain, factors, i);
    x->offset_bytes = staging->factors[x->same].offset_bytes;
    x->shared = staging->factors[x->same].shared = x->same != i || staging->factors[x->same].shared;
    if (x->same == i) x->offset_bytes = take_room(&bytes, &factors[i], x->count, size);
  }
  staging->result = *out;
  staging->results = actions->batch;
  staging->result_on_host = out->location == MMC_HOST;
  staging->result_offset_bytes = bytes;
  if (staging->result_on_host) (void)take_room(&bytes, out, actions->batch, size);
  return bytes;
}

/* Returns the operand of a factor that is staged, or whose table is. */
static mmci_operand staged_operand(const mmci_staged *x, const mmc_chain *chain, int32_t i) {
  if (x->has_table) {
    mmci_operand gathered = mmci_operand_of(chain, i, &x->matrix, 0);
    gathered.data = x->device;
    return gathered;
  }
  int64_t length = mmci_matrix_line_length(&x->matrix);
  int64_t stride = x->count > 1 ? mmci_stack_stride(&x->matrix) : 0;
  return (mmci_operand){
      .data = x->device,
      .form = mmci_factor_form(chain, i, &x->matrix, length > 0 ? length : 1, stride)};
}

mmc_status mmci_staging_bind(mmci_staging *staging, const mmci_actions *actions,
                             const mmc_matrix *factors, const mmc_matrix *out,
                             mmci_operand *operands, mmci_target *target, mmci_error *error) {
  const mmc_chain *chain = actions->plan->chain;
  if (staging->factors == NULL) {
    staging->factors = mmci_alloc_zeroed((size_t)chain->n, sizeof *staging->factors);
    if (staging->factors == NULL)
      return mmci_fail_nomem(error, (size_t)chain->n * sizeof *staging->factors);
  }
  uint64_t bytes = arrange_room(staging, actions, factors, out);
  if (bytes > staging->room_bytes) {
    if (staging->room != NULL) actions->ops->dealloc(actions->device, staging->room);
    staging->room = NULL;
    staging->room_bytes = 0;
    void *room;
    mmc_status status = actions->ops->alloc(actions->device, (size_t)bytes, &room, error);
    if (status != MMC_OK) return status;
    staging->room = room;
    staging->room_bytes = bytes;
  }
  for (int32_t i = 0; i < chain->n; i++) {
    mmci_staged *x = &staging->factors[i];
    bool staged = x->on_host || x->has_table;
    if (staged) x->device = mmci_address(staging->room, (int64_t)x->offset_bytes);
    operands[i] = staged ? staged_operand(x, chain, i) : mmci_operand_of(chain, i, &factors[i], 0);
  }
  *target = mmci_target_of(chain, out, 0);
  if (!staging->result_on_host) return MMC_OK;
  int64_t length = mmci_matrix_line_length(out);
  target->data = staging->room + staging->result_offset_bytes;
  target->ld = length > 0 ? length : 1;
  target->stride = chain->batch > 1 ? mmci_stack_stride(out) : 0;
  target->addresses = NULL;
  return MMC_OK;
}

void mmci_staging_destroy(mmci_staging *staging, const mmci_actions *actions) {
  if (staging->room != NULL) actions->ops->dealloc(actions->device, staging->room);
  free(staging->factors);
}

/* ---- transfers ------------------------------------------------------------------------------- */

/* Uploads elements first to first + length of lines begin to end. */
static mmc_status upload_block(const mmci_staged *factor, const mmci_actions *actions,
                               mmci_queue *queue, int64_t begin, int64_t end, int64_t first,
                               int64_t length, mmci_error *error) {
  const mmc_matrix *matrix = &factor->matrix;
  int64_t size = (int64_t)element_bytes(actions);
  int64_t ld = mmci_matrix_ld(matrix), device_ld = mmci_matrix_line_length(matrix);
  mmci_transfer t = {
      .to = factor->device + (begin * device_ld + first) * size,
      .from = (const char *)matrix->data + (begin * ld + first) * size,
      .to_pitch = device_ld * size,
      .from_pitch = ld * size,
      .lines = end - begin,
      .line_bytes = length * size,
  };
  if (t.lines == 0 || t.line_bytes == 0) return MMC_OK;
  return actions->ops->async->upload(queue, &t, error);
}

mmc_status mmci_staging_upload(const mmci_staged *factor, const mmci_actions *actions,
                               mmci_queue *queue, bool trans, int64_t begin, int64_t end,
                               mmci_error *error) {
  const mmc_matrix *matrix = &factor->matrix;
  if (trans)
    return upload_block(factor, actions, queue, 0, mmci_matrix_lines(matrix), begin, end - begin,
                        error);
  return upload_block(factor, actions, queue, begin, end, 0, mmci_matrix_line_length(matrix),
                      error);
}

mmc_status mmci_staging_upload_all(const mmci_staged *factor, const mmci_actions *actions,
                                   mmci_queue *queue, mmci_error *error) {
  return mmci_stack_upload(actions->ops, queue, actions->plan->chain->dtype, &factor->matrix, 0,
                           factor->count, factor->device, error);
}

mmc_status mmci_staging_upload_tables(const mmci_staging *staging, const mmci_actions *actions,
                                      mmci_queue *queue, mmci_error *error) {
  mmc_status status = MMC_OK;
  for (int32_t i = 0; i < actions->plan->chain->n && status == MMC_OK; i++) {
    const mmci_staged *x = &staging->factors[i];
    if (!x->has_table) continue;
    int64_t bytes = actions->batch * (int64_t)sizeof(void *);
    mmci_transfer t = {.to = x->device,
                       .from = x->matrix.addresses,
                       .to_pitch = bytes,
                       .from_pitch = bytes,
                       .lines = 1,
                       .line_bytes = bytes};
    status = actions->ops->async->upload(queue, &t, error);
  }
  return status;
}

mmc_status mmci_staging_download_all(const mmci_staging *staging, const mmci_actions *actions,
                                     mmci_queue *queue, const mmc_matrix *out, mmci_error *error) {
  return mmci_stack_download(actions->ops, queue, actions->plan->chain->dtype, out, 0,
                             staging->results, staging->room + staging->result_offset_bytes, error);
}

mmc_status mmci_staging_download(const mmci_staging *staging, const mmci_actions *actions,
                                 mmci_queue *queue, const mmc_matrix *out, int64_t begin,
                                 int64_t end, mmci_error *error) {
  int64_t size = (int64_t)element_bytes(actions), length = mmci_matrix_line_length(out);
  int64_t ld = mmci_matrix_ld(out);
  mmci_transfer t = {
      .to = (char *)out->data + begin * ld * size,
      .from = staging->room + staging->result_offset_bytes + (uint64_t)(begin * length * size),
      .to_pitch = ld * size,
      .from_pitch = length * size,
      .lines = end - begin,
      .line_bytes = length * size,
  };
  if (t.lines == 0 || t.line_bytes == 0) return MMC_OK;
  return actions->ops->async->download(queue, &t, error);
}
