-- From schema 4 to 5: the instruction layer and obligations.

ALTER TABLE workspaces ADD COLUMN instruction_shape TEXT;
ALTER TABLE workspaces ADD COLUMN reply_seconds BIGINT;
ALTER TABLE workspaces ADD COLUMN send_drafts BIGINT NOT NULL DEFAULT 0;

-- instructions: templates of the instructions sent with each delivery. org_id '': built-in ones; a version is never
-- changed. parts is JSON
CREATE TABLE instruction_templates (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    runtime TEXT NOT NULL,
    extends TEXT,
    parts TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (org_id, id, version)
) /*sqlite: WITHOUT ROWID */;

-- instructions: which version of a template is active since when, and which other version gets a share of the messages
CREATE TABLE instruction_choices (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    canary BIGINT,
    percent BIGINT NOT NULL,
    since BIGINT NOT NULL,
    removed_at BIGINT,
    PRIMARY KEY (org_id, id)
) /*sqlite: WITHOUT ROWID */;

-- messages: the full instructions that an agent got last: template (id@version) and facts; missed 1: it has left a
-- message without an answer since
CREATE TABLE instruction_seats (
    workspace_id TEXT PRIMARY KEY,
    template TEXT NOT NULL,
    facts TEXT NOT NULL,
    missed BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- messages: the obligation to answer a message, from its delivery on. state: open, answered or declined; source_id
-- NULL: the sender is a person. due_at NULL: no due time. template (of template_org), version, form, tokens:
-- instructions sent with it
CREATE TABLE obligations (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    activity_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    source_id TEXT,
    state TEXT NOT NULL,
    handed_at BIGINT NOT NULL,
    due_at BIGINT,
    reminded_at BIGINT,
    outside_at BIGINT,
    overdue_at BIGINT,
    closed_at BIGINT,
    answer_id TEXT,
    by_handle BIGINT NOT NULL,
    reason TEXT,
    draft TEXT,
    template_org TEXT,
    template TEXT,
    version BIGINT,
    form TEXT,
    tokens BIGINT,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX obligations_open ON obligations (workspace_id, source_id, seq) WHERE state = 'open';
CREATE INDEX obligations_of_org ON obligations (org_id, workspace_id, seq)
    WHERE state = 'open' AND (overdue_at IS NOT NULL OR outside_at IS NOT NULL);
CREATE INDEX obligations_by_template ON obligations (org_id, template, version, handed_at) WHERE template IS NOT NULL;
