-- Approvals: rows, approvers, idempotency keys, uses, policies.

-- name: approval
-- an approval of an organisation
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals WHERE org_id = :org_id AND id = :id;

-- name: insert_approval
-- insert an approval
INSERT INTO approvals (
    org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
) VALUES (
    :org_id, :id, :workspace_id, :requester_name, :status, :open, :revision, :rev, :action, :reason, :proposed,
    :edited,
    :action_hash, :cost, :task_id, :thread_id, :source, :tool, :risk, :holder_id, :holder_name, :for_person, :asker, :messages,
    :message_id, :message_seq, :question_seq, :asked, :policy, :path, :decided, :created_at, :updated_at, :expires_at,
    :level_at, :settled_at, :used_at
);

-- name: save_approval
-- update an approval
UPDATE approvals SET
    status = :status, open = :open, revision = :revision, rev = :rev, reason = :reason, proposed = :proposed,
    edited = :edited, action_hash =
    :action_hash, holder_id = :holder_id, holder_name = :holder_name, for_person = :for_person, asker = :asker,
    messages
    = :messages, message_id = :message_id, message_seq = :message_seq, question_seq = :question_seq, asked = :asked,
    policy = :policy, path = :path, decided = :decided, updated_at = :updated_at, expires_at = :expires_at, level_at =
    :level_at, settled_at = :settled_at, used_at = :used_at
WHERE org_id = :org_id AND id = :id;

-- name: record_approver
-- record that a workspace was asked to decide
INSERT INTO approval_holders (workspace_id, approval_id, created_at) VALUES (:workspace_id, :approval_id, :created_at)
ON CONFLICT (workspace_id, approval_id) DO NOTHING;

-- name: approval_by_key
-- the approval requested under an idempotency key, with the hash of its content
SELECT content_hash, approval_id FROM approval_keys WHERE workspace_id = :workspace_id AND key = :key;

-- name: keep_approval_key
-- store an idempotency key
INSERT INTO approval_keys (workspace_id, key, approval_id, content_hash) VALUES (:workspace_id, :key, :approval_id,
    :content_hash);

-- name: keep_approval_use
-- store the key under which an approval was used; a repetition under it needs no other approval
INSERT INTO approval_keys (workspace_id, key, approval_id, content_hash) VALUES (:workspace_id, :key, :approval_id,
    :content_hash)
ON CONFLICT (workspace_id, key) DO UPDATE SET approval_id = excluded.approval_id, content_hash = excluded.content_hash;

-- name: approval_use
-- when an approval was used under a key for exactly this action
SELECT a.used_at FROM approval_keys k JOIN approvals a ON a.id = k.approval_id AND a.workspace_id = k.workspace_id
WHERE k.workspace_id = :workspace_id AND k.key = :key AND k.content_hash = :content_hash;

-- name: approvals_open_of
-- the number of open approvals of a workspace
SELECT count(*) FROM approvals WHERE workspace_id = :workspace_id AND open = 1;

-- name: approval_open_same
-- the approval that a rule requested for exactly this action of a workspace: open, or approved and unused since a time
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE workspace_id = :workspace_id AND action_hash = :action_hash AND source = 'rule' AND used_at IS NULL
    AND (open = 1 OR (status = 'approved' AND settled_at > :usable_since))
ORDER BY created_at DESC, id DESC LIMIT 1;

-- name: approval_used_before
-- whether a workspace has used an approval for an action of this name
SELECT id FROM approvals WHERE workspace_id = :workspace_id AND action = :action AND used_at IS NOT NULL LIMIT 1;

-- name: approvals_requested
-- approvals that a workspace requested, newest first, before one of them
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE workspace_id = :workspace_id AND (CAST(:status AS TEXT) IS NULL OR status = :status)
    AND (CAST(:is_open AS BIGINT) IS NULL OR open = :is_open)
    AND (created_at < :before_at OR (created_at = :before_at AND id < :before_id))
ORDER BY created_at DESC, id DESC LIMIT :count;

-- name: approvals_requested_between
-- approvals that a workspace requested from one time to another, oldest first
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE workspace_id = :workspace_id AND created_at >= :since AND created_at <= :until
ORDER BY created_at, id LIMIT :count;

-- name: approvals_to_decide
-- approvals that a workspace was asked to decide, newest first, before one of them
SELECT a.org_id, a.id, a.workspace_id, a.requester_name, a.status, a.open, a.revision, a.rev, a.action, a.reason,
    a.proposed, a.edited, a.action_hash, a.cost, a.task_id, a.thread_id, a.source, a.tool, a.risk, a.holder_id, a.holder_name,
    a.for_person, a.asker, a.messages, a.message_id, a.message_seq, a.question_seq, a.asked, a.policy, a.path,
    a.decided, a.created_at, a.updated_at, a.expires_at, a.level_at, a.settled_at, a.used_at
FROM approval_holders h JOIN approvals a ON a.org_id = :org_id AND a.id = h.approval_id
WHERE h.workspace_id = :workspace_id AND (CAST(:status AS TEXT) IS NULL OR a.status = :status)
    AND (CAST(:is_open AS BIGINT) IS NULL OR a.open = :is_open)
    AND (h.created_at < :before_at OR (h.created_at = :before_at AND h.approval_id < :before_id))
ORDER BY h.created_at DESC, h.approval_id DESC LIMIT :count;

-- name: approvals_open
-- the open approvals of an organisation, oldest first, after one of them
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE org_id = :org_id AND open = 1 AND (created_at > :after_at OR (created_at = :after_at AND id > :after_id))
ORDER BY created_at, id LIMIT :count;

-- name: approvals_of_org
-- the approvals of an organisation, newest first, before one of them
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE org_id = :org_id AND (CAST(:status AS TEXT) IS NULL OR status = :status)
    AND (CAST(:is_open AS BIGINT) IS NULL OR open = :is_open)
    AND (created_at < :before_at OR (created_at = :before_at AND id < :before_id))
ORDER BY created_at DESC, id DESC LIMIT :count;

-- name: approvals_open_count
-- the number of open approvals of an organisation, and when the oldest was created
SELECT count(*), min(created_at) FROM approvals WHERE org_id = :org_id AND open = 1;

-- name: approvals_settled_since
-- the approvals of an organisation that ended since a time, newest first
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE org_id = :org_id AND settled_at >= :since
ORDER BY settled_at DESC, id DESC LIMIT :count;

-- name: open_approvals_of_workspace
-- the open approvals that a workspace requested or must decide
SELECT id FROM approvals
WHERE org_id = :org_id AND open = 1 AND (workspace_id = :workspace_id OR holder_id = :workspace_id);

-- name: approval_of_task
-- the oldest open approval that a workspace requested for a task
SELECT org_id, id, workspace_id, requester_name, status, open, revision, rev, action, reason, proposed, edited,
    action_hash, cost, task_id, thread_id, source, tool, risk, holder_id, holder_name, for_person, asker, messages, message_id,
    message_seq, question_seq, asked, policy, path, decided, created_at, updated_at, expires_at, level_at, settled_at,
    used_at
FROM approvals
WHERE org_id = :org_id AND task_id = :task_id AND workspace_id = :workspace_id AND open = 1
ORDER BY created_at, id LIMIT 1;

-- name: policies_of
-- the policies of a workspace
SELECT rules, grants FROM approval_policies WHERE workspace_id = :workspace_id;

-- name: all_policies
-- the policies of all workspaces
SELECT workspace_id, rules, grants FROM approval_policies;

-- name: save_policies
-- store the policies of a workspace
-- mirrored: approval_policies by workspace_id
INSERT INTO approval_policies (workspace_id, org_id, rules, grants, updated_at, updated_by)
VALUES (:workspace_id, :org_id, :rules, :grants, :updated_at, :updated_by)
ON CONFLICT (workspace_id) DO UPDATE SET
    rules = excluded.rules, grants = excluded.grants, updated_at = excluded.updated_at,
    updated_by = excluded.updated_by;

-- name: old_approvals
-- approvals of an organisation that ended before a time, after one of them
SELECT id, settled_at FROM approvals
WHERE org_id = :org_id AND settled_at < :before
    AND (settled_at > :settled_at OR (settled_at = :settled_at AND id > :id))
ORDER BY settled_at, id LIMIT :count;

-- name: forget_approval
-- delete an approval
DELETE FROM approvals WHERE org_id = :org_id AND id = :id;

-- name: forget_approval_holders
-- delete its approvers
DELETE FROM approval_holders WHERE approval_id = :id;

-- name: forget_approval_keys
-- delete its idempotency keys
DELETE FROM approval_keys WHERE approval_id = :id;
