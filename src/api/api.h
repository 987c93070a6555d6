/* api.h: the objects behind the public handles. */
#ifndef MMCI_API_H
#define MMCI_API_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/interrupt.h"
#include "device/device.h"
#include "meter/meter.h"
#include "plan/plan.h"
#include "ranks/cards.h"
#include "run/run.h"
#include "wisdom/wisdom_pricing.h"

/* Devices that work together, as a name of several says. */
typedef struct mmci_gang {
  struct mmci_gang *next;
  char *name;
  mmci_cards cards;
  int64_t ranks; /* that were asked for; 0: those that are here */
  bool absent;   /* they are not, or not as many, here: plans for them cannot be executed */
} mmci_gang;

/* Plans that were asked for again lately, each at the place of its hash, see kept_plans.h. */
enum { MMCI_KEPT_PLANS = 128 };
typedef struct mmci_kept_plans {
  mmc_plan *at[MMCI_KEPT_PLANS];
  uint64_t came[MMCI_KEPT_PLANS]; /* the hash that was asked for last at each place */
} mmci_kept_plans;

struct mmc_context {
  pthread_mutex_t lock; /* guards registry, gangs, kept, message and argument */
  mmci_registry *registry;
  mmci_gang *gangs; /* those that were asked for; under the lock */
  mmci_kept_plans kept;
  mmci_wisdom *wisdom; /* locks itself */
  char message[480];
  char argument[32]; /* what the message is about */
};

/* Keeps the message on the context, which may be NULL, and returns the status. */
mmc_status mmci_report(mmc_context *context, mmc_status status, const mmci_error *error);
/* Reports that an argument is NULL, which is named as "out" or "m and s". Returns E_ARG. */
mmc_status mmci_report_null(mmc_context *context, const char *argument);

/* Returns where modules are looked for, NULL without a context. */
const char *mmci_context_module_dir(const mmc_context *context);

/* Opens a device by name under the context's lock. */
mmc_status mmci_context_open_device(mmc_context *context, const char *name, mmci_opened *out,
                                    mmci_error *error);

/* Opens the devices of a name of several. ranks says how many such devices there are, though they
 * may not be here; 0 means those that are. */
mmc_status mmci_context_open_gang(mmc_context *context, const char *name, int64_t ranks,
                                  const mmci_gang **out, mmci_error *error);
void mmci_gangs_destroy(mmci_gang *gangs);

struct mmc_meter {
  mmc_context *context;
  const mmci_meter_ops *ops;
  mmci_meter *meter;
};

/* Opens a meter as mmc_meter_open() does. */
mmc_status mmci_meter_open(mmc_context *context, const char *device, mmc_meter **out,
                           mmci_error *error);

/* What a plan that is kept was asked for by and made of, beside its chain and device. */
typedef struct mmci_plan_source {
  uint64_t hash;
  const struct mmci_objective *objective;
  mmci_precision precision; /* the one asked for */
  double tolerance;
  uint64_t memory_limit_bytes, device_memory_bytes;
  mmc_location location;
  mmci_facts facts;             /* zeros where pricing has them */
  mmci_wisdom_pricing *pricing; /* NULL unless the objective is time */
} mmci_plan_source;

struct mmc_plan {
  atomic_long references; /* those of callers, and of the context where it keeps the plan */
  mmc_context *context;
  mmci_opened on;
  mmci_precision precision;
  mmci_plan plan;
  const mmci_gang *gang; /* the devices that execute it together; NULL when it is for one */
  mmci_cards_plan cards_plan;
  uint64_t device_memory_bytes; /* of each of them, that it may use */
  mmci_plan_source source;      /* zeros where the plan is not kept */
};

struct mmc_run {
  const mmc_plan *plan;
  mmci_run *run;            /* NULL until it is needed, where several devices execute the plan */
  mmci_cards_run *cards;    /* NULL where one device does */
  mmci_given *given;        /* with cards: the n factors and the result */
  mmc_matrix *pieces;       /* with cards: n + 1 times one for every device */
  mmci_interrupt interrupt; /* stops executions on the host */
};

/* What mmc_run_create(), mmc_run_destroy(), mmc_execute() and mmc_enqueue() do with several
 * devices. */
mmc_status mmci_cards_of_run(mmc_run *run, mmci_error *error);
void mmci_cards_of_run_destroy(mmc_run *run);
mmc_status mmci_cards_execute(mmc_run *run, const mmc_matrix *factors, const mmc_matrix *out,
                              mmci_error *error);

#endif
