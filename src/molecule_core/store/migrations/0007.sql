-- From schema 6 to 7: approvals.

-- approvals: requests for approval. open 1: not decided. revision counts changes of the content, rev all changes.
-- proposed, edited: the details, canonical JSON. holder_id: the workspace that decides now; NULL: a person. asker: who
-- asked the requester a question. messages numbers its messages; message_id and message_seq: the request in the
-- holder's log; question_seq: the open question in the requester's log. asked: all approvers asked so far. policy,
-- path, decided: JSON, as in wire/schemas/approvals.py
CREATE TABLE approvals (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    requester_name TEXT NOT NULL,
    status TEXT NOT NULL,
    open BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    rev BIGINT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    proposed TEXT NOT NULL,
    edited TEXT,
    action_hash TEXT NOT NULL,
    cost DOUBLE PRECISION,
    task_id TEXT,
    source TEXT NOT NULL,
    tool TEXT,
    risk TEXT NOT NULL,
    holder_id TEXT,
    holder_name TEXT NOT NULL,
    for_person BIGINT NOT NULL,
    asker TEXT,
    messages BIGINT NOT NULL,
    message_id TEXT,
    message_seq BIGINT,
    question_seq BIGINT,
    asked TEXT NOT NULL,
    policy TEXT NOT NULL,
    path TEXT NOT NULL,
    decided TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    level_at BIGINT,
    settled_at BIGINT,
    used_at BIGINT,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX approvals_by_requester ON approvals (workspace_id, created_at, id);
CREATE INDEX approvals_by_age ON approvals (org_id, created_at, id);
CREATE INDEX approvals_open ON approvals (org_id, created_at, id) WHERE open = 1;
CREATE INDEX approvals_of_task ON approvals (org_id, task_id) WHERE open = 1 AND task_id IS NOT NULL;
CREATE INDEX approvals_by_hash ON approvals (workspace_id, action_hash);
CREATE INDEX approvals_by_use ON approvals (workspace_id, action) WHERE used_at IS NOT NULL;
CREATE INDEX approvals_settled ON approvals (org_id, settled_at, id) WHERE settled_at IS NOT NULL;

-- approvals: who was asked to decide which
CREATE TABLE approval_holders (
    workspace_id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, approval_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX approval_holders_by_approval ON approval_holders (approval_id);
CREATE INDEX approval_holders_by_age ON approval_holders (workspace_id, created_at, approval_id);

-- approvals: idempotency keys; a repeated key returns the same approval
CREATE TABLE approval_keys (
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    PRIMARY KEY (workspace_id, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX approval_keys_by_approval ON approval_keys (approval_id);

-- approvals: which actions of a workspace need an approval (rules), and what it decides itself (grants); JSON
CREATE TABLE approval_policies (
    workspace_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    rules TEXT NOT NULL,
    grants TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- From schema 6 to 7: shared context and prompt builds.

-- prompts: the files (JSON) that a workspace shares with its direct children, and the number of their changes
CREATE TABLE shared_contexts (
    workspace_id TEXT PRIMARY KEY,
    revision BIGINT NOT NULL,
    files TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- prompts: the last system prompts that a workspace's agent reported (JSON)
CREATE TABLE prompt_builds (
    workspace_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    hash TEXT NOT NULL,
    build TEXT NOT NULL,
    built_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, revision)
);
