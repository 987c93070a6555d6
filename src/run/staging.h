/* staging.h: room on the device for the factors and the result that are on the host, and for tables
 * of addresses. */
#ifndef MMCI_STAGING_H
#define MMCI_STAGING_H

#include "run/actions.h"

/* A factor on its way to the device, where its lines lie without gaps. */
typedef struct mmci_staged {
  bool on_host;   /* one matrix that all chains share, or a stack of them */
  bool has_table; /* its matrices are on the device, at addresses, whose table is staged */
  bool uploaded;  /* whether the execution that is under way has uploaded it */
  bool shared;    /* another factor is the same matrix */
  int32_t same;   /* the first factor that is the same matrix, itself when none is */
  int64_t count;  /* matrices in a batch */
  char *device;   /* its address on the device, set with the room */
  uint64_t offset_bytes;
  mmc_matrix matrix; /* the caller's matrix */
} mmci_staged;

typedef struct mmci_staging {
  char *room; /* room in the device's memory for factors, tables and result */
  uint64_t room_bytes;
  mmci_staged *factors;
  int32_t factors_on_host;
  mmc_matrix result; /* the caller's matrix */
  int64_t results;   /* results in a batch */
  bool result_on_host;
  uint64_t result_offset_bytes;
} mmci_staging;

/* Sees where the matrices are, takes the room that they need, and fills operands (n of them) and
 * target with their places on the device. Returns E_NOMEM, E_DEVICE. */
mmc_status mmci_staging_bind(mmci_staging *staging, const mmci_actions *actions,
                             const mmc_matrix *factors, const mmc_matrix *out,
                             mmci_operand *operands, mmci_target *target, mmci_error *error);
void mmci_staging_destroy(mmci_staging *staging, const mmci_actions *actions);

/* Uploads rows begin to end of op(A), or of its transpose, as an action reads its left operand in
 * the form given. */
mmc_status mmci_staging_upload(const mmci_staged *factor, const mmci_actions *actions,
                               mmci_queue *queue, bool trans, int64_t begin, int64_t end,
                               mmci_error *error);
/* Uploads the whole factor, for all chains. */
mmc_status mmci_staging_upload_all(const mmci_staged *factor, const mmci_actions *actions,
                                   mmci_queue *queue, mmci_error *error);
/* Uploads all tables. They are read until the queue has been waited for. */
mmc_status mmci_staging_upload_tables(const mmci_staging *staging, const mmci_actions *actions,
                                      mmci_queue *queue, mmci_error *error);
/* Downloads the result of all chains; or lines begin to end of a single result. */
mmc_status mmci_staging_download_all(const mmci_staging *staging, const mmci_actions *actions,
                                     mmci_queue *queue, const mmc_matrix *out, mmci_error *error);
mmc_status mmci_staging_download(const mmci_staging *staging, const mmci_actions *actions,
                                 mmci_queue *queue, const mmc_matrix *out, int64_t begin,
                                 int64_t end, mmci_error *error);

#endif
