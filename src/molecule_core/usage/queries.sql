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

-- name: usage_of_workspace
-- the sums of a workspace in a range of days, by day and model
SELECT day, model, turns, unpriced, input_tokens, cached_tokens, output_tokens, cost_micros
FROM usage_days WHERE workspace_id = :workspace_id AND day >= :since AND day <= :until ORDER BY day, model;

-- name: usage_by_workspace
-- the sums of each workspace of an organisation in a range of days
SELECT workspace_id,
    CAST(sum(turns) AS BIGINT), CAST(sum(unpriced) AS BIGINT), CAST(sum(input_tokens) AS BIGINT),
    CAST(sum(cached_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT), CAST(sum(cost_micros) AS BIGINT)
FROM usage_days WHERE org_id = :org_id AND day >= :since AND day <= :until GROUP BY workspace_id ORDER BY workspace_id;

-- name: usage_by_day
-- the sums of each day of an organisation in a range of days
SELECT day,
    CAST(sum(turns) AS BIGINT), CAST(sum(unpriced) AS BIGINT), CAST(sum(input_tokens) AS BIGINT),
    CAST(sum(cached_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT), CAST(sum(cost_micros) AS BIGINT)
FROM usage_days WHERE org_id = :org_id AND day >= :since AND day <= :until GROUP BY day ORDER BY day;

-- name: usage_by_model
-- the sums of each model of an organisation in a range of days
SELECT model,
    CAST(sum(turns) AS BIGINT), CAST(sum(unpriced) AS BIGINT), CAST(sum(input_tokens) AS BIGINT),
    CAST(sum(cached_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT), CAST(sum(cost_micros) AS BIGINT)
FROM usage_days WHERE org_id = :org_id AND day >= :since AND day <= :until GROUP BY model ORDER BY model;

-- name: usage_by_request
-- the sums of each chain of an organisation in a range of time, the most expensive first
SELECT root_id,
    CAST(count(*) AS BIGINT), CAST(count(*) - count(cost_micros) AS BIGINT), CAST(sum(input_tokens) AS BIGINT),
    CAST(sum(cached_tokens) AS BIGINT), CAST(sum(output_tokens) AS BIGINT),
    CAST(coalesce(sum(cost_micros), 0) AS BIGINT)
FROM usage_records WHERE org_id = :org_id AND at >= :since AND at < :until AND root_id IS NOT NULL
GROUP BY root_id ORDER BY 7 DESC, 4 DESC, root_id LIMIT :count;

-- name: usage_of_chain
-- the usage of the turns of a chain, oldest first
SELECT org_id, workspace_id, key, thread_id, activity_id, delegation_id, root_id, model, input_tokens, cached_tokens,
    output_tokens, cost_micros, source, at
FROM usage_records WHERE org_id = :org_id AND root_id = :root_id ORDER BY at, workspace_id, key LIMIT :count;

-- name: save_usage_prices
-- insert or replace the price list of an organisation
INSERT INTO usage_prices (org_id, currency, prices, version, changed_at, changed_by)
VALUES (:org_id, :currency, :prices, :version, :changed_at, :changed_by)
ON CONFLICT (org_id) DO UPDATE SET
    currency = excluded.currency, prices = excluded.prices, version = excluded.version,
    changed_at = excluded.changed_at, changed_by = excluded.changed_by;

-- name: first_usage_day
-- a day on which an organisation has usage
SELECT day FROM usage_days WHERE org_id = :org_id LIMIT 1;
