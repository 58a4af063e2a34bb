-- From schema 2 to 3: delivery, chains, files, many processes.

ALTER TABLE activities ADD COLUMN root_id TEXT;
ALTER TABLE activities ADD COLUMN hop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN cause_id TEXT;
ALTER TABLE activities ADD COLUMN expires_at BIGINT;
ALTER TABLE activities ADD COLUMN trace_parent TEXT;

CREATE TABLE changes (
    no BIGINT PRIMARY KEY,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL
);
ALTER TABLE heartbeats ADD COLUMN saved TEXT;
CREATE INDEX heartbeats_by_save ON heartbeats (saved);
