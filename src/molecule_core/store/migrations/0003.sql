-- From schema 2 to 3: delivery, chains, files, many processes.

ALTER TABLE activities ADD COLUMN root_id TEXT;
ALTER TABLE activities ADD COLUMN hop BIGINT NOT NULL DEFAULT 0;
ALTER TABLE activities ADD COLUMN cause_id TEXT;
ALTER TABLE activities ADD COLUMN expires_at BIGINT;
ALTER TABLE activities ADD COLUMN trace_parent TEXT;

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
