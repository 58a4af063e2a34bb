-- From schema 15 to 16: usage of turns, and prices.

-- usage: what each turn used. key: identifies the turn in its workspace; activity_id: the message that it worked on;
-- root_id: first message of its chain; input_tokens: without cached ones; cost_micros: millionths of the organisation's
-- currency, NULL: unknown; at: end of the turn
CREATE TABLE usage_records (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    thread_id TEXT,
    activity_id TEXT,
    delegation_id TEXT,
    root_id TEXT,
    model TEXT,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micros BIGINT,
    source TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX usage_records_by_chain ON usage_records (org_id, root_id) WHERE root_id IS NOT NULL;
CREATE INDEX usage_records_by_org ON usage_records (org_id, at);
CREATE INDEX usage_records_by_time ON usage_records (at, workspace_id, key);

-- usage: its sums by day (YYYY-MM-DD, UTC), workspace and model ('': unknown); they stay when records are deleted.
-- unpriced: turns whose cost is unknown
CREATE TABLE usage_days (
    org_id TEXT NOT NULL,
    day TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    model TEXT NOT NULL,
    turns BIGINT NOT NULL,
    unpriced BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, workspace_id, model)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX usage_days_by_workspace ON usage_days (workspace_id, day);

-- usage: prices of models, as JSON, and the currency of all costs of an organisation
CREATE TABLE usage_prices (
    org_id TEXT PRIMARY KEY,
    currency TEXT NOT NULL,
    prices TEXT NOT NULL,
    version BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;
