/* scan_explain.c: says in words and as JSON how running products are computed. */
#include <inttypes.h>

#include "base/text.h"
#include "scan/running_parts.h"

static mmci_scan_facts facts_of(const mmci_running *r) {
  mmci_scan_facts facts = {.method = "copy", .kernel = "copy", .why = "there is no product"};
  if (r->kernel != NULL) r->on.ops->scan_facts(r->kernel, &facts);
  if (r->levels != NULL) mmci_levels_facts(r->levels, &facts);
  if (r->scaled != NULL) mmci_scaled_facts(r->scaled, &facts);
  if (r->steps != NULL) mmci_steps_facts(r->steps, &facts);
  return facts;
}

static const char *what(const mmci_running_problem *p) {
  if (p->columns > 0)
    return p->reverse ? "states of a recurrence, from the end" : "states of a recurrence";
  return p->reverse ? "suffixes" : "prefixes";
}

static void explain_text(const mmci_running *r, const mmci_scan_facts *facts, mmci_text *text) {
  const mmci_running_problem *p = &r->problem;
  mmci_text_printf(text, "%s%s%s of %" PRId64 " factors, %s %" PRId64 " x %" PRId64,
                   p->exclusive ? "exclusive " : "", what(p),
                   p->initial ? " after an initial one" : "", p->length, mmc_dtype_name(p->dtype),
                   p->n, p->n);
  if (p->columns > 0) mmci_text_printf(text, ", states of %" PRId64 " columns", p->columns);
  if (p->batch != 1) mmci_text_printf(text, ", %" PRId64 " at once", p->batch);
  if (p->semiring != MMC_PLUS_TIMES)
    mmci_text_printf(text, ", over %s", mmc_semiring_name(p->semiring));
  if (p->scaled) mmci_text_printf(text, ", with exponents");
  mmci_text_printf(text, "\nmethod           %s", facts->method);
  if (facts->blocks > 1) mmci_text_printf(text, ", %" PRId64 " blocks", facts->blocks);
  mmci_text_printf(text, "\nwhy              %s\n", facts->why);
  mmci_text_printf(text, "products         %" PRId64 "\n", facts->products);
  mmci_text_printf(text, "kernel           %s\ndevice           %s", facts->kernel, r->on.name);
  if (facts->workers > 0)
    mmci_text_printf(text, ", %d thread%s", facts->workers, facts->workers > 1 ? "s" : "");
  mmci_text_printf(text, "\n");
}

static void explain_json(const mmci_running *r, const mmci_scan_facts *facts, mmci_text *text) {
  const mmci_running_problem *p = &r->problem;
  mmci_text_printf(text,
                   "{\"dtype\": \"%s\", \"n\": %" PRId64 ", \"length\": %" PRId64
                   ", \"batch\": %" PRId64 ", \"columns\": %" PRId64
                   ", \"reverse\": %s, \"exclusive\": %s, \"semiring\": \"%s\", \"method\": ",
                   mmc_dtype_name(p->dtype), p->n, p->length, p->batch, p->columns,
                   p->reverse ? "true" : "false", p->exclusive ? "true" : "false",
                   mmc_semiring_name(p->semiring));
  mmci_text_json_string(text, facts->method);
  mmci_text_printf(text, ", \"blocks\": %" PRId64 ", \"why\": ", facts->blocks);
  mmci_text_json_string(text, facts->why);
  mmci_text_printf(text, ", \"products\": %" PRId64 ", \"kernel\": ", facts->products);
  mmci_text_json_string(text, facts->kernel);
  mmci_text_printf(text, ", \"device\": ");
  mmci_text_json_string(text, r->on.name);
  mmci_text_printf(text, ", \"workers\": %d}\n", facts->workers);
}

mmc_status mmci_running_explain(const mmci_running *running, mmc_format format, mmc_write_fn write,
                                void *user, mmci_error *error) {
  if (format != MMC_TEXT && format != MMC_JSON)
    return mmci_fail_argument(error, MMC_E_ARG, "format",
                              "expected MMC_TEXT or MMC_JSON, got number %d", (int)format);
  const mmci_scan_facts facts = facts_of(running);
  mmci_text text;
  mmci_text_start(&text, write, user);
  (format == MMC_TEXT ? explain_text : explain_json)(running, &facts, &text);
  return mmci_text_finish(&text, error);
}
