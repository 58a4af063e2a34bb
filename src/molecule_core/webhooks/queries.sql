-- Webhooks of tasks. A row without a holder is claimed by the process that finds it due.

-- name: save_webhook
-- insert a webhook, or replace one: its task is posted anew
INSERT INTO task_webhooks (org_id, task_id, owner, id, workspace_id, line, url, token, scheme, credentials, rev, state,
    cursor, posted, failures, next_at, last_error, holder, due, created_at, changed_at)
VALUES (:org_id, :task_id, :owner, :id, :workspace_id, :line, :url, :token, :scheme, :credentials, :rev, :state,
    :cursor, :posted, :failures, :next_at, :last_error, :holder, :due, :created_at, :changed_at)
ON CONFLICT (org_id, task_id, owner, id) DO UPDATE SET
    line = excluded.line, url = excluded.url, token = excluded.token, scheme = excluded.scheme,
    credentials = excluded.credentials, rev = excluded.rev, state = excluded.state, cursor = excluded.cursor,
    posted = excluded.posted, failures = excluded.failures, next_at = excluded.next_at,
    last_error = excluded.last_error, holder = excluded.holder, due = excluded.due, changed_at = excluded.changed_at;

-- name: webhook
-- one webhook
SELECT org_id, task_id, owner, id, workspace_id, line, url, token, scheme, credentials, rev, state, cursor, posted,
    failures, next_at, last_error, holder, due, created_at, changed_at
FROM task_webhooks WHERE org_id = :org_id AND task_id = :task_id AND owner = :owner AND id = :id;

-- name: webhooks_of_task
-- the webhooks of a caller for a task, by id
SELECT org_id, task_id, owner, id, workspace_id, line, url, token, scheme, credentials, rev, state, cursor, posted,
    failures, next_at, last_error, holder, due, created_at, changed_at
FROM task_webhooks WHERE org_id = :org_id AND task_id = :task_id AND owner = :owner ORDER BY id LIMIT :count;

-- name: webhooks_of_workspace
-- the newest webhooks for tasks of a workspace
SELECT org_id, task_id, owner, id, workspace_id, line, url, token, scheme, credentials, rev, state, cursor, posted,
    failures, next_at, last_error, holder, due, created_at, changed_at
FROM task_webhooks WHERE workspace_id = :workspace_id ORDER BY created_at DESC, task_id, owner, id LIMIT :count;

-- name: count_webhooks
-- the number of webhooks of an organisation that are posted to
SELECT count(*) FROM task_webhooks WHERE org_id = :org_id AND state = 'active';

-- name: due_webhooks
-- webhooks that no running process follows, longest due first
SELECT org_id, task_id, owner, id FROM task_webhooks WHERE state = 'active' AND due <= :now ORDER BY due LIMIT :count;

-- name: webhooks_of_holder
-- the webhooks that a process follows
SELECT org_id, task_id, owner, id, rev FROM task_webhooks WHERE state = 'active' AND holder = :holder;

-- name: claim_webhook
-- let a process follow a webhook until a time
UPDATE task_webhooks SET holder = :holder, due = :due
WHERE org_id = :org_id AND task_id = :task_id AND owner = :owner AND id = :id;

-- name: renew_webhooks
-- let a process follow its webhooks until a time
UPDATE task_webhooks SET due = :due WHERE state = 'active' AND holder = :holder;

-- name: release_webhooks
-- let the webhooks of a process be claimed from a time on
UPDATE task_webhooks SET due = :due, holder = '' WHERE state = 'active' AND holder = :holder;

-- name: release_all_webhooks
-- let the webhooks of dead processes be claimed at once
UPDATE task_webhooks SET due = :now, holder = '' WHERE state = 'active' AND holder <> '';

-- name: save_webhook_progress
-- save the outcome of a post
UPDATE task_webhooks SET state = :state, cursor = :cursor, posted = :posted, failures = :failures, next_at = :next_at,
    last_error = :last_error, changed_at = :changed_at
WHERE org_id = :org_id AND task_id = :task_id AND owner = :owner AND id = :id;

-- name: forget_webhook
-- delete a webhook
DELETE FROM task_webhooks WHERE org_id = :org_id AND task_id = :task_id AND owner = :owner AND id = :id;

-- name: forget_workspace_webhooks
-- delete the webhooks for tasks of a workspace
DELETE FROM task_webhooks WHERE workspace_id = :workspace_id;

-- name: forget_owner_webhooks
-- delete the webhooks of an owner
DELETE FROM task_webhooks WHERE owner = :owner;

-- name: spent_webhooks
-- webhooks that are not posted to any more and have not changed since a time, oldest first
SELECT org_id, task_id, owner, id, changed_at FROM task_webhooks
WHERE state <> 'active' AND changed_at < :before AND (changed_at, org_id, task_id, owner, id) >
    (:changed_at, :org_id, :task_id, :owner, :id)
ORDER BY changed_at, org_id, task_id, owner, id LIMIT :count;
