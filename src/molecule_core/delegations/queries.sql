-- Delegations: rows, timelines, idempotency keys, progress, history.

-- name: delegation_usage
-- how many delegations an organisation (workspace_id '') and one of its workspaces have open
SELECT workspace_id, open FROM delegation_usage WHERE org_id = :org_id AND workspace_id IN ('', :workspace_id);

-- name: add_open_delegations
-- add to the number of open delegations of a workspace or an organisation
INSERT INTO delegation_usage (org_id, workspace_id, open) VALUES (:org_id, :workspace_id, :count)
ON CONFLICT (org_id, workspace_id) DO UPDATE SET open = delegation_usage.open + excluded.open;

-- name: delegation
-- a delegation of an organisation
SELECT org_id, id, source_id, target_id, status, phase, rev, open, reason, error, task, task_hash, result, via, seq,
    activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
FROM delegations WHERE org_id = :org_id AND id = :id;

-- name: open_delegation_of_task
-- the open delegation of the same task from one workspace to another
SELECT org_id, id, source_id, target_id, status, phase, rev, open, reason, error, task, task_hash, result, via, seq,
    activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
FROM delegations
WHERE source_id = :source_id AND target_id = :target_id AND task_hash = :task_hash AND open = 1 AND recorded = 0;

-- name: delegation_between
-- whether a workspace has an open delegation to another one
SELECT 1 FROM delegations WHERE source_id = :source_id AND target_id = :target_id AND open = 1 AND recorded = 0 LIMIT 1;

-- name: delegation_by_key
-- the delegation that began under an idempotency key, with the hash and time of the key
SELECT y.content_hash, y.created_at, d.org_id, d.id, d.source_id, d.target_id, d.status, d.phase, d.rev, d.open,
    d.reason, d.error, d.task, d.task_hash, d.result, d.via, d.seq, d.activity_id, d.message_seq, d.result_id,
    d.result_seq, d.parent_id, d.root_id, d.root_no, d.depth, d.hop, d.chain_id, d.cause_id, d.context_id, d.recorded,
    d.begun_by, d.retry_of, d.attempt, d.created_at, d.updated_at, d.taken_at, d.life_at, d.settled_at, d.deadline_at,
    d.unsure_at, d.wait_until, d.checks
FROM delegation_keys y JOIN delegations d ON d.org_id = :org_id AND d.id = y.delegation_id
WHERE y.source_id = :source_id AND y.key = :key;

-- name: delegation_of_result
-- the parent of the delegation whose result is a row of an inbox
SELECT parent_id FROM delegations WHERE result_id = :result_id AND source_id = :source_id;

-- name: delegation_answer
-- the body of the inbox row that carries the result of a delegation
SELECT request_body FROM activities WHERE workspace_id = :source_id AND seq = :seq;

-- name: delegation_lineage
-- a delegation with its scope, and its ancestors, up to the root
WITH RECURSIVE way AS (
    SELECT d.id, d.parent_id, d.root_id, d.source_id, d.target_id, d.task_hash, d.depth, d.open, d.deadline_at
    FROM delegations d WHERE d.org_id = :org_id AND d.id = :id
    UNION ALL
    SELECT u.id, u.parent_id, u.root_id, u.source_id, u.target_id, u.task_hash, u.depth, u.open, u.deadline_at
    FROM way w JOIN delegations u ON u.org_id = :org_id AND u.id = w.parent_id AND u.depth < w.depth
)
SELECT id, parent_id, root_id, source_id, target_id, task_hash, depth, open, deadline_at, CASE WHEN id = :id THEN (
    SELECT s.may FROM delegation_scopes s WHERE s.org_id = :org_id AND s.delegation_id = :id
) END AS may FROM way ORDER BY depth DESC;

-- name: insert_delegation_scope
-- store what a delegation may do
-- mirrored: delegation_scope by workspace_id
INSERT INTO delegation_scopes (org_id, delegation_id, workspace_id, open, may)
VALUES (:org_id, :delegation_id, :workspace_id, 1, :may);

-- name: end_delegation_scope
-- mark the scope of a delegation as ended
-- mirrored: delegation_scope by workspace_id
UPDATE delegation_scopes SET open = 0
WHERE org_id = :org_id AND delegation_id = :delegation_id AND workspace_id = :workspace_id;

-- name: delegation_scope
-- what a delegation may do
SELECT may FROM delegation_scopes WHERE org_id = :org_id AND delegation_id = :delegation_id;

-- name: open_scopes_of
-- the scopes of the open delegations to a workspace
SELECT delegation_id, may FROM delegation_scopes WHERE workspace_id = :workspace_id AND open = 1;

-- name: all_open_scopes
-- the scopes of all open delegations
SELECT workspace_id, delegation_id, may FROM delegation_scopes WHERE open = 1;

-- name: forget_delegation_scope
-- delete the scope of a delegation
-- mirrored: nothing, an ended delegation is in no cache
DELETE FROM delegation_scopes WHERE org_id = :org_id AND delegation_id = :id;

-- name: delegation_children
-- the number of open delegations directly below one
SELECT count(*) FROM delegations WHERE org_id = :org_id AND parent_id = :parent_id AND open = 1;

-- name: last_in_root
-- the highest number of a delegation in a tree
SELECT max(root_no) FROM delegations WHERE root_id = :key;

-- name: insert_delegation
-- insert a delegation
INSERT INTO delegations (
    org_id, id, source_id, target_id, status, phase, rev, open, reason, error, task, task_hash, result, via, seq,
    activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
) VALUES (
    :org_id, :id, :source_id, :target_id, :status, :phase, :rev, :open, :reason, :error, :task, :task_hash, :result,
    :via, :seq, :activity_id, :message_seq, :result_id, :result_seq, :parent_id, :root_id, :root_no, :depth, :hop,
    :chain_id, :cause_id, :context_id, :recorded, :begun_by, :retry_of, :attempt, :created_at, :updated_at, :taken_at,
    :life_at, :settled_at, :deadline_at, :unsure_at, :wait_until, :checks
);

-- name: save_delegation
-- update a delegation
UPDATE delegations SET
    status = :status, phase = :phase, rev = :rev, open = :open, reason = :reason, error = :error, result = :result,
    via = :via, result_id = :result_id, result_seq = :result_seq, attempt = :attempt, updated_at = :updated_at,
    taken_at = :taken_at, life_at = :life_at, settled_at = :settled_at, unsure_at = :unsure_at, wait_until =
    :wait_until, message_seq = :message_seq
WHERE org_id = :org_id AND id = :id;

-- name: append_timeline_entry
-- append an entry to a timeline
INSERT INTO delegation_facts (org_id, delegation_id, no, at, fact, status, phase, attempt, late, detail) VALUES (
    :org_id, :delegation_id, coalesce((
        SELECT max(f.no) FROM delegation_facts f WHERE f.org_id = :org_id AND f.delegation_id = :delegation_id
    ), 0) + 1, :at, :fact, :status, :phase, :attempt, :late, :detail
);

-- name: keep_delegation_key
-- store an idempotency key; an expired one is replaced
INSERT INTO delegation_keys (source_id, key, delegation_id, content_hash, created_at)
VALUES (:source_id, :key, :delegation_id, :content_hash, :created_at)
ON CONFLICT (source_id, key) DO UPDATE SET
    delegation_id = excluded.delegation_id, content_hash = excluded.content_hash, created_at = excluded.created_at;

-- name: free_delegation_keys
-- delete the keys of a failed delegation, so that it can begin again under the same key
DELETE FROM delegation_keys WHERE source_id = :source_id AND delegation_id = :delegation_id;

-- name: keep_delegation_history
-- insert the analytics row of an ended delegation; a recorded delegation with the same id replaces it
INSERT INTO delegation_history (
    org_id, delegation_id, source_id, target_id, status, reason, depth, attempt, created_at, taken_at, settled_at
) VALUES (
    :org_id, :id, :source_id, :target_id, :status, :reason, :depth, :attempt, :created_at, :taken_at, :settled_at
) ON CONFLICT (org_id, delegation_id) DO UPDATE SET
    source_id = excluded.source_id, target_id = excluded.target_id, status = excluded.status, reason = excluded.reason,
    depth = excluded.depth, attempt = excluded.attempt, created_at = excluded.created_at, taken_at = excluded.taken_at,
    settled_at = excluded.settled_at;

-- name: delegation_facts_of
-- the end of a delegation's timeline; entries are numbered from 1
SELECT no, at, fact, status, phase, attempt, late, detail
FROM delegation_facts WHERE org_id = :org_id AND delegation_id = :delegation_id AND no > (
    SELECT max(f.no) FROM delegation_facts f WHERE f.org_id = :org_id AND f.delegation_id = :delegation_id
) - :count ORDER BY no;

-- name: delegations_open
-- the open delegations of an organisation, newest first; texts are cut
SELECT org_id, id, source_id, target_id, status, phase, rev, open, reason,
    substr(error, 1, :text_most) AS error, substr(task, 1, :task_most) AS task, task_hash,
    substr(result, 1, :text_most) AS result, via, seq, activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
FROM delegations WHERE org_id = :org_id AND open = 1 ORDER BY created_at DESC, id DESC LIMIT :count;

-- name: delegations_refused
-- rejections of delegations in an organisation up to a journal number and since a time, newest first
SELECT seq, workspace_id, at, payload
FROM events
WHERE org_id = :org_id AND entity_kind = 'refusal' AND seq <= :upto AND at >= :since
ORDER BY seq DESC LIMIT :count;

-- name: delegations_sent
-- delegations from a workspace, newest first; filtered by status or to open ones, before a number of its log; up to a number of bytes but at least one
SELECT d.org_id, d.id, d.source_id, d.target_id, d.status, d.phase, d.rev, d.open, d.reason, d.error,
    substr(d.task, 1, :task_most) AS task, d.task_hash, d.result, d.via, d.seq, d.activity_id, d.message_seq, d.result_id,
    d.result_seq, d.parent_id, d.root_id, d.root_no, d.depth, d.hop, d.chain_id, d.cause_id, d.context_id, d.recorded,
    d.begun_by, d.retry_of, d.attempt, d.created_at, d.updated_at, d.taken_at, d.life_at, d.settled_at, d.deadline_at,
    d.unsure_at, d.wait_until, d.checks
FROM (
    SELECT p.org_id, p.id, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS preceding FROM (
        SELECT org_id, id, seq, coalesce(octet_length(result), 0) + 2 * coalesce(octet_length(error), 0) AS size
        FROM delegations
        WHERE source_id = :source_id AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND open >= :least_open AND seq < :before_seq
        ORDER BY seq DESC LIMIT :count
    ) p
) w JOIN delegations d ON d.org_id = w.org_id AND d.id = w.id
WHERE w.preceding < :page_bytes ORDER BY d.seq DESC;

-- name: delegations_sent_by_time
-- the same by time, before a delegation of the organisation
SELECT d.org_id, d.id, d.source_id, d.target_id, d.status, d.phase, d.rev, d.open, d.reason, d.error,
    substr(d.task, 1, :task_most) AS task, d.task_hash, d.result, d.via, d.seq, d.activity_id, d.message_seq, d.result_id,
    d.result_seq, d.parent_id, d.root_id, d.root_no, d.depth, d.hop, d.chain_id, d.cause_id, d.context_id, d.recorded,
    d.begun_by, d.retry_of, d.attempt, d.created_at, d.updated_at, d.taken_at, d.life_at, d.settled_at, d.deadline_at,
    d.unsure_at, d.wait_until, d.checks
FROM (
    SELECT p.org_id, p.id, sum(p.size) OVER (ORDER BY p.created_at DESC, p.id DESC) - p.size AS preceding FROM (
        SELECT org_id, id, created_at, coalesce(octet_length(result), 0) + 2 * coalesce(octet_length(error), 0) AS size
        FROM delegations
        WHERE source_id = :source_id AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND open >= :least_open AND (CAST(:before AS TEXT) IS NULL
            OR (created_at, id) < (SELECT b.created_at, b.id FROM delegations b WHERE b.org_id = :org_id AND b.id = :before))
        ORDER BY created_at DESC, id DESC LIMIT :count
    ) p
) w JOIN delegations d ON d.org_id = w.org_id AND d.id = w.id
WHERE w.preceding < :page_bytes ORDER BY d.created_at DESC, d.id DESC;

-- name: delegations_received
-- delegations to a workspace, newest first; filtered by status or to open ones, before one of them; up to a number of bytes but at least one
SELECT d.org_id, d.id, d.source_id, d.target_id, d.status, d.phase, d.rev, d.open, d.reason, d.error,
    substr(d.task, 1, :task_most) AS task, d.task_hash, d.result, d.via, d.seq, d.activity_id, d.message_seq, d.result_id,
    d.result_seq, d.parent_id, d.root_id, d.root_no, d.depth, d.hop, d.chain_id, d.cause_id, d.context_id, d.recorded,
    d.begun_by, d.retry_of, d.attempt, d.created_at, d.updated_at, d.taken_at, d.life_at, d.settled_at, d.deadline_at,
    d.unsure_at, d.wait_until, d.checks
FROM (
    SELECT p.org_id, p.id, sum(p.size) OVER (ORDER BY p.created_at DESC, p.id DESC) - p.size AS preceding FROM (
        SELECT org_id, id, created_at, coalesce(octet_length(result), 0) + 2 * coalesce(octet_length(error), 0) AS size
        FROM delegations
        WHERE target_id = :target_id AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND open >= :least_open AND (CAST(:before AS TEXT) IS NULL
            OR (created_at, id) < (SELECT b.created_at, b.id FROM delegations b WHERE b.org_id = :org_id AND b.id = :before))
        ORDER BY created_at DESC, id DESC LIMIT :count
    ) p
) w JOIN delegations d ON d.org_id = w.org_id AND d.id = w.id
WHERE w.preceding < :page_bytes ORDER BY d.created_at DESC, d.id DESC;

-- name: delegations_between
-- the newest delegations of a workspace to another before one, with the times of begin and last change
SELECT id, context_id, created_at, updated_at FROM delegations
WHERE target_id = :target_id AND source_id = :source_id AND recorded = 0
    AND (created_at, id) < (:before, :before_id)
ORDER BY created_at DESC, id DESC LIMIT :count;

-- name: delegations_of_org
-- delegations of an organisation, newest first; filtered by status, to open ones or by workspace, before one of them; texts are cut
SELECT org_id, id, source_id, target_id, status, phase, rev, open, reason,
    substr(error, 1, :text_most) AS error, substr(task, 1, :task_most) AS task, task_hash,
    substr(result, 1, :text_most) AS result, via, seq, activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
FROM delegations
WHERE org_id = :org_id AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND open >= :least_open AND (CAST(:before_at AS BIGINT) IS NULL
    OR (created_at, id) < (CAST(:before_at AS BIGINT), CAST(:before AS TEXT)))
    AND (CAST(:workspace_id AS TEXT) IS NULL OR source_id = :workspace_id OR target_id = :workspace_id)
ORDER BY created_at DESC, id DESC LIMIT :count;

-- name: delegations_of_root
-- all delegations of a tree, in the order in which they began; texts are cut
SELECT org_id, id, source_id, target_id, status, phase, rev, open, reason,
    substr(error, 1, :text_most) AS error, substr(task, 1, :task_most) AS task, task_hash,
    substr(result, 1, :text_most) AS result, via, seq, activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
FROM delegations
WHERE root_id = :root_id AND org_id = :org_id AND root_no IS NOT NULL
ORDER BY root_no LIMIT :count;

-- name: delegations_of_chain
-- the delegations that one request caused, in the order in which they began; texts are cut
SELECT org_id, id, source_id, target_id, status, phase, rev, open, reason,
    substr(error, 1, :text_most) AS error, substr(task, 1, :task_most) AS task, task_hash,
    substr(result, 1, :text_most) AS result, via, seq, activity_id, message_seq, result_id, result_seq, parent_id, root_id, root_no, depth, hop, chain_id, cause_id,
    context_id, recorded, begun_by, retry_of, attempt, created_at, updated_at, taken_at, life_at, settled_at,
    deadline_at, unsure_at, wait_until, checks
FROM delegations
WHERE org_id = :org_id AND chain_id = :chain_id
ORDER BY created_at, id LIMIT :count;

-- name: delegations_open_count
-- the number of open delegations of an organisation
SELECT count(*) FROM delegations WHERE org_id = :org_id AND open = 1;

-- name: silent_delegations
-- the claimed open delegations of an organisation without a sign of life since a time
SELECT target_id, life_at FROM delegations
WHERE org_id = :org_id AND open = 1 AND taken_at IS NOT NULL AND life_at < :before;

-- name: delegations_below
-- the open descendants of a delegation
WITH RECURSIVE below AS (
    SELECT d.id, d.open, d.depth FROM delegations d WHERE d.org_id = :org_id AND d.parent_id = :parent_id
    UNION ALL
    SELECT d.id, d.open, d.depth
    FROM below b JOIN delegations d ON d.org_id = :org_id AND d.parent_id = b.id AND d.depth > b.depth
)
SELECT id FROM below WHERE open = 1;

-- name: ended_ancestors
-- the ancestors of a delegation that failed or were cancelled since it began
WITH RECURSIVE way AS (
    SELECT d.id, d.parent_id, d.depth, d.status, d.settled_at, d.created_at AS since
    FROM delegations d WHERE d.org_id = :org_id AND d.id = :id
    UNION ALL
    SELECT u.id, u.parent_id, u.depth, u.status, u.settled_at, w.since
    FROM way w JOIN delegations u ON u.org_id = :org_id AND u.id = w.parent_id AND u.depth < w.depth
)
SELECT id FROM way WHERE id <> :id AND status IN ('failed', 'cancelled') AND settled_at >= since;

-- name: open_delegations_of_workspace
-- the open delegations from or to a workspace
SELECT id FROM delegations WHERE org_id = :org_id AND open = 1
    AND (source_id = :workspace_id OR target_id = :workspace_id);

-- name: delegation_status_by_seq
-- the status of the delegation with a row number in its source's log
SELECT seq, status FROM delegations WHERE source_id = :source_id AND seq = :seq;

-- name: delegation_counts
-- the number of delegations of an organisation by status and reason
SELECT status, reason, count(*) FROM delegations WHERE org_id = :org_id GROUP BY status, reason;

-- name: delegation_durations
-- durations of ended delegations in order, a range of them; of one organisation or of all
SELECT settled_at - created_at FROM delegations
WHERE (CAST(:org_id AS TEXT) IS NULL OR org_id = :org_id) AND settled_at IS NOT NULL
ORDER BY settled_at - created_at LIMIT :count OFFSET :skipped;

-- name: keep_progress
-- store the latest progress of a delegation
INSERT INTO delegation_progress (org_id, delegation_id, at, said) VALUES (:org_id, :delegation_id, :at, :said)
ON CONFLICT (org_id, delegation_id) DO UPDATE SET at = excluded.at, said = excluded.said;

-- name: delegation_progress_of
-- the latest progress of a delegation
SELECT at, said FROM delegation_progress WHERE org_id = :org_id AND delegation_id = :delegation_id;

-- name: delegation_progress_open
-- the latest progress of all open delegations of an organisation
SELECT d.id, p.at, p.said
FROM delegations d JOIN delegation_progress p ON p.org_id = d.org_id AND p.delegation_id = d.id
WHERE d.org_id = :org_id AND d.open = 1;

-- name: delegation_progress_since
-- progress since a time of the open delegations of an organisation, oldest first
SELECT d.id, d.source_id, d.target_id, d.status, d.phase, d.rev, d.attempt, d.taken_at, p.at, p.said
FROM delegation_progress p JOIN delegations d ON d.org_id = p.org_id AND d.id = p.delegation_id
WHERE p.org_id = :org_id AND p.at > :since AND d.open = 1
ORDER BY p.at, p.delegation_id;

-- name: wait_for_delegation
-- set until when a caller waits for a delegation and claims the result itself
UPDATE delegations SET wait_until = :wait_until WHERE org_id = :org_id AND id = :id;

-- name: settled_trees
-- the trees of an organisation whose root ended before a time, in that order, after one of them
SELECT id, settled_at FROM delegations
WHERE org_id = :org_id AND settled_at < :before AND id = root_id
    AND (settled_at > :settled_at OR (settled_at = :settled_at AND id > :id))
ORDER BY settled_at, id LIMIT :count;

-- name: delegations_in_tree
-- the delegations of a tree with their ends, recorded ones included
SELECT id, settled_at FROM delegations WHERE root_id = :root_id AND org_id = :org_id;

-- name: forget_delegation
-- delete a delegation
DELETE FROM delegations WHERE org_id = :org_id AND id = :id;

-- name: forget_delegation_facts
-- delete its timeline
DELETE FROM delegation_facts WHERE org_id = :org_id AND delegation_id = :id;

-- name: forget_progress
-- delete its progress
DELETE FROM delegation_progress WHERE org_id = :org_id AND delegation_id = :id;

-- name: old_delegation_keys
-- idempotency keys last stored before a time, in that order, after one of them
SELECT source_id, key, created_at FROM delegation_keys
WHERE created_at < :before AND (created_at > :created_at OR (created_at = :created_at
    AND (source_id > :source_id OR (source_id = :source_id AND key > :key))))
ORDER BY created_at, source_id, key LIMIT :count;

-- name: forget_delegation_key
-- delete an idempotency key, unless it was stored again since
DELETE FROM delegation_keys WHERE source_id = :source_id AND key = :key AND created_at < :before;

-- name: old_delegation_history
-- analytics rows of delegations that ended before a time, in that order, after one of them
SELECT org_id, delegation_id, settled_at FROM delegation_history
WHERE settled_at < :before AND (settled_at > :settled_at OR (settled_at = :settled_at
    AND (org_id > :org_id OR (org_id = :org_id AND delegation_id > :delegation_id))))
ORDER BY settled_at, org_id, delegation_id LIMIT :count;

-- name: forget_delegation_history
-- delete an analytics row
DELETE FROM delegation_history WHERE org_id = :org_id AND delegation_id = :delegation_id;

-- name: origin_of_message
-- the chain and the delegation of a message in the log of a workspace: an answer continues the delegation that asked
SELECT coalesce(a.root_id, a.id), coalesce(
    (SELECT d.id FROM delegations d WHERE d.org_id = a.org_id AND d.id = a.id),
    (SELECT r.parent_id FROM delegations r WHERE r.result_id = a.id AND r.org_id = a.org_id LIMIT 1)
)
FROM activities a WHERE a.id = :id AND a.workspace_id = :workspace_id;

-- name: insert_acceptance
-- insert the checks of a delegation
INSERT INTO delegation_acceptance (org_id, delegation_id, checks, rounds, answer_no, message_id, task_seq, answer)
VALUES (:org_id, :delegation_id, :checks, :rounds, :answer_no, :message_id, :task_seq, :answer);

-- name: acceptance
-- the checks of a delegation, and the answer that is being checked
SELECT org_id, delegation_id, checks, rounds, answer_no, message_id, task_seq, answer
FROM delegation_acceptance WHERE org_id = :org_id AND delegation_id = :delegation_id;

-- name: delegation_of_message
-- the delegation whose answer was returned to its target by a message
SELECT delegation_id FROM delegation_acceptance WHERE org_id = :org_id AND message_id = :message_id;

-- name: save_acceptance
-- store which answer is due or being checked
UPDATE delegation_acceptance SET answer_no = :answer_no, message_id = :message_id, answer = :answer
WHERE org_id = :org_id AND delegation_id = :delegation_id;

-- name: insert_evidence
-- store what a check found in an answer
INSERT INTO delegation_evidence (org_id, delegation_id, answer_no, check_no, evidence)
VALUES (:org_id, :delegation_id, :answer_no, :check_no, :evidence);

-- name: evidence_of
-- what the checks of a delegation found, in order
SELECT evidence FROM delegation_evidence WHERE org_id = :org_id AND delegation_id = :delegation_id
ORDER BY answer_no, check_no;

-- name: forget_acceptance
-- delete the checks of a delegation
DELETE FROM delegation_acceptance WHERE org_id = :org_id AND delegation_id = :id;

-- name: forget_evidence
-- delete what its checks found
DELETE FROM delegation_evidence WHERE org_id = :org_id AND delegation_id = :id;
