-- From schema 14 to 15: webhooks of tasks.

-- webhooks: addresses to which the changes of a task are posted. owner: key of the caller who created it; token and
-- credentials are sent with each post, so they are readable. cursor: journal number of the last change that was accepted,
-- -1: not even the task itself; next_at: not before this time, after a failure; holder: the process that follows it until
-- due
CREATE TABLE task_webhooks (
    org_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    line TEXT NOT NULL,
    url TEXT NOT NULL,
    token TEXT NOT NULL,
    scheme TEXT NOT NULL,
    credentials TEXT NOT NULL,
    rev BIGINT NOT NULL,
    state TEXT NOT NULL,
    cursor BIGINT NOT NULL,
    posted BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    last_error TEXT,
    holder TEXT NOT NULL,
    due BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, task_id, owner, id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX task_webhooks_by_due ON task_webhooks (due) WHERE state = 'active';
CREATE INDEX task_webhooks_by_org ON task_webhooks (org_id) WHERE state = 'active';
CREATE INDEX task_webhooks_by_holder ON task_webhooks (holder) WHERE state = 'active';
CREATE INDEX task_webhooks_by_workspace ON task_webhooks (workspace_id, created_at);
CREATE INDEX task_webhooks_by_owner ON task_webhooks (owner);
CREATE INDEX task_webhooks_by_change ON task_webhooks (changed_at) WHERE state <> 'active';
