/* team.h: the types _mmchain.Team and _mmchain.TeamPlan: processes that multiply together. */
#ifndef MMCP_TEAM_H
#define MMCP_TEAM_H

#include "state.h"

extern PyTypeObject mmcp_team_type, mmcp_team_plan_type;

#endif
