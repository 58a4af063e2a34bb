-- From schema 12 to 13: A2A agents of others.

ALTER TABLE workspaces ADD COLUMN a2a_card_url TEXT;

-- a2a_agents: the A2A agents of workspaces. credential: readable because the server presents it
CREATE TABLE a2a_agents (
    workspace_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    card_url TEXT NOT NULL,
    etag TEXT,
    card TEXT NOT NULL,
    credential TEXT,
    checked_at BIGINT NOT NULL,
    error TEXT
);

-- a2a_agents: tasks at those agents, each for one message. due: when it is looked at next, or 0
CREATE TABLE a2a_tasks (
    workspace_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    source_id TEXT,
    kind TEXT,
    conversation TEXT NOT NULL,
    task_id TEXT NOT NULL,
    context_id TEXT,
    state TEXT NOT NULL,
    claim BIGINT NOT NULL,
    polls BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    asked TEXT,
    due BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, activity_id)
);
CREATE INDEX a2a_tasks_by_conversation ON a2a_tasks (workspace_id, conversation, created_at, activity_id);
CREATE INDEX a2a_tasks_by_due ON a2a_tasks (due);
CREATE INDEX a2a_tasks_by_time ON a2a_tasks (updated_at, workspace_id, activity_id);
