/* plan.c: `mmchain plan` shows the order of a chain, its cost and its steps, without
 * multiplying. */
#include <string.h>

#include "chains.h"
#include "options.h"
#include "programs.h"
#include "table.h"
#include "team.h"

static const char help[] =
    "usage: mmchain plan CHAIN [options]\n"
    "\n"
    "Says in which order to multiply the chain, what that costs, and why.\n"
    "\n"
    "  CHAIN                f32:10x30x5x60, 10x30 30x5 5x60, A.npy B.npy:T, or - for a line of\n"
    "                       standard input; see mmchain --help\n"
    "  --for OBJECTIVE      what to make least: flops; traffic, words moved to and from the chip;\n"
    "                       time, as predicted from what mmchain tune has measured; energy,\n"
    "                       joules likewise, with a table of time against energy; and with\n"
    "                       --on scalapack words, those that processes send\n"
    "  --max-slowdown X     with --for energy, at most so many times the time of the plan for "
    "time\n"
    "  --on DEVICE          cpu (the best there is), blas, ref, cuda or cuda:N; see mmchain info;\n"
    "                       cuda:all or cuda:0,1, several GPUs together; scalapack, on several\n"
    "                       processes (docs/cards.md, docs/distributed.md)\n"
    "  --ranks N            with --on cuda:all, as for N GPUs, and with --on scalapack, for N\n"
    "                       processes, though they may not be here\n"
    "  --all-ranks          with --on scalapack, use all of them even where fewer are faster\n"
    "  --precision NAME     native, faithful (as accurate) or fast (TF32 for f32 on a GPU)\n"
    "  --reproducible       the same bits on every device (of 16-bit floats: on every one of a "
    "kind),\n"
    "                       by any number of threads, in any batch and memory; with --precision\n"
    "                       faithful large products by whole numbers, for GPUs:\n"
    "                       docs/reproducible.md says what it costs\n"
    "  --tolerance X        as little work as surely keeps the result within X of the product of\n"
    "                       the factors' lengths: docs/faithful.md\n"
    "  --solver NAME        auto, hu-shing, table, brute (at most 12 factors) or left-to-right\n"
    "  --order ORDER        the order itself, as plan prints it: '((A1 A2) (A3 A4))'\n"
    "  --memory-limit BYTES workspace that the intermediates may take; 64M, 2GiB\n"
    "  --device-memory BYTES\n"
    "                       what the chain may take of a GPU's memory; what does not fit is\n"
    "                       streamed\n"
    "  --fuse RULE          with --for traffic, which products share a kernel: exact (default), "
    "none,\n"
    "                       poster (right fuse as the TEE-ACM2 poster prices it), joint (order "
    "and\n"
    "                       fusion at once, at most 200 factors). A pair that the device takes as\n"
    "                       one call, and that is predicted to be faster so (of a GPU, where RULE "
    "is\n"
    "                       given, any), is executed so; others are fused in the cost only\n"
    "  --tile XxY           with --for traffic, the tile that every kernel keeps on chip, in "
    "place\n"
    "                       of the best\n"
    "  --on-chip WORDS      with --for traffic, what the chip holds (65536, the poster's)\n"
    "  --table              with --for traffic, the poster's fusion table of one chain or several\n"
    "  --json               one object, with --table one a chain; mmchain multiply --plan takes\n"
    "                       the steps from it\n"
    "  --dot                the tree for Graphviz\n"
    "  --svg FILE           a picture of the tree; with --json or --dot those are printed too\n"
    "  -h, --help           this text\n";

enum {
  OPTION_DOT = CLI_OPTION_OWN,
  OPTION_SVG,
  OPTION_FUSE,
  OPTION_ON_CHIP,
  OPTION_TILE,
  OPTION_TABLE,
  OPTION_RANKS,
  OPTION_ALL_RANKS
};

static const struct option options[] = {
    {"for", required_argument, NULL, CLI_OPTION_FOR},
    {"on", required_argument, NULL, CLI_OPTION_ON},
    {"solver", required_argument, NULL, CLI_OPTION_SOLVER},
    {"order", required_argument, NULL, CLI_OPTION_ORDER},
    {"memory-limit", required_argument, NULL, CLI_OPTION_MEMORY_LIMIT},
    {"device-memory", required_argument, NULL, CLI_OPTION_DEVICE_MEMORY},
    {"precision", required_argument, NULL, CLI_OPTION_PRECISION},
    {"reproducible", no_argument, NULL, CLI_OPTION_REPRODUCIBLE},
    {"tolerance", required_argument, NULL, CLI_OPTION_TOLERANCE},
    {"max-slowdown", required_argument, NULL, CLI_OPTION_MAX_SLOWDOWN},
    {"ranks", required_argument, NULL, OPTION_RANKS},
    {"all-ranks", no_argument, NULL, OPTION_ALL_RANKS},
    {"fuse", required_argument, NULL, OPTION_FUSE},
    {"on-chip", required_argument, NULL, OPTION_ON_CHIP},
    {"tile", required_argument, NULL, OPTION_TILE},
    {"table", no_argument, NULL, OPTION_TABLE},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"dot", no_argument, NULL, OPTION_DOT},
    {"svg", required_argument, NULL, OPTION_SVG},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int draw_tree(cli_call *call, const mmc_plan *plan, const char *path) {
  cli_buffer picture = {0};
  static const char declaration[] = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  mmc_status status = MMC_E_NOMEM;
  if (cli_buffer_write(&picture, declaration, sizeof declaration - 1) == 0)
    status = mmc_plan_explain(plan, MMC_SVG, cli_buffer_write, &picture);
  int result = status == MMC_OK ? cli_buffer_save(call, "--svg", path, &picture)
                                : cli_buffer_fail(call, status);
  cli_buffer_free(&picture);
  return result;
}

static int show_plan(cli_call *call, const mmc_plan *plan, mmc_format format) {
  mmc_status status = mmc_plan_explain(plan, format, cli_stream_write, &call->out);
  /* main() says why standard output failed. */
  return status == MMC_OK || call->out.error != 0 ? CLI_DONE : cli_fail_status(call, status, "");
}

/* Plans the chain of the arguments, and shows the plan. */
static int plan_chain(cli_call *call, int count, char **arguments,
                      const mmc_plan_options *plan_options, const char *svg, bool json, bool dot) {
  mmc_chain *chain;
  int result = cli_chain_of_arguments(call, count, arguments, &chain);
  if (result != CLI_DONE) return result;
  mmc_plan *plan = NULL;
  mmc_status status = mmc_plan_create(call->context, chain, plan_options, &plan);
  if (status != MMC_OK) result = cli_fail_status(call, status, "");
  if (result == CLI_DONE && svg != NULL) result = draw_tree(call, plan, svg);
  if (result == CLI_DONE && (svg == NULL || json || dot))
    result = show_plan(call, plan, json ? MMC_JSON : dot ? MMC_DOT : MMC_TEXT);
  mmc_plan_destroy(plan);
  mmc_chain_destroy(chain);
  return result;
}

/* Plans the chain of the arguments for the ranks of a team. */
static int plan_on_team(cli_call *call, const mmc_plan_options *given, mmc_team_options *options,
                        int count, char **arguments, bool json) {
  mmc_chain *chain;
  if (given->max_slowdown != 0 || given->fuse != NULL || given->on_chip_words != 0 ||
      given->tile[0] != 0 || given->device_memory_bytes != MMC_NO_LIMIT)
    return cli_fail(call, CLI_BAD,
                    "--on: %s takes no --max-slowdown, --fuse, --on-chip, --tile and "
                    "--device-memory",
                    given->device);
  int result = cli_chain_of_arguments(call, count, arguments, &chain);
  if (result != CLI_DONE) return result;
  if (options->ranks == 0) options->ranks = 1;
  options->rank_bytes = given->memory_limit_bytes;
  options->objective = given->objective;
  options->solver = given->solver;
  options->order = given->order;
  options->precision = given->precision;
  result = cli_team_plan(call, options, chain, json);
  mmc_chain_destroy(chain);
  return result;
}

/* Reads rows and columns of a tile: "256x192". */
static bool parse_tile(const cli_call *call, const char *text, int64_t tile[2]) {
  const char *at = text;
  uint64_t side[2] = {0, 0};
  bool fine = cli_digits_read(&at, CLI_DIM_MAX, &side[0]) == CLI_DIGITS_FINE && *at++ == 'x' &&
              cli_digits_read(&at, CLI_DIM_MAX, &side[1]) == CLI_DIGITS_FINE && *at == '\0' &&
              side[0] > 0 && side[1] > 0;
  if (!fine) {
    cli_fail(call, CLI_BAD, "--tile: expected rows and columns, as in 256x192, got '%s'", text);
    return false;
  }
  tile[0] = (int64_t)side[0];
  tile[1] = (int64_t)side[1];
  return true;
}

static int run(cli_call *call, int argc, char **argv) {
  mmc_plan_options plan_options = MMC_PLAN_OPTIONS_INIT;
  mmc_team_options team_options = MMC_TEAM_OPTIONS_INIT;
  cli_planning planning = {.options = &plan_options};
  bool json = false, dot = false, table = false;
  const char *svg = NULL;
  for (int code; (code = cli_option_next(call, argc, argv, options)) != CLI_OPTION_END;) {
    switch (code) {
      case OPTION_RANKS: {
        enum { MOST_RANKS = 65536 };
        int64_t ranks;
        if (!cli_number(call, "--ranks", optarg, 1, MOST_RANKS, &ranks)) return CLI_BAD;
        team_options.ranks = (int32_t)ranks;
        break;
      }
      case OPTION_ALL_RANKS:
        team_options.all_ranks = true;
        break;
      case OPTION_FUSE:
        plan_options.fuse = optarg;
        break;
      case OPTION_ON_CHIP:
        if (!cli_number(call, "--on-chip", optarg, 1, CLI_DIM_MAX, &plan_options.on_chip_words))
          return CLI_BAD;
        break;
      case OPTION_TILE:
        if (!parse_tile(call, optarg, plan_options.tile)) return CLI_BAD;
        break;
      case OPTION_TABLE:
        table = true;
        break;
      case CLI_OPTION_JSON:
        json = true;
        break;
      case OPTION_DOT:
        dot = true;
        break;
      case OPTION_SVG:
        svg = optarg;
        break;
      case CLI_OPTION_HELP:
        return cli_help(call);
      default:
        if (!cli_planning_option(call, code, &planning)) return CLI_BAD;
    }
  }
  if (!cli_planning_arithmetic(call, &planning)) return CLI_BAD;
  if (cli_on_team(plan_options.device)) {
    if (dot || table || svg != NULL)
      return cli_fail(call, CLI_BAD, "--on: %s takes no --dot, --svg and --table",
                      plan_options.device);
    return plan_on_team(call, &plan_options, &team_options, argc - optind, argv + optind, json);
  }
  if (team_options.all_ranks)
    return cli_fail(call, CLI_BAD, "--all-ranks: expected --on scalapack with it");
  plan_options.ranks = team_options.ranks;
  if (json && dot) return cli_fail(call, CLI_BAD, "--dot: expected no --json with it");
  if (table && (dot || svg != NULL))
    return cli_fail(call, CLI_BAD, "--table: expected no --dot or --svg with it");
  if (table && (plan_options.objective == NULL || strcmp(plan_options.objective, "traffic") != 0))
    return cli_fail(call, CLI_BAD, "--table: expected --for traffic with it");
  if (table) return cli_table_show(call, argc - optind, argv + optind, &plan_options, json);
  bool drawn_to_output = svg != NULL && strcmp(svg, "-") == 0;
  if (drawn_to_output && (json || dot))
    return cli_fail(call, CLI_BAD, "--svg: expected a file, as standard output takes %s",
                    json ? "--json" : "--dot");
  int result = svg != NULL && !drawn_to_output ? cli_check_output(call, "--svg", svg) : CLI_DONE;
  if (result != CLI_DONE) return result;
  return plan_chain(call, argc - optind, argv + optind, &plan_options, svg, json, dot);
}

const cli_command cli_plan = {
    .name = "plan",
    .summary = "the order of a chain, its cost, its steps, and why",
    .help = help,
    .run = run,
};
