/* hello.c: the product of three matrices in its best order.
 * cc hello.c $(pkg-config --cflags --libs mmchain) && ./a.out */
#include <mmchain.h>
#include <stdio.h>

static int to_stdout(void *user, const char *bytes, size_t size) {
  (void)user;
  return fwrite(bytes, 1, size, stdout) != size;
}

int main(void) {
  double a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4] = {1, 0, 0, 1}, column[2] = {1, -1};
  mmc_matrix factors[4] = {{.data = a, .rows = 2, .cols = 2},
                           {.data = b, .rows = 2, .cols = 2},
                           {.data = c, .rows = 2, .cols = 2},
                           {.data = column, .rows = 2, .cols = 1}};
  double result[2];
  mmc_matrix out = {.data = result, .rows = 2, .cols = 1};

  mmc_context *context = NULL;
  mmc_chain *chain = NULL;
  mmc_plan *plan = NULL;
  mmc_run *run = NULL;
  mmc_status status = mmc_context_create(NULL, &context);
  if (status == MMC_OK) status = mmc_chain_parse(context, "f64:2x2x2x2x1", &chain);
  if (status == MMC_OK) status = mmc_plan_create(context, chain, NULL, &plan);
  if (status == MMC_OK) status = mmc_plan_explain(plan, MMC_TEXT, to_stdout, NULL);
  if (status == MMC_OK) status = mmc_run_create(plan, &run);
  if (status == MMC_OK) status = mmc_execute(run, factors, &out);
  if (status == MMC_OK) printf("\nresult: %g %g\n", result[0], result[1]);
  if (status != MMC_OK) fprintf(stderr, "hello: %s\n", mmc_status_string(status));
  mmc_run_destroy(run);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  mmc_context_destroy(context);
  return status != MMC_OK;
}
