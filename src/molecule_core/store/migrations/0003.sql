-- From schema 2 to 3: delivery, chains, files, many processes.

ALTER TABLE activities ADD COLUMN root_id TEXT;
ALTER TABLE activities ADD COLUMN hop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN cause_id TEXT;
ALTER TABLE activities ADD COLUMN expires_at BIGINT;
ALTER TABLE activities ADD COLUMN trace_parent TEXT;
ALTER TABLE activities ADD COLUMN chain_no BIGINT;
ALTER TABLE activities ADD COLUMN small_talk BIGINT;
CREATE UNIQUE INDEX activities_by_chain ON activities (root_id, chain_no) WHERE chain_no IS NOT NULL;

-- messages: chains of messages that reached a limit, and the decision of a person. most_*: limits of this chain.
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

ALTER TABLE inboxes ADD COLUMN requeued BIGINT NOT NULL DEFAULT 0;
ALTER TABLE inboxes ADD COLUMN dead BIGINT NOT NULL DEFAULT 0;
ALTER TABLE handouts ADD COLUMN requeued BIGINT NOT NULL DEFAULT 0;
ALTER TABLE handouts ADD COLUMN shown_behind BIGINT;

-- messages: what was delivered, acknowledged or dead-lettered when, as ranges of inbound numbers: the source of ticks
CREATE TABLE handovers (
    workspace_id TEXT NOT NULL,
    first_no BIGINT NOT NULL,
    last_no BIGINT NOT NULL,
    tick TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    reason TEXT
);
CREATE INDEX handovers_by_number ON handovers (workspace_id, first_no);

-- messages: dead letters and their state: dead, requeued, handled or discarded
CREATE TABLE dead_letters (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT,
    attempts BIGINT NOT NULL,
    died_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX dead_letters_by_org ON dead_letters (org_id, died_at, activity_id) WHERE state = 'dead';

-- messages: state of the push of a message. failures: failed attempts, up to the limit for dead letters; next_at 0: no
-- attempt is planned; busy = 1: the agent had no capacity, which is no failure; answer: the agent's answer, as JSON
CREATE TABLE pushes (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    busy BIGINT NOT NULL,
    noted_at BIGINT NOT NULL,
    last_error TEXT,
    answer TEXT,
    answered_at BIGINT,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- messages: push agents that have mail, and when to try each
CREATE TABLE push_targets (
    workspace_id TEXT PRIMARY KEY,
    due BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX push_targets_by_due ON push_targets (due);

-- messages: attached files; their bytes are in the blob store under their ids. activity_id: the row that announced the
-- file to a polling agent
CREATE TABLE files (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    uploaded_by TEXT NOT NULL,
    name TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    activity_id TEXT,
    created_at BIGINT NOT NULL,
    acked_at BIGINT
);

-- messages: which message mentions which file, and its recipient, who may read the file
CREATE TABLE file_mentions (
    file_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    PRIMARY KEY (file_id, activity_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX file_mentions_by_activity ON file_mentions (activity_id);
