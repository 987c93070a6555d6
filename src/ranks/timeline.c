/* timeline.c: a program's deeds, one after the other. */
#include "ranks/timeline.h"

#include "base/alloc.h"

static double seconds_of(const mmci_cards_program *program, const mmci_timeline_rates *rates,
                         const mmci_deed *deed) {
  const double bytes =
      (double)deed->rows * (double)deed->cols * (double)mmc_dtype_size(program->chain->dtype);
  switch (deed->kind) {
    case MMCI_DO_PRODUCT:
      return mmci_roofline_seconds(&rates->product, &deed->gemm);
    case MMCI_DO_COPY:
      if (deed->a.rank != deed->rank) return rates->deed_s + bytes / rates->link_bytes_per_s;
      return rates->product.launch_s + 2 * bytes / rates->product.bytes_per_s;
    default:
      return rates->deed_s + bytes / rates->host_bytes_per_s;
  }
}

mmc_status mmci_timeline_predict(const mmci_cards_program *program,
                                 const mmci_timeline_rates *rates, mmci_timeline *out,
                                 mmci_error *error) {
  const size_t lanes = (size_t)program->ranks * MMCI_LANES;
  double *ends = mmci_alloc_zeroed((size_t)program->deed_count + 1, sizeof *ends);
  double *free_at = mmci_alloc_zeroed(lanes, sizeof *free_at);
  double *busy = mmci_alloc_zeroed(lanes, sizeof *busy);
  if (ends == NULL || free_at == NULL || busy == NULL) {
    free(ends);
    free(free_at);
    free(busy);
    return mmci_fail_nomem(error, (uint64_t)program->deed_count * sizeof *ends);
  }
  *out = (mmci_timeline){0};
  for (int64_t d = 0; d < program->deed_count; d++) {
    const mmci_deed *deed = &program->deeds[d];
    const size_t lane = (size_t)deed->rank * MMCI_LANES + (size_t)deed->lane;
    double begin = free_at[lane];
    for (int64_t w = 0; w < deed->wait_count; w++) {
      const double end = ends[program->waits[deed->wait_first + w]];
      if (end > begin) begin = end;
    }
    const double seconds = seconds_of(program, rates, deed);
    ends[d] = free_at[lane] = begin + seconds;
    busy[lane] += seconds;
    if (ends[d] > out->seconds) out->seconds = ends[d];
  }
  for (int32_t r = 0; r < program->ranks; r++) {
    const double *of_rank = busy + (size_t)r * MMCI_LANES;
    if (of_rank[MMCI_LANE_PRODUCTS] > out->products_s)
      out->products_s = of_rank[MMCI_LANE_PRODUCTS];
    if (of_rank[MMCI_LANE_ARRIVALS] > out->communication_s)
      out->communication_s = of_rank[MMCI_LANE_ARRIVALS];
  }
  free(ends);
  free(free_at);
  free(busy);
  return MMC_OK;
}
