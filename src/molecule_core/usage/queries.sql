-- Usage of turns, its sums by day, and prices.

-- name: insert_usage_record
-- insert the usage of a turn
INSERT INTO usage_records (
    org_id, workspace_id, key, thread_id, activity_id, delegation_id, root_id, model, input_tokens, cached_tokens,
    output_tokens, cost_micros, source, at
) VALUES (
    :org_id, :workspace_id, :key, :thread_id, :activity_id, :delegation_id, :root_id, :model, :input_tokens,
    :cached_tokens, :output_tokens, :cost_micros, :source, :at
);

-- name: add_usage_day
-- add the usage of a turn to the sums of its day
INSERT INTO usage_days (
    org_id, day, workspace_id, model, turns, unpriced, input_tokens, cached_tokens, output_tokens, cost_micros
) VALUES (
    :org_id, :day, :workspace_id, :model, 1, :unpriced, :input_tokens, :cached_tokens, :output_tokens, :cost_micros
) ON CONFLICT (org_id, day, workspace_id, model) DO UPDATE SET
    turns = usage_days.turns + excluded.turns,
    unpriced = usage_days.unpriced + excluded.unpriced,
    input_tokens = usage_days.input_tokens + excluded.input_tokens,
    cached_tokens = usage_days.cached_tokens + excluded.cached_tokens,
    output_tokens = usage_days.output_tokens + excluded.output_tokens,
    cost_micros = usage_days.cost_micros + excluded.cost_micros;

-- name: usage_record
-- the usage of one turn
SELECT org_id, workspace_id, key, thread_id, activity_id, delegation_id, root_id, model, input_tokens, cached_tokens,
    output_tokens, cost_micros, source, at
FROM usage_records WHERE workspace_id = :workspace_id AND key = :key;

-- name: usage_prices
-- the price list of an organisation
SELECT currency, prices, version, changed_at, changed_by FROM usage_prices WHERE org_id = :org_id;

-- name: expired_usage_records
-- usage records from before a time, oldest first, for retention
SELECT at, workspace_id, key FROM usage_records
WHERE at < :before AND (at, workspace_id, key) > (:at, :workspace_id, :key)
ORDER BY at, workspace_id, key LIMIT :count;

-- name: forget_usage_record
-- delete the usage record of a turn
DELETE FROM usage_records WHERE workspace_id = :workspace_id AND key = :key;
