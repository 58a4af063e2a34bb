-- From schema 21 to 22: schedules.

-- schedules: what is sent or delegated at planned times. source_id: the workspace that it acts for, NULL: its author, a
-- person. cron with time_zone, or once_at. work: what it does, as JSON. pause_reason: why the server paused it. next_at:
-- the next planned time, NULL: none
CREATE TABLE schedules (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    source_id TEXT,
    target_id TEXT NOT NULL,
    author TEXT NOT NULL,
    author_id TEXT,
    author_name TEXT,
    cron TEXT,
    time_zone TEXT NOT NULL,
    once_at BIGINT,
    work TEXT NOT NULL,
    misses TEXT NOT NULL,
    overlap TEXT NOT NULL,
    paused BIGINT NOT NULL,
    pause_reason TEXT NOT NULL,
    next_at BIGINT,
    rev BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;
CREATE UNIQUE INDEX schedules_by_name ON schedules (org_id, name);

-- schedules: the planned times that came, and what was done. work_id: the message or delegation. missed: planned times
-- before it for which no server was up
CREATE TABLE schedule_runs (
    schedule_id TEXT NOT NULL,
    planned_at BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    ran_at BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT NOT NULL,
    work_id TEXT,
    missed BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, planned_at)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX schedule_runs_queued ON schedule_runs (schedule_id, planned_at) WHERE outcome = 'queued';
