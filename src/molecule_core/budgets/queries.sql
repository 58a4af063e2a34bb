-- Budgets, what was spent in each period, and the leases of turns.

-- name: all_budgets
-- the budgets of all organisations
SELECT id, org_id, scope, target_id, workspace_id, unit, most, period, rev, created_at, updated_at, updated_by
FROM budgets;

-- name: budget_by_id
-- one budget
SELECT id, org_id, scope, target_id, workspace_id, unit, most, period, rev, created_at, updated_at, updated_by
FROM budgets WHERE id = :id;

-- name: insert_budget
-- insert a budget
-- mirrored: budgets by id
INSERT INTO budgets (
    id, org_id, scope, target_id, workspace_id, unit, most, period, rev, created_at, updated_at, updated_by
) VALUES (
    :id, :org_id, :scope, :target_id, :workspace_id, :unit, :most, :period, :rev, :created_at, :updated_at, :updated_by
);

-- name: update_budget
-- change the limit of a budget
-- mirrored: budgets by id
UPDATE budgets SET most = :most, rev = :rev, updated_at = :updated_at, updated_by = :updated_by WHERE id = :id;

-- name: delete_budget
-- delete a budget
-- mirrored: budgets by id
DELETE FROM budgets WHERE id = :id;

-- name: delete_budget_periods
-- delete what was spent of a budget
DELETE FROM budget_periods WHERE budget_id = :id;

-- name: delete_budget_leases
-- delete the leases of a budget
DELETE FROM budget_leases WHERE budget_id = :id;

-- name: all_turn_leases
-- what the turns of all workspaces with a setting of their own lease
SELECT workspace_id, money, tokens FROM turn_leases;

-- name: turn_lease
-- what the turns of a workspace lease
SELECT money, tokens FROM turn_leases WHERE workspace_id = :workspace_id;

-- name: save_turn_lease
-- set what the turns of a workspace lease
-- mirrored: turn_leases by workspace_id
INSERT INTO turn_leases (workspace_id, org_id, money, tokens) VALUES (:workspace_id, :org_id, :money, :tokens)
ON CONFLICT (workspace_id) DO UPDATE SET money = excluded.money, tokens = excluded.tokens;

-- name: budget_state
-- what of a budget was spent in a period, and is leased by turns that have not reported
SELECT coalesce(p.spent, 0), coalesce(p.raised, 0), p.noticed_at, p.asked_at, coalesce(p.stopped, 0),
    CAST(coalesce((SELECT sum(l.amount) FROM budget_leases l
        WHERE l.budget_id = :budget_id AND l.period_start = :period_start), 0) AS BIGINT),
    CAST(coalesce((SELECT sum(l.amount) FROM budget_leases l
        WHERE l.budget_id = :budget_id AND l.period_start = :period_start AND l.until <= :now), 0) AS BIGINT)
FROM (SELECT 1 AS one) o
LEFT JOIN budget_periods p ON p.budget_id = :budget_id AND p.period_start = :period_start;

-- name: leases_of_turn
-- the leases of a turn
SELECT budget_id, workspace_id, turn_key, thread_id, delegation_id, period_start, amount, until, begun_at
FROM budget_leases WHERE workspace_id = :workspace_id AND turn_key = :turn_key;

-- name: leases_of_thread
-- the leases of the running turn of a thread
SELECT budget_id, workspace_id, turn_key, thread_id, delegation_id, period_start, amount, until, begun_at
FROM budget_leases WHERE workspace_id = :workspace_id AND thread_id = :thread_id AND thread_id <> '';

-- name: first_lease_of_workspace
-- the leases of the turn of a workspace that began first, without those of threads
SELECT budget_id, workspace_id, turn_key, thread_id, delegation_id, period_start, amount, until, begun_at
FROM budget_leases
WHERE workspace_id = :workspace_id AND turn_key = (
    SELECT l.turn_key FROM budget_leases l
    WHERE l.workspace_id = :workspace_id AND l.thread_id = ''
        AND (CAST(:delegation_id AS TEXT) = '' OR l.delegation_id = :delegation_id)
    ORDER BY l.begun_at, l.turn_key LIMIT 1
);

-- name: save_budget_lease
-- lease an amount for a turn, or renew its lease in another period
INSERT INTO budget_leases (
    budget_id, workspace_id, turn_key, thread_id, delegation_id, period_start, amount, until, begun_at
) VALUES (
    :budget_id, :workspace_id, :turn_key, :thread_id, :delegation_id, :period_start, :amount, :until, :begun_at
) ON CONFLICT (workspace_id, turn_key, budget_id) DO UPDATE SET
    period_start = excluded.period_start, amount = excluded.amount, until = excluded.until,
    thread_id = excluded.thread_id, begun_at = excluded.begun_at;

-- name: extend_budget_lease
-- extend the lease of a turn that begins again or continues in a thread
UPDATE budget_leases SET until = :until, thread_id = :thread_id
WHERE workspace_id = :workspace_id AND turn_key = :turn_key AND budget_id = :budget_id;

-- name: reduce_budget_lease
-- reduce the lease of a turn that goes on by what it has reported
UPDATE budget_leases SET amount = CASE WHEN amount > :amount THEN amount - :amount ELSE 0 END
WHERE workspace_id = :workspace_id AND turn_key = :turn_key AND budget_id = :budget_id;

-- name: end_budget_lease
-- end the lease of a turn
DELETE FROM budget_leases
WHERE workspace_id = :workspace_id AND turn_key = :turn_key AND budget_id = :budget_id;

-- name: end_thread_leases
-- end the leases of the turn of a thread that has ended
DELETE FROM budget_leases WHERE workspace_id = :workspace_id AND thread_id = :thread_id AND thread_id <> '';

-- name: add_budget_spending
-- add usage to what was spent of a budget in a period
INSERT INTO budget_periods (budget_id, period_start, spent, raised, stopped) VALUES (:budget_id, :period_start, :amount, 0, 0)
ON CONFLICT (budget_id, period_start) DO UPDATE SET spent = budget_periods.spent + excluded.spent;

-- name: raise_budget_period
-- raise a budget for a period
INSERT INTO budget_periods (budget_id, period_start, spent, raised, stopped) VALUES (:budget_id, :period_start, 0, :amount, 0)
ON CONFLICT (budget_id, period_start) DO UPDATE SET
    raised = budget_periods.raised + excluded.raised, stopped = 0, asked_at = NULL, noticed_at = NULL;

-- name: mark_budget_noticed
-- note that people were notified of 80 %
INSERT INTO budget_periods (budget_id, period_start, spent, raised, stopped, noticed_at)
VALUES (:budget_id, :period_start, 0, 0, 0, :at)
ON CONFLICT (budget_id, period_start) DO UPDATE SET noticed_at = excluded.noticed_at;

-- name: mark_budget_asked
-- note that an approval was requested, or that none is open (at NULL), and whether people stopped the budget
INSERT INTO budget_periods (budget_id, period_start, spent, raised, stopped, asked_at)
VALUES (:budget_id, :period_start, 0, 0, :stopped, :at)
ON CONFLICT (budget_id, period_start) DO UPDATE SET asked_at = excluded.asked_at, stopped = excluded.stopped;

-- name: holds_of_budget
-- the workspaces whose turns wait for a budget
SELECT workspace_id, until FROM budget_holds WHERE budget_id = :budget_id;

-- name: save_budget_hold
-- note that the turns of a workspace wait for a budget
INSERT INTO budget_holds (workspace_id, budget_id, until) VALUES (:workspace_id, :budget_id, :until)
ON CONFLICT (budget_id, workspace_id) DO UPDATE SET until = excluded.until;

-- name: delete_budget_holds
-- note that no turns wait for a budget any more
DELETE FROM budget_holds WHERE budget_id = :budget_id;

-- name: spent_budget_leases
-- leases of turns that never reported and began before a time, for retention
SELECT workspace_id, turn_key, budget_id FROM budget_leases
WHERE begun_at < :before AND (workspace_id, turn_key, budget_id) > (:workspace_id, :turn_key, :budget_id)
ORDER BY workspace_id, turn_key, budget_id LIMIT :count;
