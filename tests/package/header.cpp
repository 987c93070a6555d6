/* header.cpp: mmchain.h as C++ sees it. Every initialiser is used, one call is linked. */
#include <cstdio>

#include "mmchain.h"

int main() {
  mmc_context_options context_options = MMC_CONTEXT_OPTIONS_INIT;
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  mmc_order_options order_options = MMC_ORDER_OPTIONS_INIT;
  bool sized = context_options.size == sizeof context_options &&
               plan_options.size == sizeof plan_options &&
               order_options.size == sizeof order_options;
  if (!sized || plan_options.memory_limit_bytes != MMC_NO_LIMIT) return 1;
  std::printf("%s\n", mmc_version());
  return 0;
}
