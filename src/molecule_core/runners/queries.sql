-- Runners, their agents, and requests to them.

-- name: insert_runner
-- insert a runner
INSERT INTO runners (id, org_id, name, created_by, created_at, report)
VALUES (:id, :org_id, :name, :created_by, :created_at, :report);

-- name: runner_by_id
-- a runner that is not removed
SELECT id, org_id, name, created_by, created_at, seen_at, report FROM runners
WHERE id = :id AND removed_at IS NULL;

-- name: runners_of_org
-- the runners of an organisation, oldest first
SELECT id, org_id, name, created_by, created_at, seen_at, report FROM runners
WHERE org_id = :org_id AND removed_at IS NULL ORDER BY id;

-- name: save_runner_report
-- save what a runner reported
UPDATE runners SET report = :report, seen_at = :now WHERE id = :id;

-- name: save_runner_seen
-- save when a runner polled
UPDATE runners SET seen_at = :now WHERE id = :id;

-- name: remove_runner
-- mark a runner as removed
UPDATE runners SET removed_at = :now WHERE id = :id;

-- name: save_runner_agent
-- insert or replace the agent of a workspace
INSERT INTO runner_agents (workspace_id, runner_id, org_id, kind, folder, mode, request_id, token_hash, created_at)
VALUES (:workspace_id, :runner_id, :org_id, :kind, :folder, :mode, :request_id, :token_hash, :created_at)
ON CONFLICT (workspace_id) DO UPDATE SET
    runner_id = excluded.runner_id, org_id = excluded.org_id, kind = excluded.kind, folder = excluded.folder,
    mode = excluded.mode, request_id = excluded.request_id, token_hash = excluded.token_hash,
    created_at = excluded.created_at;

-- name: runner_agent
-- the agent of a workspace that a runner was asked to run
SELECT workspace_id, runner_id, org_id, kind, folder, mode, request_id, token_hash, created_at FROM runner_agents
WHERE workspace_id = :workspace_id;

-- name: agents_of_runner
-- the agents of a runner, oldest first
SELECT workspace_id, runner_id, org_id, kind, folder, mode, request_id, token_hash, created_at FROM runner_agents
WHERE runner_id = :runner_id ORDER BY created_at, workspace_id;

-- name: forget_runner_agent
-- delete the agent of a workspace
DELETE FROM runner_agents WHERE workspace_id = :workspace_id;

-- name: insert_runner_request
-- insert a request to a runner
INSERT INTO runner_requests (id, runner_id, org_id, workspace_id, action, status, text, output, created_by, created_at,
    expires_at)
VALUES (:id, :runner_id, :org_id, :workspace_id, :action, :status, :text, :output, :created_by, :created_at,
    :expires_at);

-- name: runner_request
-- a request to a runner
SELECT id, runner_id, org_id, workspace_id, action, status, text, output, created_by, created_at, claimed_at, expires_at
FROM runner_requests WHERE id = :id AND runner_id = :runner_id;

-- name: claimable_runner_requests
-- open requests to a runner: in time, or claimed so long ago that it must have lost them; oldest first
SELECT id, runner_id, org_id, workspace_id, action, status, text, output, created_by, created_at, claimed_at, expires_at
FROM runner_requests
WHERE runner_id = :runner_id AND ((status = 'queued' AND expires_at > :now)
    OR (status = 'claimed' AND claimed_at <= :stale AND expires_at > :now))
ORDER BY id LIMIT :count;

-- name: count_open_runner_requests
-- the number of open requests to a runner
SELECT count(*) FROM runner_requests
WHERE runner_id = :runner_id AND status IN ('queued', 'claimed') AND expires_at > :now;

-- name: open_checks_of_runner
-- open requests to a runner to check an answer
SELECT id, runner_id, org_id, workspace_id, action, status, text, output, created_by, created_at, claimed_at, expires_at
FROM runner_requests
WHERE runner_id = :runner_id AND action = 'check' AND status IN ('queued', 'claimed') AND expires_at > :now;

-- name: claim_runner_request
-- mark a request as claimed
UPDATE runner_requests SET status = 'claimed', claimed_at = :now WHERE id = :id;

-- name: end_runner_request
-- save the outcome of a request
UPDATE runner_requests SET status = :status, text = :text, output = :output WHERE id = :id;

-- name: spent_runner_requests
-- requests that expired before a time, by id
SELECT id FROM runner_requests WHERE id > :id AND expires_at < :before ORDER BY id LIMIT :count;

-- name: forget_runner_request
-- delete a request
DELETE FROM runner_requests WHERE id = :id;

-- name: spent_runners
-- runners that were removed before a time, by id
SELECT id FROM runners WHERE id > :id AND removed_at < :before ORDER BY id LIMIT :count;

-- name: forget_runner
-- delete a runner
DELETE FROM runners WHERE id = :id;
