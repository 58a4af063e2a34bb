-- From schema 2 to 3: delivery, chains, files, many processes.

ALTER TABLE activities ADD COLUMN root_id TEXT;
ALTER TABLE activities ADD COLUMN hop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN cause_id TEXT;
ALTER TABLE activities ADD COLUMN expires_at BIGINT;
ALTER TABLE activities ADD COLUMN trace_parent TEXT;
ALTER TABLE activities ADD COLUMN chain_no BIGINT;
ALTER TABLE activities ADD COLUMN small_talk BIGINT;
CREATE UNIQUE INDEX activities_by_chain ON activities (root_id, chain_no) WHERE chain_no IS NOT NULL;

-- messages: chains of messages that ran into a limit, and what a person decided. most_*: how far each may go.
CREATE TABLE chains (
    root_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    trips BIGINT NOT NULL,
    hops BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    small_talk BIGINT NOT NULL,
    most_hops BIGINT NOT NULL,
    most_messages BIGINT NOT NULL,
    most_small_talk BIGINT NOT NULL,
    frozen_at BIGINT NOT NULL,
    released_at BIGINT,
    ended_at BIGINT,
    decided_by TEXT
);
CREATE INDEX chains_by_org ON chains (org_id, frozen_at, root_id);

ALTER TABLE workspaces ADD COLUMN key TEXT;
ALTER TABLE persons ADD COLUMN removed_at BIGINT;
ALTER TABLE workspace_tokens ADD COLUMN expires_at BIGINT;
CREATE INDEX workspace_tokens_by_workspace ON workspace_tokens (workspace_id);
CREATE INDEX person_tokens_by_person ON person_tokens (person_id);
CREATE TABLE invitations (
    hash TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    invited_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX invitations_by_org ON invitations (org_id);

CREATE TABLE changes (
    no BIGINT PRIMARY KEY,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL
);
ALTER TABLE heartbeats ADD COLUMN saved TEXT;
CREATE INDEX heartbeats_by_save ON heartbeats (saved);
