#include "run/stacks.h"

#include "run/matrices.h"

int64_t mmci_stack_stride(const mmc_matrix *matrix) {
  return mmci_elements(matrix->rows, matrix->cols);
}

static mmc_status move_matrices(const mmci_device_ops *ops, mmci_queue *queue, bool up, char *host,
                                int64_t host_pitch, char *device, int64_t lines, int64_t line_bytes,
                                mmci_error *error) {
  mmci_transfer t = {.to = up ? device : host,
                     .from = up ? host : device,
                     .to_pitch = up ? line_bytes : host_pitch,
                     .from_pitch = up ? host_pitch : line_bytes,
                     .lines = lines,
                     .line_bytes = line_bytes};
  return (up ? ops->async->upload : ops->async->download)(queue, &t, error);
}

/* Passes whole matrices without gaps as lines of one transfer, and so all lines of matrices that
 * follow each other at the distance of their lines. */
static mmc_status pass_matrices(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                                bool up, const mmc_matrix *matrix, int64_t begin, int64_t end,
                                char *device, mmci_error *error) {
  int64_t size = (int64_t)mmc_dtype_size(dtype), ld = mmci_matrix_ld(matrix);
  int64_t lines = mmci_matrix_lines(matrix), length = mmci_matrix_line_length(matrix);
  int64_t count = end - begin, stride = matrix->stride;
  if (count <= 0 || lines == 0 || length == 0) return MMC_OK;
  if (matrix->addresses == NULL) {
    char *first = mmci_matrix_of_batch(matrix, dtype, begin).data;
    bool tight = ld == length || lines == 1;
    if (tight && (count == 1 || stride >= lines * length))
      return move_matrices(ops, queue, up, first, count > 1 ? stride * size : lines * length * size,
                           device, count, lines * length * size, error);
    if (stride == lines * ld)
      return move_matrices(ops, queue, up, first, ld * size, device, count * lines, length * size,
                           error);
  }
  mmc_status status = MMC_OK;
  for (int64_t i = 0; i < count && status == MMC_OK; i++)
    status =
        move_matrices(ops, queue, up, mmci_matrix_of_batch(matrix, dtype, begin + i).data,
                      ld * size, device + i * lines * length * size, lines, length * size, error);
  return status;
}

mmc_status mmci_stack_upload(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                             const mmc_matrix *matrix, int64_t begin, int64_t end, char *device,
                             mmci_error *error) {
  return pass_matrices(ops, queue, dtype, true, matrix, begin, end, device, error);
}

mmc_status mmci_stack_download(const mmci_device_ops *ops, mmci_queue *queue, mmc_dtype dtype,
                               const mmc_matrix *matrix, int64_t begin, int64_t end, char *device,
                               mmci_error *error) {
  return pass_matrices(ops, queue, dtype, false, matrix, begin, end, device, error);
}
