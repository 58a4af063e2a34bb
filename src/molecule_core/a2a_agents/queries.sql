-- A2A agents of others, and their tasks.

-- name: a2a_agent
-- the A2A agent of a workspace
SELECT workspace_id, org_id, card_url, etag, card, credential, checked_at, error, notification_key, card_keys,
    signature
FROM a2a_agents WHERE workspace_id = :workspace_id;

-- name: save_a2a_agent
-- store the A2A agent of a workspace; its notification key stays, so that open tasks go on notifying
INSERT INTO a2a_agents (workspace_id, org_id, card_url, etag, card, credential, checked_at, error, notification_key,
    card_keys, signature)
VALUES (:workspace_id, :org_id, :card_url, :etag, :card, :credential, :checked_at, :error, :notification_key,
    :card_keys, :signature)
ON CONFLICT (workspace_id) DO UPDATE SET
    card_url = excluded.card_url, etag = excluded.etag, card = excluded.card, credential = excluded.credential,
    checked_at = excluded.checked_at, error = excluded.error, card_keys = excluded.card_keys,
    signature = excluded.signature;

-- name: save_a2a_check
-- store the result of a check of a card, unless its address or its keys have changed meanwhile
UPDATE a2a_agents SET etag = :etag, card = :card, checked_at = :checked_at, error = :error,
    notification_key = :notification_key, signature = :signature
WHERE workspace_id = :workspace_id AND card_url = :card_url AND COALESCE(card_keys, '') = :card_keys;

-- name: forget_a2a_agent
-- delete the A2A agent of a workspace, with its credential
DELETE FROM a2a_agents WHERE workspace_id = :workspace_id;

-- name: a2a_task
-- the task that carries a message
SELECT workspace_id, activity_id, org_id, seq, source_id, kind, conversation, task_id, context_id, state, claim, polls,
    failures, asked, due, created_at, updated_at, notified, leased_until
FROM a2a_tasks WHERE workspace_id = :workspace_id AND activity_id = :activity_id;

-- name: a2a_tasks_of_conversation
-- the last tasks of a conversation, the newest first
SELECT workspace_id, activity_id, org_id, seq, source_id, kind, conversation, task_id, context_id, state, claim, polls,
    failures, asked, due, created_at, updated_at, notified, leased_until
FROM a2a_tasks WHERE workspace_id = :workspace_id AND conversation = :conversation
ORDER BY created_at DESC, activity_id DESC LIMIT :count;

-- name: save_a2a_task
-- store a task
INSERT INTO a2a_tasks (workspace_id, activity_id, org_id, seq, source_id, kind, conversation, task_id, context_id,
    state, claim, polls, failures, asked, due, created_at, updated_at, notified, leased_until)
VALUES (:workspace_id, :activity_id, :org_id, :seq, :source_id, :kind, :conversation, :task_id, :context_id,
    :state, :claim, :polls, :failures, :asked, :due, :created_at, :updated_at, :notified, :leased_until)
ON CONFLICT (workspace_id, activity_id) DO UPDATE SET
    task_id = excluded.task_id, context_id = excluded.context_id, state = excluded.state, claim = excluded.claim,
    polls = excluded.polls, failures = excluded.failures, asked = excluded.asked, due = excluded.due,
    updated_at = excluded.updated_at, notified = excluded.notified, leased_until = excluded.leased_until;

-- name: open_a2a_tasks
-- the tasks that are followed
SELECT workspace_id, activity_id, due FROM a2a_tasks WHERE due > :after ORDER BY due LIMIT :count;

-- name: forget_a2a_tasks
-- delete the tasks of a workspace
DELETE FROM a2a_tasks WHERE workspace_id = :workspace_id;

-- name: spent_a2a_tasks
-- tasks that did not change since a time
SELECT updated_at, workspace_id, activity_id FROM a2a_tasks
WHERE (updated_at, workspace_id, activity_id) > (:updated_at, :workspace_id, :activity_id) AND updated_at < :before
ORDER BY updated_at, workspace_id, activity_id LIMIT :count;

-- name: forget_a2a_task
-- delete a task
DELETE FROM a2a_tasks WHERE workspace_id = :workspace_id AND activity_id = :activity_id;
