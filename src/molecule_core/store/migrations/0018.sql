-- From schema 17 to 18: budgets.

-- budgets: limits of what turns may use. scope: workspace, subtree, chain or delegation, and target_id which; most: the
-- limit in each period, in micro-units of the currency or in tokens
CREATE TABLE budgets (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    target_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    unit TEXT NOT NULL,
    most BIGINT NOT NULL,
    period TEXT NOT NULL,
    rev BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- budgets: what was spent of a budget in a period, and added to its limit for this period. asked_at: an approval was
-- requested; stopped: it was denied
CREATE TABLE budget_periods (
    budget_id TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    raised BIGINT NOT NULL,
    stopped BIGINT NOT NULL,
    noticed_at BIGINT,
    asked_at BIGINT,
    PRIMARY KEY (budget_id, period_start)
) /*sqlite: WITHOUT ROWID */;

-- budgets: what a turn has reserved of a budget and not reported yet. thread_id: empty, or its thread, with which it ends
CREATE TABLE budget_leases (
    budget_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    turn_key TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    until BIGINT NOT NULL,
    begun_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, turn_key, budget_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX budget_leases_by_budget ON budget_leases (budget_id, period_start);
CREATE INDEX budget_leases_by_thread ON budget_leases (workspace_id, thread_id);
CREATE INDEX budget_leases_by_begin ON budget_leases (workspace_id, begun_at, turn_key) WHERE thread_id = '';

-- budgets: workspaces whose turns wait for a budget. until: end of the limit of the workspace; 0: it has none
CREATE TABLE budget_holds (
    budget_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (budget_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;

-- budgets: what each turn of a workspace leases, where it is not the default
CREATE TABLE turn_leases (
    workspace_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    money BIGINT NOT NULL,
    tokens BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
