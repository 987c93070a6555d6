/* api_sparse.c: the public calls about chains with sparse factors. */
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/options.h"
#include "io/format.h"
#include "sparse/sparse.h"

struct mmc_sparse {
  mmci_csr csr;
  int32_t *indptr;  /* the same numbers as csr's, where they fit; else NULL */
  int64_t *indices; /* those of csr, where indptr is NULL */
};

struct mmc_sparse_chain {
  mmc_context *context;
  mmci_sparse_chain *chain;
  mmci_interrupt interrupt;
};

/* ---- matrices -------------------------------------------------------------------------------- */

/* Takes a matrix over, on failure too, and makes both of its arrays of numbers one type. */
static mmc_status wrap(mmci_csr *csr, mmc_sparse **out, mmci_error *error) {
  const size_t rows = (size_t)csr->rows + 1, count = (size_t)mmci_csr_nonzeros(csr);
  const bool narrow = count <= INT32_MAX;
  mmc_sparse *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x != NULL && narrow) x->indptr = mmci_alloc_array(rows, sizeof *x->indptr);
  if (x != NULL && !narrow) x->indices = mmci_alloc_array(count, sizeof *x->indices);
  if (x == NULL || (x->indptr == NULL && x->indices == NULL)) {
    free(x);
    mmci_csr_release(csr);
    return mmci_fail_nomem(error, rows * sizeof(int64_t));
  }
  x->csr = *csr;
  for (size_t r = 0; x->indptr != NULL && r < rows; r++) x->indptr[r] = (int32_t)csr->indptr[r];
  for (size_t e = 0; x->indices != NULL && e < count; e++) x->indices[e] = csr->indices[e];
  *out = x;
  return MMC_OK;
}

void mmc_sparse_destroy(mmc_sparse *sparse) {
  if (sparse == NULL) return;
  mmci_csr_release(&sparse->csr);
  free(sparse->indptr);
  free(sparse->indices);
  free(sparse);
}

mmc_dtype mmc_sparse_dtype(const mmc_sparse *sparse) {
  return sparse != NULL ? sparse->csr.dtype : (mmc_dtype)0;
}

mmc_csr mmc_sparse_csr(const mmc_sparse *sparse) {
  if (sparse == NULL) return (mmc_csr){0};
  const mmci_csr *a = &sparse->csr;
  mmc_csr out = {.rows = a->rows, .cols = a->cols, .values = a->values};
  out.index_bytes = sparse->indptr != NULL ? 4 : 8;
  out.indptr = sparse->indptr != NULL ? (const void *)sparse->indptr : a->indptr;
  out.indices = sparse->indptr != NULL ? (const void *)a->indices : sparse->indices;
  return out;
}

bool mmc_sparse_is_file(mmc_context *context, const char *name) {
  return name != NULL && mmci_file_is_sparse(mmci_context_module_dir(context), name);
}

mmc_status mmc_sparse_open(mmc_context *context, const char *name, mmc_sparse **out) {
  mmci_error error = {0};
  mmci_csr csr;
  if (name == NULL || out == NULL)
    return mmci_report(context, mmci_fail(&error, MMC_E_ARG, "name and out: expected no NULL"),
                       &error);
  mmc_status status = mmci_file_open_sparse(mmci_context_module_dir(context), name, &csr, &error);
  if (status == MMC_OK) status = wrap(&csr, out, &error);
  return mmci_report(context, status, &error);
}

mmc_status mmc_sparse_write(mmc_context *context, const char *name, mmc_dtype dtype,
                            const mmc_csr *matrix) {
  mmci_error error = {0};
  mmci_csr csr;
  mmc_status status = MMC_OK;
  if (name == NULL || matrix == NULL)
    status = mmci_fail(&error, MMC_E_ARG, "name and matrix: expected no NULL");
  else if (dtype > MMC_C128)
    status = mmci_fail_argument(&error, MMC_E_ARG, "dtype", "expected f32, f64, c64 or c128");
  if (status == MMC_OK) status = mmci_csr_read(dtype, matrix, "matrix", &csr, &error);
  if (status == MMC_OK) {
    status = mmci_file_write_sparse(mmci_context_module_dir(context), name, &csr, &error);
    mmci_csr_release(&csr);
  }
  return mmci_report(context, status, &error);
}

/* ---- chains ---------------------------------------------------------------------------------- */

static mmc_status read_request(const mmc_sparse_options *options, mmci_sparse_request *out,
                               mmci_error *error) {
  const char *objective = options->objective != NULL ? options->objective : "flops";
  const char *solver = options->solver != NULL ? options->solver : "auto";
  if (strcmp(objective, "flops") != 0 && strcmp(objective, "time") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "objective",
                              "expected flops or time in a sparse chain, got '%s'", objective);
  if (strcmp(solver, "auto") != 0 && strcmp(solver, "left-to-right") != 0)
    return mmci_fail_argument(error, MMC_E_ARG, "solver",
                              "expected auto or left-to-right in a sparse chain, got '%s'", solver);
  *out = (mmci_sparse_request){.by_time = objective[0] == 't',
                               .left_to_right = solver[0] == 'l',
                               .result = options->dense_result ? MMCI_DENSE : MMCI_SPARSE};
  return MMC_OK;
}

static mmc_status create_chain(mmc_context *context, mmc_dtype dtype, int64_t n,
                               const mmc_sparse_factor *factors, const mmc_sparse_options *options,
                               mmci_sparse_chain **out, mmci_error *error) {
  mmc_sparse_options read = MMC_SPARSE_OPTIONS_INIT;
  mmci_sparse_request request = {0};
  mmci_opened on = {0};
  mmc_status status = mmci_options_read("options", options, &read, sizeof read, error);
  if (status == MMC_OK) status = read_request(&read, &request, error);
  if (status != MMC_OK) return status;
  const char *device = read.device != NULL ? read.device : "cpu";
  status = mmci_context_open_device(context, device, &on, error);
  if (status == MMC_OK && (on.ops->enqueue == NULL || on.ops->async != NULL))
    status =
        mmci_fail_argument(error, MMC_E_UNSUPPORTED, "device",
                           "'%s' multiplies no sparse matrices: expected cpu, blas or ref", device);
  return status == MMC_OK
             ? mmci_sparse_chain_create(&on, dtype, n, factors, read.traits, request, out, error)
             : status;
}

mmc_status mmc_sparse_chain_create(mmc_context *context, mmc_dtype dtype, int64_t n,
                                   const mmc_sparse_factor *factors,
                                   const mmc_sparse_options *options, mmc_sparse_chain **out) {
  if (context == NULL) return MMC_E_ARG;
  if (out == NULL) return mmci_report_null(context, "out");
  mmci_error error = {0};
  mmc_sparse_chain *x = mmci_alloc_zeroed(1, sizeof *x);
  if (x == NULL) return mmci_report(context, mmci_fail_nomem(&error, sizeof *x), &error);
  x->context = context;
  mmc_status status = create_chain(context, dtype, n, factors, options, &x->chain, &error);
  if (status == MMC_OK)
    *out = x;
  else
    free(x);
  return mmci_report(context, status, &error);
}

void mmc_sparse_chain_destroy(mmc_sparse_chain *chain) {
  if (chain == NULL) return;
  mmci_sparse_chain_destroy(chain->chain);
  free(chain);
}

mmc_status mmc_sparse_chain_explain(const mmc_sparse_chain *chain, mmc_format format,
                                    mmc_write_fn write, void *user) {
  if (chain == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmc_status status = write == NULL
                          ? mmci_fail(&error, MMC_E_ARG, "write: expected a function, got NULL")
                          : mmci_sparse_chain_explain(chain->chain, format, write, user, &error);
  return mmci_report(chain->context, status, &error);
}

double mmc_sparse_chain_multiplications(const mmc_sparse_chain *chain) {
  return chain != NULL ? mmci_sparse_chain_order(chain->chain)->cost.multiplications : 0;
}

void mmc_sparse_chain_progress(mmc_sparse_chain *chain, mmc_progress_fn progress, void *user) {
  if (chain == NULL) return;
  chain->interrupt.ask = progress;
  chain->interrupt.user = user;
}

mmc_status mmc_sparse_chain_execute(mmc_sparse_chain *chain, const mmc_sparse_factor *factors,
                                    const mmc_matrix *dense, mmc_sparse **sparse) {
  if (chain == NULL) return MMC_E_ARG;
  mmci_error error = {0};
  mmci_csr csr;
  mmci_interrupt *before = mmci_interrupt_begin(&chain->interrupt);
  mmc_status status =
      mmci_sparse_chain_execute(chain->chain, factors, dense, sparse != NULL ? &csr : NULL, &error);
  mmci_interrupt_end(before);
  if (status == MMC_OK && sparse != NULL) status = wrap(&csr, sparse, &error);
  return mmci_report(chain->context, status, &error);
}
