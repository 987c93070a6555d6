/* header.cpp: mmchain.h as C++ sees it. Every initialiser is used, one call is linked. */
#include <cstdio>

#include "mmchain.h"

template <typename T>
static bool is_sized(const T &options) {
  return options.size == sizeof options;
}

int main() {
  const mmc_context_options context = MMC_CONTEXT_OPTIONS_INIT;
  const mmc_matrix matrix = MMC_MATRIX_INIT;
  const mmc_chain_options chain = MMC_CHAIN_OPTIONS_INIT;
  const mmc_plan_options plan = MMC_PLAN_OPTIONS_INIT;
  const mmc_ranges_options ranges = MMC_RANGES_OPTIONS_INIT;
  const mmc_scan_options scan = MMC_SCAN_OPTIONS_INIT;
  const mmc_scan_operands operands = MMC_SCAN_OPERANDS_INIT;
  const mmc_order_options order = MMC_ORDER_OPTIONS_INIT;
  const mmc_energy_options energy = MMC_ENERGY_OPTIONS_INIT;
  const mmc_sparse_options sparse = MMC_SPARSE_OPTIONS_INIT;
  const mmc_wisdom_filter filter = MMC_WISDOM_FILTER_INIT;
  const mmc_tune_options tune = MMC_TUNE_OPTIONS_INIT;
  const mmc_team_options team = MMC_TEAM_OPTIONS_INIT;
  const bool sized = is_sized(context) && is_sized(chain) && is_sized(plan) && is_sized(ranges) &&
                     is_sized(scan) && is_sized(operands) && is_sized(order) && is_sized(energy) &&
                     is_sized(sparse) && is_sized(filter) && is_sized(tune) && is_sized(team);
  if (!sized || plan.memory_limit_bytes != MMC_NO_LIMIT || matrix.data != nullptr) return 1;
  std::printf("%s\n", mmc_version());
  return 0;
}
