-- From schema 2 to 3: delivery, chains, files, many processes.

ALTER TABLE activities ADD COLUMN root_id TEXT;
ALTER TABLE activities ADD COLUMN hop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN cause_id TEXT;
ALTER TABLE activities ADD COLUMN expires_at BIGINT;
ALTER TABLE activities ADD COLUMN trace_parent TEXT;

ALTER TABLE inboxes ADD COLUMN requeued BIGINT NOT NULL DEFAULT 0;
ALTER TABLE inboxes ADD COLUMN dead BIGINT NOT NULL DEFAULT 0;
ALTER TABLE handouts ADD COLUMN requeued BIGINT NOT NULL DEFAULT 0;
ALTER TABLE handouts ADD COLUMN shown_behind BIGINT;

-- messages: what was handed out, settled or given up when, as ranges of an inbox's numbers: what ticks are made of
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

-- messages: what was given up, and what became of it: dead, requeued, handled or discarded
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

-- messages: how the delivery of a message to a push agent stands. failures count towards its death; next_at 0: none is
-- planned; busy = 1: the agent had no time, which is no failure; answer: what the agent said, as JSON
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

-- messages: push agents that have mail, and when to look at each
CREATE TABLE push_targets (
    workspace_id TEXT PRIMARY KEY,
    due BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX push_targets_by_due ON push_targets (due);
