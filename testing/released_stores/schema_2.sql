-- The whole schema, schema version 2. Times are microseconds since 1970 (UTC), switches 0 or 1, JSON is text.
-- What stands in /*sqlite: ... */ belongs to SQLite only.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) /*sqlite: STRICT, WITHOUT ROWID */;

-- store: one journal, numbered per organisation without gaps. payload NULL: made from the entity when read.
CREATE TABLE events (
    org_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    name TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    audience TEXT NOT NULL,
    entity_kind TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    rev BIGINT NOT NULL,
    at BIGINT NOT NULL,
    payload TEXT,
    PRIMARY KEY (org_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- store: what is due when, and who is asked
CREATE TABLE timers (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    due BIGINT NOT NULL,
    PRIMARY KEY (kind, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX timers_by_due ON timers (due);

-- access: three kinds of credential that share no table (the admin token is not in the store at all)
CREATE TABLE persons (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE person_tokens (
    hash TEXT PRIMARY KEY,
    hint TEXT NOT NULL,
    person_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE TABLE logins (
    hash TEXT PRIMARY KEY,
    person_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    person_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE TABLE workspace_tokens (
    hash TEXT PRIMARY KEY,
    hint TEXT NOT NULL,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

-- org: organisations and the seats in them
CREATE TABLE orgs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    allow_skip_level BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    parent_id TEXT,
    name TEXT NOT NULL,
    role TEXT,
    runtime TEXT NOT NULL,
    delivery_mode TEXT NOT NULL,
    url TEXT,
    agent_card TEXT,
    status TEXT NOT NULL,
    external BIGINT NOT NULL,
    tier BIGINT NOT NULL,
    max_concurrent_tasks BIGINT NOT NULL,
    instruction_template_id TEXT,
    instruction_compact BIGINT NOT NULL,
    broadcast_enabled BIGINT NOT NULL,
    talk_to_user_enabled BIGINT NOT NULL,
    collapsed BIGINT NOT NULL,
    x DOUBLE PRECISION NOT NULL,
    y DOUBLE PRECISION NOT NULL,
    rev BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE INDEX workspaces_by_org ON workspaces (org_id);

-- org: what an agent said of itself last; written by the sweep, not by each heartbeat
CREATE TABLE heartbeats (
    workspace_id TEXT PRIMARY KEY,
    heard_at BIGINT NOT NULL,
    active_tasks BIGINT NOT NULL,
    error_rate DOUBLE PRECISION NOT NULL,
    sample_error TEXT,
    uptime_seconds BIGINT NOT NULL,
    current_task TEXT
);

-- messages: the append-only log. seq numbers all rows of a workspace, inbound_no its inbox.
CREATE TABLE activities (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    inbound_no BIGINT,
    chat BIGINT NOT NULL,
    size BIGINT NOT NULL,
    activity_type TEXT NOT NULL,
    method TEXT,
    kind TEXT,
    intent TEXT,
    source_id TEXT,
    target_id TEXT,
    user_id TEXT,
    sender TEXT NOT NULL,
    dedupe_key TEXT,
    content_hash TEXT,
    context_id TEXT,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    duration_ms BIGINT,
    summary TEXT,
    error_detail TEXT,
    request_body TEXT,
    response_body TEXT,
    tool_trace TEXT
);
CREATE UNIQUE INDEX activities_by_seq ON activities (workspace_id, seq);
CREATE INDEX activities_inbound ON activities (workspace_id, seq) WHERE inbound_no IS NOT NULL;
CREATE INDEX activities_chat ON activities (workspace_id, seq) WHERE chat = 1;
CREATE UNIQUE INDEX activities_by_sender ON activities (dedupe_key, sender) WHERE dedupe_key IS NOT NULL;

-- messages: how far a workspace has handled its inbox: all up to acked_seq (which was inbound number acked_no),
-- and acked_above single rows behind it
CREATE TABLE inboxes (
    workspace_id TEXT PRIMARY KEY,
    acked_seq BIGINT NOT NULL,
    acked_no BIGINT NOT NULL,
    acked_above BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- messages: rows behind acked_seq that were handed out by a claim or handled out of order
CREATE TABLE handouts (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    acked_at BIGINT,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- messages: how far a person has read the chat of a workspace
CREATE TABLE read_marks (
    person_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (person_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;
