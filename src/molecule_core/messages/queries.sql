-- Messages: the log, the inbox, claims and acks.

-- name: last_seq
-- the highest number in the log of a workspace
SELECT max(seq) FROM activities WHERE workspace_id = :key;

-- name: last_inbound
-- the highest number in the inbox of a workspace
SELECT inbound_no FROM activities WHERE workspace_id = :key AND inbound_no IS NOT NULL ORDER BY seq DESC LIMIT 1;

-- name: find_twin
-- a message that the same sender sent under the same id
SELECT id, context_id, created_at, content_hash FROM activities WHERE sender = :sender AND dedupe_key = :dedupe_key;

-- name: insert_activity
-- one row of a log
INSERT INTO activities (
    id, org_id, workspace_id, seq, inbound_no, chat, size, activity_type, method, kind, intent, source_id, target_id,
    user_id, sender, dedupe_key, content_hash, context_id, status, created_at, duration_ms, summary, error_detail,
    request_body, response_body, tool_trace, root_id, hop, cause_id, expires_at, trace_parent
) VALUES (
    :id, :org_id, :workspace_id, :seq, :inbound_no, :chat, :size, :activity_type, :method, :kind, :intent, :source_id,
    :target_id, :user_id, :sender, :dedupe_key, :content_hash, :context_id, :status, :created_at, :duration_ms,
    :summary, :error_detail, :request_body, :response_body, :tool_trace, :root_id, :hop, :cause_id, :expires_at,
    :trace_parent
);

-- name: place_of_activity
-- where a row stands in the log of a workspace
SELECT seq, inbound_no FROM activities WHERE id = :id AND workspace_id = :workspace_id;

-- name: inbox_sizes
-- how large the rows of an inbox behind a number are, oldest first
SELECT seq, size FROM activities
WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :seq ORDER BY seq LIMIT :count;

-- name: inbox_rows
-- the rows of an inbox behind a number and up to another, oldest first
SELECT id, workspace_id, seq, activity_type, method, kind, intent, source_id, target_id, status, created_at,
    duration_ms, summary, error_detail, request_body, response_body, tool_trace, trace_parent
FROM activities
WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :seq AND seq <= :last ORDER BY seq;

-- name: activity_after
-- the filtered log behind a number, oldest first, at most so many rows and bytes but at least one row
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.trace_parent
FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT seq, size FROM activities
        WHERE workspace_id = :workspace_id AND seq > :seq
            AND (CAST(:activity_type AS TEXT) IS NULL OR activity_type = :activity_type)
            AND (CAST(:source AS TEXT) IS NULL OR (source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
            AND (CAST(:peer_id AS TEXT) IS NULL OR source_id = :peer_id OR target_id = :peer_id)
            AND (CAST(:since AS BIGINT) IS NULL OR created_at >= :since)
            AND (CAST(:before AS BIGINT) IS NULL OR created_at < :before)
        ORDER BY seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: activity_newest
-- the filtered log, newest first, at most so many rows and bytes but at least one row
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.trace_parent
FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT seq, size FROM activities
        WHERE workspace_id = :workspace_id
            AND (CAST(:activity_type AS TEXT) IS NULL OR activity_type = :activity_type)
            AND (CAST(:source AS TEXT) IS NULL OR (source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
            AND (CAST(:peer_id AS TEXT) IS NULL OR source_id = :peer_id OR target_id = :peer_id)
            AND (CAST(:since AS BIGINT) IS NULL OR created_at >= :since)
            AND (CAST(:before AS BIGINT) IS NULL OR created_at < :before)
        ORDER BY seq DESC LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq DESC;

-- name: chat_newest
-- what a workspace and its users said before a number and a time, newest first
SELECT a.id, a.seq, a.method, a.created_at, a.request_body FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT seq, size FROM activities
        WHERE workspace_id = :workspace_id AND chat = 1 AND seq < :seq
            AND (CAST(:before AS BIGINT) IS NULL OR created_at < :before)
        ORDER BY seq DESC LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq DESC;

-- name: chat_after
-- what a workspace and its users said behind a number, oldest first
SELECT a.id, a.seq, a.method, a.created_at, a.request_body FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT seq, size FROM activities
        WHERE workspace_id = :workspace_id AND chat = 1 AND seq > :seq
        ORDER BY seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: inbox_state
-- how far the inbox of a workspace is handled
SELECT acked_seq, acked_no, acked_above FROM inboxes WHERE workspace_id = :workspace_id;

-- name: save_inbox
-- the inbox of a workspace is handled as far as this
INSERT INTO inboxes (workspace_id, acked_seq, acked_no, acked_above)
VALUES (:workspace_id, :acked_seq, :acked_no, :acked_above)
ON CONFLICT (workspace_id) DO UPDATE SET
    acked_seq = excluded.acked_seq, acked_no = excluded.acked_no, acked_above = excluded.acked_above;

-- name: claimable
-- inbound rows behind the floor that nobody holds and nobody handled, oldest first, with the attempt that this is
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.trace_parent, w.attempt + 1
FROM (
    SELECT p.seq, p.attempt, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT r.seq, r.size, coalesce(h.attempt, 0) AS attempt
        FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :seq
            AND (h.seq IS NULL OR (h.acked_at IS NULL AND h.lease_until <= :now))
        ORDER BY r.seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: next_lease_end
-- when the first lease of a workspace ends
SELECT min(lease_until) FROM handouts WHERE workspace_id = :workspace_id AND acked_at IS NULL;

-- name: handout
-- whether a row was handed out or handled
SELECT seq, attempt, lease_until, acked_at FROM handouts WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: handouts_upto
-- rows up to a number that were handed out or handled singly
SELECT seq, attempt, lease_until, acked_at FROM handouts WHERE workspace_id = :workspace_id AND seq <= :seq ORDER BY seq;

-- name: save_handout
-- a row is handed out, or handled
INSERT INTO handouts (workspace_id, seq, attempt, lease_until, acked_at)
VALUES (:workspace_id, :seq, :attempt, :lease_until, :acked_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    attempt = excluded.attempt, lease_until = excluded.lease_until, acked_at = excluded.acked_at;

-- name: forget_handouts
-- rows that the floor has passed need no note
DELETE FROM handouts WHERE workspace_id = :workspace_id AND seq <= :seq;

-- name: last_inbound_upto
-- the newest inbound row up to a number
SELECT seq, inbound_no FROM activities
WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: unhandled_upto
-- inbound rows behind the floor up to a number that match a filter and are not handled
SELECT r.seq, coalesce(h.attempt, 0), coalesce(h.lease_until, 0)
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor AND r.seq <= :seq
    AND h.acked_at IS NULL
    AND (CAST(:source AS TEXT) IS NULL OR (r.source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
    AND (CAST(:peer_id AS TEXT) IS NULL OR r.source_id = :peer_id OR r.target_id = :peer_id)
    AND (CAST(:since AS BIGINT) IS NULL OR r.created_at >= :since)
    AND (CAST(:before AS BIGINT) IS NULL OR r.created_at < :before)
ORDER BY r.seq;

-- name: handled_behind
-- the first inbound rows behind the floor, and whether each is handled
SELECT r.seq, CASE WHEN h.acked_at IS NULL THEN 0 ELSE 1 END
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor
ORDER BY r.seq LIMIT :count;

-- name: activity_told
-- a row as its event tells it; bodies above a size are left out
SELECT id, seq, activity_type, chat, method, kind, source_id, target_id, status, duration_ms, summary, error_detail,
    CASE WHEN chat = 1 OR size <= :most THEN request_body END, CASE WHEN size <= :most THEN response_body END,
    CASE WHEN size <= :most THEN tool_trace END
FROM activities WHERE id = :id;

-- name: chat_head
-- the last line of a chat, how far a person has read it, and how many of the agent's lines lie behind that
SELECT a.workspace_id, a.id, a.seq, a.method, a.created_at, a.summary, coalesce(m.seq, 0), (
    SELECT count(*) FROM (
        SELECT 1 FROM activities u
        WHERE u.workspace_id = :workspace_id AND u.chat = 1 AND u.seq > coalesce(m.seq, 0) AND u.method = 'notify'
        LIMIT :most
    ) x
)
FROM activities a LEFT JOIN read_marks m ON m.workspace_id = a.workspace_id AND m.person_id = :person_id
WHERE a.workspace_id = :workspace_id AND a.chat = 1 ORDER BY a.seq DESC LIMIT 1;

-- name: save_read_mark
-- a person has read a chat so far; never less than before
INSERT INTO read_marks (person_id, workspace_id, seq) VALUES (:person_id, :workspace_id, :seq)
ON CONFLICT (person_id, workspace_id) DO UPDATE SET
    seq = CASE WHEN excluded.seq > read_marks.seq THEN excluded.seq ELSE read_marks.seq END;

-- name: log_front
-- the oldest rows of a log behind a number, as retention looks at them
SELECT seq, id, created_at, inbound_no, chat, method FROM activities
WHERE workspace_id = :workspace_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: log_heads
-- how far an inbox is handled, and which rows of its log stay however old they are: the newest of each kind
SELECT (SELECT acked_seq FROM inboxes WHERE workspace_id = :workspace_id),
    (SELECT max(seq) FROM activities WHERE workspace_id = :workspace_id),
    (SELECT max(seq) FROM activities WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL),
    (SELECT max(seq) FROM activities WHERE workspace_id = :workspace_id AND chat = 1);

-- name: agent_lines
-- the newest lines that an agent wrote to its user, newest first
SELECT seq FROM activities WHERE workspace_id = :workspace_id AND chat = 1 AND method = 'notify'
ORDER BY seq DESC LIMIT :count;

-- name: forget_activity
-- a row that is old and settled
DELETE FROM activities WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_inbox
-- the inbox of a workspace that was removed long ago
DELETE FROM inboxes WHERE workspace_id = :workspace_id;

-- name: forget_every_handout
-- its claims
DELETE FROM handouts WHERE workspace_id = :workspace_id;

-- name: forget_read_marks
-- how far persons have read its chat
DELETE FROM read_marks WHERE workspace_id = :workspace_id;

-- name: inbox_unhandled
-- how many messages of an inbox are not handled
SELECT coalesce((
    SELECT inbound_no FROM activities
    WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL ORDER BY seq DESC LIMIT 1
), 0) - coalesce((SELECT acked_no + acked_above FROM inboxes WHERE workspace_id = :workspace_id), 0);
