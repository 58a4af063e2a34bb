-- From schema 2 to 3: delivery, chains, files, many processes.

ALTER TABLE activities ADD COLUMN root_id TEXT;
ALTER TABLE activities ADD COLUMN hop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN cause_id TEXT;
ALTER TABLE activities ADD COLUMN expires_at BIGINT;
ALTER TABLE activities ADD COLUMN trace_parent TEXT;

-- messages: the files that came in; their bytes are in a folder, under their ids. activity_id: the row that told a
-- polling agent of it
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

-- messages: which message mentions which file, and to whom it went: whoever was sent a file may read it
CREATE TABLE file_mentions (
    file_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    PRIMARY KEY (file_id, activity_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX file_mentions_by_activity ON file_mentions (activity_id);
