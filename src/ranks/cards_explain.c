/* cards_explain.c: the part of an explanation that is about several cards. */
#include "ranks/cards_explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "plan/explain.h"

/* Text for people shows at most so many steps. */
enum { TEXT_STEPS = 100 };

static const char *algorithm_of(const mmci_step_site *site) {
  if (site->inner) return "inner";
  switch (site->result.layout.kind) {
    case MMCI_ROWS:
      return site->result.layout.ranks == 1 ? "one card" : "row";
    case MMCI_COLS:
      return "column";
    case MMCI_GRID:
      return "grid";
    default:
      return "all";
  }
}

/* Seconds that the link takes for a step's words, shared by its cards. */
static double link_seconds(const mmci_cards_plan *x, int32_t s) {
  const double size = (double)mmc_dtype_size(x->program.chain->dtype);
  const int32_t ranks = s < x->program.step_count ? x->sites[s].result.layout.ranks : x->cards;
  return mmci_u128_to_double(x->program.words[s]) * size / ranks / x->link_bytes_per_s;
}

/* The share of the prediction that this many seconds are. */
static double share(const mmci_cards_plan *x, double seconds) {
  return x->timeline.seconds > 0 ? 100 * seconds / x->timeline.seconds : 0;
}

static void put_step(const mmci_cards_plan *x, const mmci_plan *plan, int32_t s, mmci_text *text) {
  const mmci_site *site = &x->sites[s].result;
  char layout[MMCI_LAYOUT_TEXT_SIZE], cards[32];
  if (site->layout.ranks == 1)
    snprintf(cards, sizeof cards, "%d", (int)site->first);
  else
    snprintf(cards, sizeof cards, "%d to %d", (int)site->first,
             (int)(site->first + site->layout.ranks - 1));
  mmci_text_printf(text, "%-24s %10s %10s %10s %16s %5.1f %%\n",
                   mmci_operand_name(plan, plan->chain->n + s).text, algorithm_of(&x->sites[s]),
                   mmci_layout_text(&site->layout, layout), cards,
                   mmci_decimal(x->program.words[s]).text, share(x, link_seconds(x, s)));
}

static void put_text(const void *user, const struct mmci_plan *plan, mmci_text *text) {
  const mmci_cards_plan *x = user;
  if (x->alone != NULL) {
    mmci_text_printf(text, "\ncards            1 of %d: %s\n", (int)x->cards, x->alone);
    return;
  }
  mmci_text_printf(text, "\ncards            %d: predicted %s", (int)x->cards,
                   mmci_in_units(x->timeline.seconds, "s").text);
  if (isfinite(x->alone_s))
    mmci_text_printf(text, ", one card %s", mmci_in_units(x->alone_s, "s").text);
  mmci_text_printf(text,
                   "\nwords            %s from card to card, %.1f %% of the time, of which "
                   "products hide what they can: they take %s\n",
                   mmci_decimal(mmci_cards_program_words(&x->program)).text,
                   share(x, x->timeline.communication_s),
                   mmci_in_units(x->timeline.products_s, "s").text);
  mmci_text_printf(text, "card memory      %" PRIu64 " bytes on each at most\n",
                   mmci_cards_program_most_bytes(&x->program));
  mmci_text_printf(text, "\n%-24s %10s %10s %10s %16s %7s\n", "step", "algorithm", "layout",
                   "cards", "words", "link");
  for (int32_t s = 0; s < plan->step_count && s < TEXT_STEPS; s++) put_step(x, plan, s, text);
  if (x->program.words[plan->step_count] > 0)
    mmci_text_printf(text, "the result is sent on: %s words\n",
                     mmci_decimal(x->program.words[plan->step_count]).text);
}

static void put_json_steps(const mmci_cards_plan *x, const mmci_plan *plan, mmci_text *text) {
  for (int32_t s = 0; s < plan->step_count; s++) {
    const mmci_site *site = &x->sites[s].result;
    char layout[MMCI_LAYOUT_TEXT_SIZE];
    mmci_text_printf(text, "%s\n  {\"algorithm\": \"%s\", \"layout\": \"%s\", ", s > 0 ? "," : "",
                     algorithm_of(&x->sites[s]), mmci_layout_text(&site->layout, layout));
    mmci_text_printf(text, "\"first\": %d, \"count\": %d, \"words\": ", (int)site->first,
                     (int)site->layout.ranks);
    mmci_put_json_count(text, x->program.words[s]);
    mmci_text_printf(text, ", \"link_s\": %.6g}", link_seconds(x, s));
  }
}

static void put_json(const void *user, const struct mmci_plan *plan, mmci_text *text) {
  const mmci_cards_plan *x = user;
  mmci_text_printf(text, ", \"cards\": {\"count\": %d, \"alone\": ", (int)x->cards);
  if (x->alone != NULL) {
    mmci_text_json_string(text, x->alone);
    mmci_text_printf(text, "}");
    return;
  }
  mmci_text_printf(text, "null, \"predicted_s\": %.6g, \"products_s\": %.6g", x->timeline.seconds,
                   x->timeline.products_s);
  if (isfinite(x->alone_s))
    mmci_text_printf(text, ", \"one_card_s\": %.6g", x->alone_s);
  else
    mmci_text_printf(text, ", \"one_card_s\": null");
  mmci_text_printf(text, ", \"communication_s\": %.6g, \"memory_bytes\": %" PRIu64 ", \"words\": ",
                   x->timeline.communication_s, mmci_cards_program_most_bytes(&x->program));
  mmci_put_json_count(text, mmci_cards_program_words(&x->program));
  mmci_text_printf(text, ", \"steps\": [");
  put_json_steps(x, plan, text);
  mmci_text_printf(text, "]}");
}

mmci_plan_note mmci_cards_note(const mmci_cards_plan *cards_plan) {
  return (mmci_plan_note){.user = cards_plan, .put_text = put_text, .put_json = put_json};
}
