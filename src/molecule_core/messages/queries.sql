-- Messages: the log, the inbox, claims and acks.

-- name: last_seq
-- the highest `seq` in the log of a workspace
SELECT max(seq) FROM activities WHERE workspace_id = :key;

-- name: last_inbound
-- the highest inbound number in the inbox of a workspace
SELECT inbound_no FROM activities WHERE workspace_id = :key AND inbound_no IS NOT NULL ORDER BY seq DESC LIMIT 1;

-- name: message_by_dedupe_key
-- the message that a sender sent under a dedupe key
SELECT id, context_id, created_at, content_hash FROM activities WHERE sender = :sender AND dedupe_key = :dedupe_key;

-- name: insert_activity
-- insert a log row
INSERT INTO activities (
    id, org_id, workspace_id, seq, inbound_no, chat, size, activity_type, method, kind, intent, source_id, target_id,
    user_id, sender, dedupe_key, content_hash, context_id, status, created_at, duration_ms, summary, error_detail,
    request_body, response_body, tool_trace, root_id, hop, cause_id, expires_at, trace_parent,
    chain_no, small_talk
) VALUES (
    :id, :org_id, :workspace_id, :seq, :inbound_no, :chat, :size, :activity_type, :method, :kind, :intent, :source_id,
    :target_id, :user_id, :sender, :dedupe_key, :content_hash, :context_id, :status, :created_at, :duration_ms,
    :summary, :error_detail, :request_body, :response_body, :tool_trace, :root_id, :hop, :cause_id, :expires_at,
    :trace_parent, :chain_no, :small_talk
);

-- name: position_of_activity
-- the position of a row in the log of a workspace, and its kind
SELECT seq, inbound_no, kind FROM activities WHERE id = :id AND workspace_id = :workspace_id;

-- name: inbox_sizes
-- sizes of the inbox rows after a position, oldest first; `living` = 1 leaves out dead letters
SELECT a.seq, a.size FROM activities a
WHERE a.workspace_id = :workspace_id AND a.inbound_no IS NOT NULL AND a.seq > :seq
    AND (CAST(:living AS BIGINT) = 0 OR NOT EXISTS (
        SELECT 1 FROM dead_letters d
        WHERE d.workspace_id = :workspace_id AND d.seq = a.seq AND d.state IN ('dead', 'discarded')
    ))
ORDER BY a.seq LIMIT :count;

-- name: inbox_rows
-- the inbox rows after a position and up to another, oldest first; `living` = 1 leaves out dead letters
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no
FROM activities a
WHERE a.workspace_id = :workspace_id AND a.inbound_no IS NOT NULL AND a.seq > :seq AND a.seq <= :last
    AND (CAST(:living AS BIGINT) = 0 OR NOT EXISTS (
        SELECT 1 FROM dead_letters d
        WHERE d.workspace_id = :workspace_id AND d.seq = a.seq AND d.state IN ('dead', 'discarded')
    ))
ORDER BY a.seq;

-- name: activity_after
-- a filtered log page after a position, oldest first, limited by rows and bytes (at least one row); `living` = 1 leaves out dead letters
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no
FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT r.seq, r.size FROM activities r
        WHERE r.workspace_id = :workspace_id AND r.seq > :seq
            AND (CAST(:activity_type AS TEXT) IS NULL OR r.activity_type = :activity_type)
            AND (CAST(:source AS TEXT) IS NULL OR (r.source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
            AND (CAST(:peer_id AS TEXT) IS NULL OR r.source_id = :peer_id OR r.target_id = :peer_id)
            AND (CAST(:since AS BIGINT) IS NULL OR r.created_at >= :since)
            AND (CAST(:before AS BIGINT) IS NULL OR r.created_at < :before)
            AND (CAST(:living AS BIGINT) = 0 OR NOT EXISTS (
                SELECT 1 FROM dead_letters d
                WHERE d.workspace_id = :workspace_id AND d.seq = r.seq AND d.state IN ('dead', 'discarded')
            ))
        ORDER BY r.seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: activity_newest
-- a filtered log page, newest first, limited by rows and bytes (at least one row); `living` = 1 leaves out dead letters
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no
FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT r.seq, r.size FROM activities r
        WHERE r.workspace_id = :workspace_id
            AND (CAST(:activity_type AS TEXT) IS NULL OR r.activity_type = :activity_type)
            AND (CAST(:source AS TEXT) IS NULL OR (r.source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
            AND (CAST(:peer_id AS TEXT) IS NULL OR r.source_id = :peer_id OR r.target_id = :peer_id)
            AND (CAST(:since AS BIGINT) IS NULL OR r.created_at >= :since)
            AND (CAST(:before AS BIGINT) IS NULL OR r.created_at < :before)
            AND (CAST(:living AS BIGINT) = 0 OR NOT EXISTS (
                SELECT 1 FROM dead_letters d
                WHERE d.workspace_id = :workspace_id AND d.seq = r.seq AND d.state IN ('dead', 'discarded')
            ))
        ORDER BY r.seq DESC LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq DESC;

-- name: chat_newest
-- a chat page before a position and a time, newest first, with the delivery and obligation state of each message
SELECT a.id, a.seq, a.method, a.created_at, a.request_body, CASE
    WHEN a.inbound_no IS NULL THEN NULL
    WHEN d.state IN ('dead', 'discarded') THEN 'dead'
    WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 'acked'
    WHEN h.attempt > 0 AND h.lease_until > 0 THEN CASE WHEN h.unread = 1 THEN 'in_inbox' ELSE 'handed_over' END
    ELSE 'stored'
END, CASE WHEN d.state IN ('dead', 'discarded') THEN d.reason END,
    o.state, o.overdue_at, o.outside_at, o.due_at, o.draft, o.reason, o.template, o.version, o.form, o.tokens,
    o.answer_id
FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT c.seq, c.size + CASE WHEN t.state = 'open' THEN coalesce(octet_length(t.draft), 0) ELSE 0 END AS size
        FROM activities c LEFT JOIN obligations t ON t.workspace_id = c.workspace_id AND t.seq = c.seq
        WHERE c.workspace_id = :workspace_id AND c.chat = 1 AND c.seq < :seq
            AND (CAST(:before AS BIGINT) IS NULL OR c.created_at < :before)
        ORDER BY c.seq DESC LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
WHERE w.before < :page_bytes ORDER BY a.seq DESC;

-- name: chat_after
-- a chat page after a position, oldest first, with the delivery and obligation state of each message
SELECT a.id, a.seq, a.method, a.created_at, a.request_body, CASE
    WHEN a.inbound_no IS NULL THEN NULL
    WHEN d.state IN ('dead', 'discarded') THEN 'dead'
    WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 'acked'
    WHEN h.attempt > 0 AND h.lease_until > 0 THEN CASE WHEN h.unread = 1 THEN 'in_inbox' ELSE 'handed_over' END
    ELSE 'stored'
END, CASE WHEN d.state IN ('dead', 'discarded') THEN d.reason END,
    o.state, o.overdue_at, o.outside_at, o.due_at, o.draft, o.reason, o.template, o.version, o.form, o.tokens,
    o.answer_id
FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT c.seq, c.size + CASE WHEN t.state = 'open' THEN coalesce(octet_length(t.draft), 0) ELSE 0 END AS size
        FROM activities c LEFT JOIN obligations t ON t.workspace_id = c.workspace_id AND t.seq = c.seq
        WHERE c.workspace_id = :workspace_id AND c.chat = 1 AND c.seq > :seq
        ORDER BY c.seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: insert_file
-- insert a received file
INSERT INTO files (
    id, org_id, workspace_id, uploaded_by, name, mime_type, size, sha256, activity_id, created_at, acked_at
) VALUES (
    :id, :org_id, :workspace_id, :uploaded_by, :name, :mime_type, :size, :sha256, :activity_id, :created_at, :acked_at
);

-- name: file
-- a file, and whether a message that mentions it went to the workspace `reader_id`
SELECT f.id, f.org_id, f.workspace_id, f.uploaded_by, f.name, f.mime_type, f.size, f.sha256, f.activity_id,
    f.created_at, f.acked_at,
    EXISTS (SELECT 1 FROM file_mentions m WHERE m.file_id = f.id AND m.workspace_id = :reader_id)
FROM files f WHERE f.id = :id;

-- name: file_is_mentioned
-- one row if any message mentions a file, except requests to review it
SELECT 1 FROM file_mentions m WHERE m.file_id = :file_id AND NOT EXISTS (
    SELECT 1 FROM activities a WHERE a.id = m.activity_id AND a.kind = 'approval_request'
) LIMIT 1;

-- name: insert_mention
-- record that a message mentions a file
INSERT INTO file_mentions (file_id, activity_id, workspace_id) VALUES (:file_id, :activity_id, :workspace_id);

-- name: ack_file
-- mark a file as acknowledged by its workspace
UPDATE files SET acked_at = :acked_at WHERE id = :id AND acked_at IS NULL;

-- name: delete_file
-- delete a file
DELETE FROM files WHERE id = :id;

-- name: storage_usage
-- bytes of bodies and files of an organisation and of one of its workspaces
SELECT CAST(coalesce(sum(body_bytes), 0) AS BIGINT), CAST(coalesce(sum(file_bytes), 0) AS BIGINT),
    CAST(coalesce(sum(CASE WHEN workspace_id = :workspace_id THEN body_bytes END), 0) AS BIGINT),
    CAST(coalesce(sum(CASE WHEN workspace_id = :workspace_id THEN file_bytes END), 0) AS BIGINT)
FROM storage_usage WHERE org_id = :org_id;

-- name: add_usage
-- add to the bytes of a workspace; negative numbers subtract
INSERT INTO storage_usage (org_id, workspace_id, body_bytes, file_bytes)
VALUES (:org_id, :workspace_id, :body_bytes, :file_bytes)
ON CONFLICT (org_id, workspace_id) DO UPDATE SET
    body_bytes = storage_usage.body_bytes + excluded.body_bytes,
    file_bytes = storage_usage.file_bytes + excluded.file_bytes;

-- name: forget_empty_usage
-- delete the counters of a workspace that stores nothing
DELETE FROM storage_usage
WHERE org_id = :org_id AND workspace_id = :workspace_id AND body_bytes <= 0 AND file_bytes <= 0;

-- name: row_sizes
-- the sizes of a range of log rows, with the answers to their pushes
SELECT a.seq, a.size + coalesce(octet_length(p.answer), 0)
FROM activities a LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq
WHERE a.workspace_id = :workspace_id AND a.seq >= :first AND a.seq <= :last;

-- name: inbox_state
-- the ack state of an inbox
SELECT acked_seq, acked_no, acked_above, requeued, dead FROM inboxes WHERE workspace_id = :workspace_id;

-- name: save_inbox
-- store the ack state of an inbox
INSERT INTO inboxes (workspace_id, acked_seq, acked_no, acked_above, requeued, dead)
VALUES (:workspace_id, :acked_seq, :acked_no, :acked_above, :requeued, :dead)
ON CONFLICT (workspace_id) DO UPDATE SET
    acked_seq = excluded.acked_seq, acked_no = excluded.acked_no, acked_above = excluded.acked_above,
    requeued = excluded.requeued, dead = excluded.dead;

-- name: claimable
-- unclaimed, unacknowledged inbox rows above the ack floor, oldest first, with the next attempt
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no, w.attempt + 1
FROM (
    SELECT p.seq, p.attempt, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT r.seq, r.size, coalesce(h.attempt, 0) AS attempt
        FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :seq
            AND (h.seq IS NULL OR (h.acked_at IS NULL AND h.lease_until <= :now))
            AND (r.expires_at IS NULL OR r.expires_at > :now OR h.requeued = 1)
        ORDER BY r.seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: waiting_rows
-- unacknowledged inbox rows above the ack floor, claimed or not, oldest first, with the last attempt
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no, w.attempt
FROM (
    SELECT p.seq, p.attempt, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT r.seq, r.size, CASE WHEN h.attempt > 0 THEN h.attempt END AS attempt
        FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :seq AND h.acked_at IS NULL
            AND (r.expires_at IS NULL OR r.expires_at > :now OR h.requeued = 1)
        ORDER BY r.seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: next_lease_end
-- the end of the first lease in a workspace
SELECT min(lease_until) FROM handouts WHERE workspace_id = :workspace_id AND acked_at IS NULL;

-- name: hold_leases
-- extend the current leases in a workspace to a time; those that an earlier limit has extended get this time too
UPDATE handouts SET lease_until = :until WHERE workspace_id = :workspace_id AND acked_at IS NULL
    AND lease_until > :now AND (lease_until < :until OR lease_until = :before);

-- name: shorten_held_leases
-- end leases that a limit has extended to a time at an earlier one
UPDATE handouts SET lease_until = :until
WHERE workspace_id = :workspace_id AND acked_at IS NULL AND lease_until = :held_until AND lease_until > :until;

-- name: claim_of_row
-- the claim or single ack of a row
SELECT seq, attempt, lease_until, acked_at, requeued, shown_behind FROM handouts WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: claims_upto
-- claims and single acks of the rows up to a position
SELECT seq, attempt, lease_until, acked_at, requeued, shown_behind FROM handouts WHERE workspace_id = :workspace_id AND seq <= :seq ORDER BY seq;

-- name: save_claim
-- store a claim or a single ack of a row
INSERT INTO handouts (workspace_id, seq, attempt, lease_until, acked_at)
VALUES (:workspace_id, :seq, :attempt, :lease_until, :acked_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    attempt = excluded.attempt, lease_until = excluded.lease_until, acked_at = excluded.acked_at;

-- name: claim_row
-- store a claim of a row; unread: the claimer keeps it until its model reads it. What was read once stays read
INSERT INTO handouts (workspace_id, seq, attempt, lease_until, unread)
VALUES (:workspace_id, :seq, :attempt, :lease_until, :unread)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    attempt = excluded.attempt, lease_until = excluded.lease_until, acked_at = NULL,
    unread = CASE WHEN handouts.attempt = 0 OR handouts.unread = 1 THEN excluded.unread ELSE 0 END;

-- name: unread_claim
-- the position of a claimed message that its model has not read, by the attempt of its claim
SELECT h.seq, h.attempt, a.inbound_no FROM activities a
JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
WHERE a.id = :id AND a.workspace_id = :workspace_id AND h.attempt = :attempt AND h.unread = 1 AND h.acked_at IS NULL;

-- name: mark_claim_read
-- record that the model has read a claimed message
UPDATE handouts SET unread = 0 WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_acknowledged_claims
-- delete the claims below the ack floor, except of requeued rows
DELETE FROM handouts WHERE workspace_id = :workspace_id AND seq <= :seq AND requeued = 0;

-- name: last_inbound_upto
-- the newest inbox row up to a position
SELECT seq, inbound_no FROM activities
WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: unhandled_upto
-- matching unacknowledged inbox rows above the ack floor up to a position, with the end of each lease
SELECT r.seq, coalesce(h.attempt, 0), r.inbound_no, coalesce(h.lease_until, 0)
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor AND r.seq <= :seq
    AND h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0
    AND (CAST(:source AS TEXT) IS NULL OR (r.source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
    AND (CAST(:peer_id AS TEXT) IS NULL OR r.source_id = :peer_id OR r.target_id = :peer_id)
    AND (CAST(:since AS BIGINT) IS NULL OR r.created_at >= :since)
    AND (CAST(:before AS BIGINT) IS NULL OR r.created_at < :before)
ORDER BY r.seq;

-- name: unacknowledged_messages
-- senders and times of the first unacknowledged messages of an inbox, oldest first
SELECT r.source_id, r.created_at
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL
    AND r.seq > coalesce((SELECT acked_seq FROM inboxes WHERE workspace_id = :workspace_id), 0)
    AND h.acked_at IS NULL AND (r.expires_at IS NULL OR r.expires_at > :now OR h.requeued = 1)
ORDER BY r.seq LIMIT :count;

-- name: unclaimed_requests
-- how many requests in an inbox wait to be picked up (up to `count`), and since when the first does: its arrival, the end of its last lease, or its death; rows leased after `since` are not counted; `paused` = 0 leaves out what the overdue watchdog watches
SELECT count(*), min(w.at) FROM (
    SELECT * FROM (
        SELECT CASE WHEN h.lease_until > r.created_at AND coalesce(p.next_at, 0) = 0
            THEN h.lease_until ELSE r.created_at END AS at
        FROM activities r
        LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
        LEFT JOIN pushes p ON p.workspace_id = r.workspace_id AND p.seq = r.seq
        LEFT JOIN obligations o ON o.workspace_id = r.workspace_id AND o.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.intent = 'request'
            AND r.seq > coalesce((SELECT acked_seq FROM inboxes WHERE workspace_id = :workspace_id), 0)
            AND h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0
            AND (r.expires_at IS NULL OR r.expires_at > :now)
            AND (h.seq IS NULL OR h.lease_until <= :since OR (p.next_at > 0 AND h.lease_until <= :now))
            AND (o.seq IS NULL OR (
                o.state = 'open' AND o.overdue_at IS NULL AND o.outside_at IS NULL
                AND (o.due_at IS NULL OR CAST(:paused AS BIGINT) = 1)
                AND h.attempt > 0 AND h.lease_until >= o.handed_at
            ))
        ORDER BY r.seq LIMIT :count
    ) behind
    UNION ALL
    SELECT * FROM (
        SELECT CASE WHEN h.lease_until > d.died_at AND coalesce(p.next_at, 0) = 0
            THEN h.lease_until ELSE d.died_at END AS at
        FROM inboxes i
        JOIN handouts h ON h.workspace_id = i.workspace_id AND h.requeued = 1
        JOIN dead_letters d ON d.workspace_id = h.workspace_id AND d.seq = h.seq AND d.state = 'requeued'
        JOIN activities r ON r.workspace_id = h.workspace_id AND r.seq = h.seq AND r.intent = 'request'
        LEFT JOIN pushes p ON p.workspace_id = h.workspace_id AND p.seq = h.seq
        LEFT JOIN obligations o ON o.workspace_id = h.workspace_id AND o.seq = h.seq
        WHERE i.workspace_id = :workspace_id AND i.requeued > 0
            AND (h.lease_until <= :since OR (p.next_at > 0 AND h.lease_until <= :now))
            AND (o.seq IS NULL OR (
                o.state = 'open' AND o.overdue_at IS NULL AND o.outside_at IS NULL
                AND (o.due_at IS NULL OR CAST(:paused AS BIGINT) = 1)
                AND h.attempt > 0 AND h.lease_until >= o.handed_at
            ))
        ORDER BY h.seq LIMIT :count
    ) again
) w;

-- name: rows_ahead
-- how many unacknowledged inbox rows are before a position, up to `most`
SELECT count(*) FROM (
    SELECT r.seq FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
    WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq < :seq
        AND r.seq > coalesce((SELECT acked_seq FROM inboxes WHERE workspace_id = :workspace_id), 0)
        AND h.acked_at IS NULL
    ORDER BY r.seq LIMIT :most
) before;

-- name: rows_above_ack_floor
-- the first inbox rows above the ack floor, and whether each is acknowledged; requeued rows count as acknowledged
SELECT r.seq, CASE WHEN h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0 THEN 0 ELSE 1 END
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor
ORDER BY r.seq LIMIT :count;

-- name: requeued_rows
-- unclaimed requeued rows after a position and below the ack floor, with the columns of `claimable` and the bytes up to each
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no, w.attempt + 1, w.upto
FROM (
    SELECT p.seq, p.attempt, p.size, CAST(sum(p.size) OVER (ORDER BY p.seq) AS BIGINT) AS upto FROM (
        SELECT h.seq, h.attempt, r.size
        FROM handouts h JOIN activities r ON r.workspace_id = h.workspace_id AND r.seq = h.seq
        WHERE h.workspace_id = :workspace_id AND h.requeued = 1 AND h.seq > :after AND h.seq <= :seq
            AND h.lease_until <= :now
        ORDER BY h.seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
WHERE w.upto - w.size < :page_bytes ORDER BY a.seq;

-- name: all_requeued_rows
-- all requeued rows of an inbox
SELECT h.seq, h.attempt, h.lease_until, h.acked_at, h.requeued, h.shown_behind, a.inbound_no
FROM handouts h JOIN activities a ON a.workspace_id = h.workspace_id AND a.seq = h.seq
WHERE h.workspace_id = :workspace_id AND h.requeued = 1 ORDER BY h.seq;

-- name: requeue_row
-- requeue a row; its attempts are counted on
INSERT INTO handouts (workspace_id, seq, attempt, lease_until, acked_at, requeued, shown_behind, unread)
VALUES (:workspace_id, :seq, :attempt, 0, NULL, 1, NULL, 1)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    attempt = excluded.attempt, lease_until = 0, acked_at = NULL, requeued = 1, shown_behind = NULL, unread = 1;

-- name: mark_requeued_row_delivered
-- record the delivery of a requeued row to a reader by cursor
UPDATE handouts SET attempt = :attempt, shown_behind = :cursor, unread = 0 WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: ack_requeued_row
-- acknowledge a requeued row
UPDATE handouts SET acked_at = :now, requeued = 0, shown_behind = NULL
WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: record_delivery
-- record a delivery tick for a range of an inbox
INSERT INTO handovers (workspace_id, first_no, last_no, tick, attempt, at, reason)
VALUES (:workspace_id, :first_no, :last_no, :tick, :attempt, :at, :reason);

-- name: deliveries_of
-- the ticks of one inbox position, with the first and the `most` newest deliveries; no range is wider than `widest`
SELECT tick, at, attempt, reason FROM (
    SELECT tick, at, attempt, reason,
        row_number() OVER (PARTITION BY tick ORDER BY attempt, at) AS place, count(*) OVER (PARTITION BY tick) AS found
    FROM handovers
    WHERE workspace_id = :workspace_id AND first_no <= :no AND first_no > :no - :widest AND last_no >= :no
) h
WHERE tick NOT IN ('in_inbox', 'handed_over') OR place = 1 OR place > found - :most
ORDER BY at, attempt;

-- name: message_state
-- the delivery state of one message
SELECT a.id, a.workspace_id, a.seq, a.inbound_no, a.kind, a.source_id, a.context_id, a.created_at, a.expires_at,
    coalesce(h.attempt, 0), coalesce(h.lease_until, 0), h.acked_at, coalesce(h.requeued, 0),
    coalesce(p.failures, 0), coalesce(p.next_at, 0), coalesce(p.busy, 0), p.last_error, p.answer, p.answered_at,
    d.state, d.reason, d.detail, d.attempts, d.died_at, coalesce(i.acked_seq, 0)
FROM activities a
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
WHERE a.id = :id AND a.inbound_no IS NOT NULL;

-- name: save_dead_letter
-- record a message that was given up
INSERT INTO dead_letters (workspace_id, seq, org_id, activity_id, state, reason, detail, attempts, died_at)
VALUES (:workspace_id, :seq, :org_id, :activity_id, 'dead', :reason, :detail, :attempts, :died_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    state = 'dead', reason = excluded.reason, detail = excluded.detail, attempts = excluded.attempts,
    died_at = excluded.died_at;

-- name: set_dead_letter
-- set the state of a dead letter
UPDATE dead_letters SET state = :state WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: was_dead_letter
-- the dead-letter state of a row, if it was ever given up
SELECT state FROM dead_letters WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: delivered_out_of_order
-- one row or more if a row was delivered out of order: as a dead letter or a reminder
SELECT 1 FROM dead_letters WHERE workspace_id = :workspace_id AND seq = :seq
UNION ALL
SELECT 1 FROM obligations WHERE workspace_id = :workspace_id AND seq = :seq AND reminded_at > 0;

-- name: dead_between
-- the dead or discarded rows of a log range
SELECT seq FROM dead_letters
WHERE workspace_id = :workspace_id AND seq >= :first AND seq <= :last AND state IN ('dead', 'discarded');

-- name: dead_letters_page
-- the dead letters of an organisation or one workspace before one of them, newest first
SELECT d.activity_id, d.workspace_id, a.source_id, a.kind, a.summary, d.reason, d.detail, d.attempts, d.died_at,
    a.created_at
FROM dead_letters d JOIN activities a ON a.workspace_id = d.workspace_id AND a.seq = d.seq
WHERE d.org_id = :org_id AND d.state = 'dead'
    AND (CAST(:workspace_id AS TEXT) IS NULL OR d.workspace_id = :workspace_id)
    AND (CAST(:died_at AS BIGINT) IS NULL OR d.died_at < :died_at
        OR (d.died_at = :died_at AND d.activity_id < :activity_id))
ORDER BY d.died_at DESC, d.activity_id DESC LIMIT :count;

-- name: position_of_dead_letter
-- the position of a dead letter in its page
SELECT died_at, activity_id FROM dead_letters WHERE activity_id = :activity_id AND org_id = :org_id;

-- name: schedule_push_check
-- schedule the check of a push agent, at a time or the earlier one already set
INSERT INTO push_targets (workspace_id, due) VALUES (:workspace_id, :due)
ON CONFLICT (workspace_id) DO UPDATE SET
    due = CASE WHEN excluded.due < push_targets.due THEN excluded.due ELSE push_targets.due END;

-- name: set_target
-- reschedule the check of a push agent, unless mail arrived meanwhile
INSERT INTO push_targets (workspace_id, due) SELECT CAST(:workspace_id AS TEXT), CAST(:due AS BIGINT) WHERE NOT EXISTS (
    SELECT 1 FROM activities WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :last
) ON CONFLICT (workspace_id) DO UPDATE SET due = excluded.due;

-- name: drop_target
-- unschedule a push agent without mail, unless mail arrived meanwhile
DELETE FROM push_targets WHERE workspace_id = :workspace_id AND NOT EXISTS (
    SELECT 1 FROM activities WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :last
);

-- name: due_targets
-- the push agents to check, longest due first
SELECT workspace_id, due FROM push_targets ORDER BY due, workspace_id LIMIT :count;

-- name: push_head
-- the first unacknowledged rows of an inbox in order, with their push state
SELECT r.seq, r.inbound_no, coalesce(h.attempt, 0), coalesce(h.lease_until, 0), coalesce(p.next_at, 0),
    coalesce(p.busy, 0), coalesce(p.noted_at, 0), r.id, r.kind
FROM activities r
LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
LEFT JOIN pushes p ON p.workspace_id = r.workspace_id AND p.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor
    AND h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0 AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.seq LIMIT :count;

-- name: push_requeued
-- the same for requeued dead letters and reminders, except for answered ones that are not being pushed: those are withdrawn
SELECT r.seq, r.inbound_no, h.attempt, h.lease_until, coalesce(p.next_at, 0), coalesce(p.busy, 0),
    coalesce(p.noted_at, 0), r.id, r.kind
FROM handouts h
JOIN activities r ON r.workspace_id = h.workspace_id AND r.seq = h.seq
LEFT JOIN pushes p ON p.workspace_id = h.workspace_id AND p.seq = h.seq
WHERE h.workspace_id = :workspace_id AND h.requeued = 1 AND (h.lease_until > :now OR NOT EXISTS (
    SELECT 1 FROM obligations o
    WHERE o.workspace_id = h.workspace_id AND o.seq = h.seq AND o.state <> 'open' AND o.reminded_at > 0
        AND NOT EXISTS (
            SELECT 1 FROM dead_letters d WHERE d.workspace_id = o.workspace_id AND d.seq = o.seq AND d.state = 'requeued'
        )
))
ORDER BY r.seq LIMIT :count;

-- name: forget_push
-- delete the push state of a message, so that its next push counts as the first
DELETE FROM pushes WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: save_answer_wait
-- store the wait of a sender for an answer; of several requests the longest wait counts
INSERT INTO answer_waits (activity_id, until) VALUES (:id, :until)
ON CONFLICT (activity_id) DO UPDATE SET
    until = CASE WHEN excluded.until > answer_waits.until THEN excluded.until ELSE answer_waits.until END;

-- name: answer_wait
-- the end of the wait for the answer to a message
SELECT until FROM answer_waits WHERE activity_id = :id;

-- name: forget_answer_wait
-- delete the wait for the answer to a message
DELETE FROM answer_waits WHERE activity_id = :id;

-- name: resume_pushes
-- let pushes that were deferred to a time be made now
UPDATE pushes SET next_at = :now WHERE workspace_id = :workspace_id AND next_at = :until;

-- name: start_push
-- mark a message as being pushed now
UPDATE pushes SET next_at = 0, busy = 0 WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: push_body
-- the row to push
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, a.context_id, a.inbound_no
FROM activities a WHERE a.workspace_id = :workspace_id AND a.seq = :seq;

-- name: last_instructions
-- the instructions that an agent saw last
SELECT template, facts, missed FROM instruction_seats WHERE workspace_id = :workspace_id;

-- name: save_last_instructions
-- store the instructions that an agent saw last
INSERT INTO instruction_seats (workspace_id, template, facts, missed)
VALUES (:workspace_id, :template, :facts, :missed)
ON CONFLICT (workspace_id) DO UPDATE SET
    template = excluded.template, facts = excluded.facts, missed = excluded.missed;

-- name: forget_last_instructions
-- forget the instructions that an agent saw, so that it gets full ones again
DELETE FROM instruction_seats WHERE workspace_id = :workspace_id;

-- name: save_push
-- store the push state of a message
INSERT INTO pushes (workspace_id, seq, failures, next_at, busy, noted_at, last_error, answer, answered_at)
VALUES (:workspace_id, :seq, :failures, :next_at, :busy, :noted_at, :last_error, :answer, :answered_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    failures = excluded.failures, next_at = excluded.next_at, busy = excluded.busy, noted_at = excluded.noted_at,
    last_error = excluded.last_error, answer = excluded.answer, answered_at = excluded.answered_at;

-- name: activity_for_event
-- a row as its event carries it; bodies above a size are left out
SELECT id, seq, activity_type, chat, method, kind, source_id, target_id, status, duration_ms, summary, error_detail,
    CASE WHEN chat = 1 OR size <= :most THEN request_body END, CASE WHEN size <= :most THEN response_body END,
    CASE WHEN size <= :most THEN tool_trace END, workspace_id, intent, created_at, context_id, inbound_no
FROM activities WHERE id = :id;

-- name: chat_head
-- the last message of a chat, a person's read mark, and the number of agent messages after that
SELECT a.workspace_id, a.id, a.seq, a.method, a.created_at, a.summary, coalesce(m.seq, 0), (
    SELECT count(*) FROM (
        SELECT 1 FROM activities u
        WHERE u.workspace_id = :workspace_id AND u.chat = 1 AND u.seq > coalesce(m.seq, 0) AND u.method = 'notify'
        LIMIT :most
    ) x
)
FROM activities a LEFT JOIN read_marks m ON m.workspace_id = a.workspace_id AND m.person_id = :person_id
WHERE a.workspace_id = :workspace_id AND a.chat = 1 ORDER BY a.seq DESC LIMIT 1;

-- name: peers_of_workspace
-- the workspaces that a workspace got messages from or sent messages to, with the times of the last ones. Recipients are looked up one by one: an index of them would cost each message more than the list costs
WITH RECURSIVE senders (id) AS (
    SELECT min(f.source_id) FROM activities f
    WHERE f.workspace_id = :workspace_id AND f.source_id IS NOT NULL AND f.inbound_no IS NOT NULL
    UNION ALL
    SELECT (
        SELECT min(n.source_id) FROM activities n
        WHERE n.workspace_id = :workspace_id AND n.source_id > s.id AND n.inbound_no IS NOT NULL
    ) FROM senders s WHERE s.id IS NOT NULL
), recipients (id) AS (
    SELECT w.id FROM workspaces w WHERE w.org_id = :org_id AND (
        SELECT max(a.created_at) FROM activities a
        WHERE a.workspace_id = w.id AND a.source_id = :workspace_id AND a.inbound_no IS NOT NULL
    ) IS NOT NULL
)
SELECT p.id, coalesce((
    SELECT max(a.created_at) FROM activities a
    WHERE a.workspace_id = :workspace_id AND a.source_id = p.id AND a.inbound_no IS NOT NULL
), 0), coalesce((
    SELECT max(a.created_at) FROM activities a
    WHERE a.workspace_id = p.id AND a.source_id = :workspace_id AND a.inbound_no IS NOT NULL
), 0)
FROM (SELECT id FROM senders UNION SELECT id FROM recipients) p
WHERE p.id IS NOT NULL AND p.id <> :workspace_id;

-- name: peer_head
-- the last message from one workspace to another, and how many there are, up to a number
SELECT a.id, a.source_id, a.kind, a.summary, a.created_at, (
    SELECT count(*) FROM (
        SELECT 1 FROM activities c
        WHERE c.workspace_id = :workspace_id AND c.source_id = :source_id AND c.inbound_no IS NOT NULL LIMIT :most
    ) x
)
FROM activities a
WHERE a.workspace_id = :workspace_id AND a.source_id = :source_id AND a.inbound_no IS NOT NULL
ORDER BY a.created_at DESC, a.id DESC LIMIT 1;

-- name: peer_message_position
-- the position of a message between two workspaces
SELECT created_at, id FROM activities
WHERE id = :id AND inbound_no IS NOT NULL AND (
    (workspace_id = :workspace_id AND source_id = :peer_id) OR (workspace_id = :peer_id AND source_id = :workspace_id)
);

-- name: peer_messages_before
-- messages from one workspace to another before a position, newest first, with the state of each; results of delegations left out
SELECT a.id, a.workspace_id, a.source_id, a.seq, a.kind, a.created_at, a.request_body, CASE
    WHEN d.state IN ('dead', 'discarded') THEN 'dead'
    WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 'acked'
    WHEN h.attempt > 0 AND h.lease_until > 0 THEN CASE WHEN h.unread = 1 THEN 'in_inbox' ELSE 'handed_over' END
    ELSE 'stored'
END, CASE WHEN d.state IN ('dead', 'discarded') THEN d.reason END, w.found,
    o.state, o.overdue_at, o.outside_at, o.due_at, o.draft, o.reason, o.template, o.version, o.form, o.tokens
FROM (
    SELECT p.seq, count(*) OVER () AS found,
        sum(p.size) OVER (ORDER BY p.created_at DESC, p.id DESC) - p.size AS before
    FROM (
        SELECT r.seq, r.id, r.created_at,
            r.size + CASE WHEN t.state = 'open' THEN coalesce(octet_length(t.draft), 0) ELSE 0 END AS size
        FROM activities r LEFT JOIN obligations t ON t.workspace_id = r.workspace_id AND t.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.source_id = :source_id AND r.inbound_no IS NOT NULL
            AND r.kind <> 'delegation_result' AND (r.created_at, r.id) < (:at, :id)
        ORDER BY r.created_at DESC, r.id DESC LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
WHERE w.before < :page_bytes ORDER BY a.created_at DESC, a.id DESC;

-- name: peer_messages_after
-- messages from one workspace to another after a position, oldest first, with the state of each; results of delegations left out
SELECT a.id, a.workspace_id, a.source_id, a.seq, a.kind, a.created_at, a.request_body, CASE
    WHEN d.state IN ('dead', 'discarded') THEN 'dead'
    WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 'acked'
    WHEN h.attempt > 0 AND h.lease_until > 0 THEN CASE WHEN h.unread = 1 THEN 'in_inbox' ELSE 'handed_over' END
    ELSE 'stored'
END, CASE WHEN d.state IN ('dead', 'discarded') THEN d.reason END, w.found,
    o.state, o.overdue_at, o.outside_at, o.due_at, o.draft, o.reason, o.template, o.version, o.form, o.tokens
FROM (
    SELECT p.seq, count(*) OVER () AS found,
        sum(p.size) OVER (ORDER BY p.created_at, p.id) - p.size AS before
    FROM (
        SELECT r.seq, r.id, r.created_at,
            r.size + CASE WHEN t.state = 'open' THEN coalesce(octet_length(t.draft), 0) ELSE 0 END AS size
        FROM activities r LEFT JOIN obligations t ON t.workspace_id = r.workspace_id AND t.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.source_id = :source_id AND r.inbound_no IS NOT NULL
            AND r.kind <> 'delegation_result' AND (r.created_at, r.id) > (:at, :id)
        ORDER BY r.created_at, r.id LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
WHERE w.before < :page_bytes ORDER BY a.created_at, a.id;

-- name: unanswered_of_org
-- messages of an organisation that are overdue or answered outside
SELECT workspace_id, seq, CASE WHEN overdue_at IS NULL THEN 0 ELSE 1 END, CASE WHEN outside_at IS NULL THEN 0 ELSE 1 END
FROM obligations WHERE org_id = :org_id AND state = 'open' AND (overdue_at IS NOT NULL OR outside_at IS NOT NULL)
ORDER BY workspace_id, seq LIMIT :most;

-- name: save_read_mark
-- store how far a person has read a chat; never moves back
INSERT INTO read_marks (person_id, workspace_id, seq) VALUES (:person_id, :workspace_id, :seq)
ON CONFLICT (person_id, workspace_id) DO UPDATE SET
    seq = CASE WHEN excluded.seq > read_marks.seq THEN excluded.seq ELSE read_marks.seq END;

-- name: move_read_mark_back
-- store that a person has read less of a chat; never moves forward
UPDATE read_marks SET seq = :seq WHERE person_id = :person_id AND workspace_id = :workspace_id AND seq > :seq;

-- name: mark_past_read
-- store that a person has read all chats of an organisation
INSERT INTO read_marks (person_id, workspace_id, seq)
SELECT :person_id, w.id, coalesce((SELECT max(a.seq) FROM activities a WHERE a.workspace_id = w.id), 0)
FROM workspaces w WHERE w.org_id = :org_id;

-- name: insert_question
-- store an open question of an agent to people
INSERT INTO questions (workspace_id, seq, org_id, activity_id, asked_at)
VALUES (:workspace_id, :seq, :org_id, :activity_id, :asked_at);

-- name: forget_oldest_questions
-- delete the open questions of a workspace except the newest `most`
DELETE FROM questions WHERE workspace_id = :workspace_id AND seq <= (
    SELECT q.seq FROM questions q WHERE q.workspace_id = :workspace_id ORDER BY q.seq DESC LIMIT 1 OFFSET :most
);

-- name: close_question
-- close the question of which a person has chosen an option
DELETE FROM questions WHERE workspace_id = :workspace_id AND activity_id = :activity_id;

-- name: close_questions_before
-- close the questions before a message of a person
DELETE FROM questions WHERE workspace_id = :workspace_id AND seq < :seq;

-- name: forget_question
-- delete the question of a pruned row
DELETE FROM questions WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_questions
-- delete the questions of a removed workspace
DELETE FROM questions WHERE workspace_id = :workspace_id;

-- name: questions_page
-- open questions of an organisation after a position, oldest first, limited by rows and bytes (at least one row)
SELECT a.id, a.workspace_id, a.seq, a.created_at, a.request_body, w.found
FROM (
    SELECT p.workspace_id, p.seq, count(*) OVER () AS found,
        sum(p.size) OVER (ORDER BY p.asked_at, p.activity_id) - p.size AS before
    FROM (
        SELECT q.workspace_id, q.seq, q.asked_at, q.activity_id, r.size
        FROM questions q JOIN activities r ON r.workspace_id = q.workspace_id AND r.seq = q.seq
        WHERE q.org_id = :org_id
            AND (CAST(:at AS BIGINT) IS NULL OR (q.asked_at, q.activity_id) > (:at, CAST(:after AS TEXT)))
        ORDER BY q.asked_at, q.activity_id LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = w.workspace_id AND a.seq = w.seq
WHERE w.before < :page_bytes ORDER BY a.created_at, a.id;

-- name: position_of_question
-- when a question was asked, answered or not
SELECT created_at FROM activities WHERE id = :id AND org_id = :org_id AND method = 'notify';

-- name: cause_of
-- the message that an agent is working on: the named one if it was delivered, else the newest claimed, else the newest acknowledged
SELECT a.id, a.root_id, a.hop, a.small_talk, a.source_id, a.created_at, CASE WHEN h.seq IS NULL THEN 0 ELSE 1 END,
    c.state, c.reason, c.trips, c.most_hops, c.most_messages, c.most_small_talk
FROM activities a
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq AND h.acked_at IS NULL
LEFT JOIN chains c ON c.root_id = coalesce(a.root_id, a.id)
WHERE a.workspace_id = :workspace_id AND a.seq = coalesce(
    (
        SELECT n.seq FROM activities n
        WHERE n.id = CAST(:named AS TEXT) AND n.workspace_id = :workspace_id AND n.inbound_no IS NOT NULL AND (
            n.seq <= (SELECT i.acked_seq FROM inboxes i WHERE i.workspace_id = :workspace_id)
            OR EXISTS (SELECT 1 FROM handouts g WHERE g.workspace_id = :workspace_id AND g.seq = n.seq)
        )
    ),
    (
        SELECT o.seq FROM handouts o WHERE o.workspace_id = :workspace_id AND o.acked_at IS NULL
        ORDER BY o.seq DESC LIMIT 1
    ),
    (
        SELECT d.seq FROM handouts d WHERE d.workspace_id = :workspace_id AND d.acked_at IS NOT NULL
        ORDER BY d.seq DESC LIMIT 1
    ),
    (
        SELECT r.seq FROM activities r
        WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL
            AND r.seq <= (SELECT j.acked_seq FROM inboxes j WHERE j.workspace_id = :workspace_id)
        ORDER BY r.seq DESC LIMIT 1
    )
);

-- name: last_in_chain
-- the number of messages after the first one of a chain
SELECT chain_no FROM activities WHERE root_id = :key AND chain_no IS NOT NULL ORDER BY chain_no DESC LIMIT 1;

-- name: chain_trips
-- how often a chain exceeded a limit
SELECT trips FROM chains WHERE root_id = :key;

-- name: save_chain
-- store a chain that exceeded a limit, or a person's decision on it
INSERT INTO chains (
    root_id, org_id, workspace_id, state, reason, trips, hops, messages, small_talk, most_hops, most_messages,
    most_small_talk, frozen_at, released_at, ended_at, decided_by
) VALUES (
    :root_id, :org_id, :workspace_id, :state, :reason, :trips, :hops, :messages, :small_talk, :most_hops,
    :most_messages, :most_small_talk, :frozen_at, :released_at, :ended_at, :decided_by
)
ON CONFLICT (root_id) DO UPDATE SET
    workspace_id = excluded.workspace_id, state = excluded.state, reason = excluded.reason, trips = excluded.trips,
    hops = excluded.hops, messages = excluded.messages, small_talk = excluded.small_talk,
    most_hops = excluded.most_hops, most_messages = excluded.most_messages,
    most_small_talk = excluded.most_small_talk, frozen_at = excluded.frozen_at, released_at = excluded.released_at,
    ended_at = excluded.ended_at, decided_by = excluded.decided_by;

-- name: chain
-- the record of a chain
SELECT root_id, org_id, workspace_id, state, reason, trips, hops, messages, small_talk, most_hops, most_messages,
    most_small_talk, frozen_at, released_at, ended_at, decided_by
FROM chains WHERE root_id = :root_id AND org_id = :org_id;

-- name: chains_of_org
-- the chains of an organisation that exceeded a limit, newest first; in one state or all, before one of them
SELECT root_id, org_id, workspace_id, state, reason, trips, hops, messages, small_talk, most_hops, most_messages,
    most_small_talk, frozen_at, released_at, ended_at, decided_by
FROM chains
WHERE org_id = :org_id AND (CAST(:state AS TEXT) IS NULL OR state = :state) AND (
    CAST(:before AS TEXT) IS NULL
    OR (frozen_at, root_id) < (SELECT b.frozen_at, b.root_id FROM chains b WHERE b.root_id = :before)
)
ORDER BY frozen_at DESC, root_id DESC LIMIT :count;

-- name: chain_root
-- the first message of a chain
SELECT id, workspace_id, source_id, target_id, method, kind, summary, hop, cause_id, created_at, 0
FROM activities WHERE id = :root_id AND org_id = :org_id AND root_id IS NULL;

-- name: trace_root
-- the first message of the chain that a message belongs to, with the state of its obligation
SELECT r.id, r.workspace_id, r.source_id, r.target_id, r.method, r.kind, r.summary, r.hop, r.cause_id, r.created_at, 0,
    r.seq, r.user_id, o.state, o.closed_at
FROM activities m JOIN activities r ON r.id = coalesce(m.root_id, m.id)
LEFT JOIN obligations o ON o.workspace_id = r.workspace_id AND o.seq = r.seq
WHERE m.id = :id AND m.org_id = :org_id AND r.org_id = :org_id;

-- name: trace_messages
-- the messages after the first one of a chain, in order, with the state of their obligations
SELECT a.id, a.workspace_id, a.source_id, a.target_id, a.method, a.kind, a.summary, a.hop, a.cause_id, a.created_at,
    a.chain_no, a.seq, a.user_id, o.state, o.closed_at
FROM activities a LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
WHERE a.root_id = :root_id AND a.chain_no IS NOT NULL AND a.org_id = :org_id
ORDER BY a.chain_no LIMIT :count;

-- name: turn_logs_after
-- what bridges logged about turns of a workspace, among the rows after a position
SELECT created_at, duration_ms, request_body FROM activities
WHERE workspace_id = :workspace_id AND seq > :seq AND seq <= :last_seq AND activity_type = 'agent_log'
    AND method = 'bridge' AND request_body IS NOT NULL
ORDER BY seq;

-- name: chain_messages
-- the messages after the first one of a chain, in order
SELECT id, workspace_id, source_id, target_id, method, kind, summary, hop, cause_id, created_at, chain_no
FROM activities
WHERE root_id = :root_id AND chain_no IS NOT NULL AND chain_no > :after AND org_id = :org_id
ORDER BY chain_no LIMIT :count;

-- name: response_of
-- the stored response of a row
SELECT response_body FROM activities WHERE id = :id;

-- name: oldest_rows
-- the oldest rows of a log after a position, with the columns that retention needs
SELECT a.seq, a.id, a.created_at, a.inbound_no, a.chat, a.method,
    CASE WHEN d.state IN ('dead', 'requeued') OR h.requeued = 1 OR EXISTS (
        SELECT 1 FROM obligations o
        WHERE o.workspace_id = a.workspace_id AND o.seq = a.seq AND o.state = 'open'
            AND (a.kind = 'delegation' OR o.due_at IS NOT NULL)
    ) THEN 1 ELSE 0 END
FROM activities a LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
WHERE a.workspace_id = :workspace_id AND a.seq > :seq ORDER BY a.seq LIMIT :count;

-- name: files_mentioned
-- the files mentioned by a range of log rows
SELECT DISTINCT m.file_id FROM activities a JOIN file_mentions m ON m.activity_id = a.id
WHERE a.workspace_id = :workspace_id AND a.seq >= :first AND a.seq <= :last;

-- name: forget_mentions
-- delete the file mentions of a row
DELETE FROM file_mentions WHERE activity_id = :id;

-- name: forget_claim
-- delete the claim of a row
DELETE FROM handouts WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_dead_letter
-- delete the dead letter of a row
DELETE FROM dead_letters WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_deliveries
-- delete the ticks of inbox rows up to a number
DELETE FROM handovers WHERE workspace_id = :workspace_id AND last_no <= :upto_no;

-- name: forget_every_delivery
-- delete all ticks of an inbox
DELETE FROM handovers WHERE workspace_id = :workspace_id;

-- name: log_heads
-- the ack floor, and the rows that retention always keeps: the newest of the log, the inbox and the chat
SELECT (SELECT acked_seq FROM inboxes WHERE workspace_id = :workspace_id),
    (SELECT max(seq) FROM activities WHERE workspace_id = :workspace_id),
    (SELECT max(seq) FROM activities WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL),
    (SELECT max(seq) FROM activities WHERE workspace_id = :workspace_id AND chat = 1);

-- name: agent_lines
-- the newest chat messages of an agent, newest first
SELECT seq FROM activities WHERE workspace_id = :workspace_id AND chat = 1 AND method = 'notify'
ORDER BY seq DESC LIMIT :count;

-- name: forget_activity
-- delete an old row
DELETE FROM activities WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_inbox
-- delete the inbox of a workspace that was removed long ago
DELETE FROM inboxes WHERE workspace_id = :workspace_id;

-- name: forget_every_claim
-- delete its claims
DELETE FROM handouts WHERE workspace_id = :workspace_id;

-- name: forget_read_marks
-- delete the read marks of its chat
DELETE FROM read_marks WHERE workspace_id = :workspace_id;

-- name: inbox_unhandled
-- the number of unacknowledged messages of an inbox, and of its requeued dead letters
SELECT coalesce((
    SELECT inbound_no FROM activities
    WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL ORDER BY seq DESC LIMIT 1
), 0) - coalesce((SELECT acked_no + acked_above FROM inboxes WHERE workspace_id = :workspace_id), 0),
    coalesce((SELECT requeued FROM inboxes WHERE workspace_id = :workspace_id), 0);

-- name: overdue_count
-- the number of overdue messages of an organisation's active workspaces; the condition in brackets is that of the index
SELECT count(*) FROM obligations
WHERE org_id = :org_id AND state = 'open' AND (overdue_at IS NOT NULL OR outside_at IS NOT NULL)
    AND overdue_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM workspaces s WHERE s.id = obligations.workspace_id AND s.removed_at IS NOT NULL);

-- name: dead_letter_count
-- the number of dead letters of an organisation
SELECT count(*) FROM dead_letters WHERE org_id = :org_id AND state = 'dead';

-- name: open_obligation
-- open an obligation for a delivered message; again, if an earlier delivery was undone
INSERT INTO obligations (
    workspace_id, seq, activity_id, org_id, source_id, state, handed_at, due_at, by_handle, template_org, template,
    version, form, tokens
) VALUES (
    :workspace_id, :seq, :activity_id, :org_id, :source_id, 'open', :now, :due_at, 0, :template_org, :template,
    :version, :form, :tokens
)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    handed_at = CASE WHEN obligations.due_at IS NULL AND obligations.overdue_at IS NULL
        THEN excluded.handed_at ELSE obligations.handed_at END,
    due_at = CASE WHEN obligations.due_at IS NULL AND obligations.overdue_at IS NULL
        THEN excluded.due_at ELSE obligations.due_at END,
    template_org = coalesce(excluded.template_org, obligations.template_org),
    template = coalesce(excluded.template, obligations.template),
    version = coalesce(excluded.version, obligations.version),
    form = coalesce(excluded.form, obligations.form),
    tokens = coalesce(excluded.tokens, obligations.tokens)
WHERE obligations.state = 'open';

-- name: open_obligations_read_by_cursor
-- open obligations for requests that a reader passed without a claim, except for dead letters and requeued ones; again, if an earlier delivery was undone
INSERT INTO obligations (workspace_id, seq, activity_id, org_id, source_id, state, handed_at, due_at, by_handle)
SELECT a.workspace_id, a.seq, a.id, a.org_id, a.source_id, 'open', CAST(:now AS BIGINT),
    CASE WHEN a.kind IN ('delegation', 'approval_request') THEN NULL ELSE CAST(:due_at AS BIGINT) END, 0
FROM activities a
WHERE a.workspace_id = :workspace_id AND a.inbound_no IS NOT NULL AND a.seq > :floor AND a.seq <= :seq
    AND a.intent = 'request'
    AND NOT EXISTS (
        SELECT 1 FROM dead_letters d
        WHERE d.workspace_id = a.workspace_id AND d.seq = a.seq AND d.state IN ('dead', 'discarded', 'requeued')
    )
ON CONFLICT (workspace_id, seq) DO UPDATE SET handed_at = excluded.handed_at, due_at = excluded.due_at
WHERE obligations.state = 'open' AND obligations.due_at IS NULL AND obligations.overdue_at IS NULL
    AND obligations.reminded_at IS NULL AND excluded.due_at IS NOT NULL;

-- name: unclaimed_delegation_messages
-- unacknowledged delegation messages of a range that are not in progress: never delivered, or released since
SELECT a.id, CASE WHEN h.attempt > 0 THEN h.attempt ELSE 1 END
FROM activities a
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
WHERE a.workspace_id = :workspace_id AND a.inbound_no IS NOT NULL AND a.seq > :floor AND a.seq <= :seq
    AND a.kind = 'delegation' AND a.intent = 'request' AND h.acked_at IS NULL
    AND (o.seq IS NULL OR (
        o.state = 'open' AND h.attempt > 0 AND h.lease_until <= :now AND h.lease_until >= o.handed_at
    ))
    AND NOT EXISTS (
        SELECT 1 FROM dead_letters d
        WHERE d.workspace_id = a.workspace_id AND d.seq = a.seq AND d.state IN ('dead', 'discarded')
    )
ORDER BY a.seq;

-- name: obligations_between
-- delivered requests of a log range, answered or not, unless they were released since; and which of them are reminders
SELECT o.seq, CASE WHEN o.state = 'open' AND o.reminded_at > 0 AND o.overdue_at IS NULL THEN 1 ELSE 0 END
FROM obligations o WHERE o.workspace_id = :workspace_id AND o.seq >= :first AND o.seq <= :last AND NOT (
    o.state = 'open' AND o.due_at IS NULL AND o.overdue_at IS NULL AND o.reminded_at IS NULL AND EXISTS (
        SELECT 1 FROM handouts h
        WHERE h.workspace_id = o.workspace_id AND h.seq = o.seq AND h.attempt > 0 AND h.acked_at IS NULL
            AND h.lease_until <= :now AND h.lease_until >= o.handed_at
    )
);

-- name: obligation
-- the obligation of one message
SELECT o.workspace_id, o.seq, o.activity_id, o.org_id, o.source_id, o.state, o.handed_at, o.due_at, o.reminded_at,
    o.outside_at, o.overdue_at, o.closed_at, o.answer_id, o.by_handle, o.reason, o.draft, o.template_org, o.template,
    o.version, o.form, o.tokens, a.inbound_no, a.context_id, a.summary, a.kind
FROM obligations o JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE o.workspace_id = :workspace_id AND o.seq = :seq;

-- name: obligation_to_user
-- the obligation that an answer to the user closes: of the named message, else the newest open one that is not about an approval
SELECT o.workspace_id, o.seq, o.activity_id, o.org_id, o.source_id, o.state, o.handed_at, o.due_at, o.reminded_at,
    o.outside_at, o.overdue_at, o.closed_at, o.answer_id, o.by_handle, o.reason, o.draft, o.template_org, o.template,
    o.version, o.form, o.tokens, a.inbound_no, a.context_id, a.summary, a.kind
FROM obligations o JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE o.workspace_id = :workspace_id AND o.seq = coalesce(
    (
        SELECT n.seq FROM activities n
        WHERE n.id = CAST(:named AS TEXT) AND n.workspace_id = :workspace_id AND n.inbound_no IS NOT NULL
            AND n.source_id IS NULL
    ),
    (
        SELECT p.seq FROM obligations p JOIN activities q ON q.workspace_id = p.workspace_id AND q.seq = p.seq
        WHERE p.workspace_id = :workspace_id AND p.state = 'open' AND p.source_id IS NULL
            AND (q.kind IS NULL OR q.kind NOT IN ('approval_request', 'approval_decision'))
        ORDER BY p.seq DESC LIMIT 1
    )
);

-- name: obligation_to_peer
-- the same for an answer to a peer
SELECT o.workspace_id, o.seq, o.activity_id, o.org_id, o.source_id, o.state, o.handed_at, o.due_at, o.reminded_at,
    o.outside_at, o.overdue_at, o.closed_at, o.answer_id, o.by_handle, o.reason, o.draft, o.template_org, o.template,
    o.version, o.form, o.tokens, a.inbound_no, a.context_id, a.summary, a.kind
FROM obligations o JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE o.workspace_id = :workspace_id AND o.seq = coalesce(
    (
        SELECT n.seq FROM activities n
        WHERE n.id = CAST(:named AS TEXT) AND n.workspace_id = :workspace_id AND n.inbound_no IS NOT NULL
            AND n.source_id = :source_id
    ),
    (
        SELECT p.seq FROM obligations p JOIN activities q ON q.workspace_id = p.workspace_id AND q.seq = p.seq
        WHERE p.workspace_id = :workspace_id AND p.state = 'open' AND p.source_id = :source_id
            AND (q.kind IS NULL OR q.kind NOT IN ('approval_request', 'approval_decision'))
        ORDER BY p.seq DESC LIMIT 1
    )
);

-- name: open_requests_of_peer
-- the oldest open obligations to one peer that a text can answer, with the text's beginning
SELECT o.seq, o.activity_id, o.source_id, q.context_id, q.kind, q.summary
FROM obligations o JOIN activities q ON q.workspace_id = o.workspace_id AND q.seq = o.seq
WHERE o.workspace_id = :workspace_id AND o.state = 'open' AND o.source_id = :source_id
    AND (q.kind IS NULL OR q.kind NOT IN ('approval_request', 'approval_decision'))
ORDER BY o.seq LIMIT :most;

-- name: unanswered_requests
-- unanswered plain requests of an inbox, delivered or not: per sending workspace their number and the `most` newest, newest first (CROSS JOIN: SQLite starts with the few requeued rows)
SELECT n.source_id, n.found, n.id, n.created_at
FROM (
    SELECT u.source_id, u.id, u.seq, u.created_at, count(*) OVER (PARTITION BY u.source_id) AS found,
        row_number() OVER (PARTITION BY u.source_id ORDER BY u.seq DESC) AS place
    FROM (
        SELECT a.source_id, a.id, a.seq, a.created_at, a.kind
        FROM obligations o JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
        WHERE o.workspace_id = :workspace_id AND o.state = 'open' AND o.source_id IS NOT NULL
        UNION ALL
        SELECT r.source_id, r.id, r.seq, r.created_at, r.kind
        FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
        WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL
            AND r.seq > coalesce((SELECT acked_seq FROM inboxes WHERE workspace_id = :workspace_id), 0)
            AND h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0 AND r.intent = 'request' AND r.source_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM obligations p WHERE p.workspace_id = r.workspace_id AND p.seq = r.seq)
        UNION ALL
        SELECT q.source_id, q.id, q.seq, q.created_at, q.kind
        FROM handouts g CROSS JOIN activities q
        WHERE g.workspace_id = :workspace_id AND g.requeued = 1 AND q.workspace_id = g.workspace_id AND q.seq = g.seq
            AND q.intent = 'request' AND q.source_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM obligations p WHERE p.workspace_id = q.workspace_id AND p.seq = q.seq)
    ) u
    WHERE u.kind IS NULL OR u.kind NOT IN ('delegation', 'approval_request', 'approval_decision')
) n WHERE n.place <= :most ORDER BY n.seq DESC;

-- name: inbox_message
-- an inbox message with the columns that an answer needs
SELECT id, org_id, workspace_id, source_id, context_id, seq, inbound_no, intent, kind
FROM activities WHERE workspace_id = :workspace_id AND seq = :seq AND inbound_no IS NOT NULL;

-- name: close_obligation
-- close an obligation as answered or declined
UPDATE obligations SET
    state = :state, closed_at = :now, due_at = NULL, answer_id = :answer_id, by_handle = :by_handle, reason = :reason
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open';

-- name: note_answer
-- store the row of the answer that closed an obligation
UPDATE obligations SET answer_id = :answer_id WHERE workspace_id = :workspace_id AND seq = :seq AND answer_id IS NULL;

-- name: postpone_obligation
-- set a later due time
UPDATE obligations SET due_at = :due_at, reminded_at = :reminded_at
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open';

-- name: unwatch_obligation
-- stop watching an obligation after an undone delivery, until the next one
UPDATE obligations SET due_at = NULL
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open' AND reminded_at IS NULL;

-- name: overdue_obligation
-- mark an obligation as overdue
UPDATE obligations SET overdue_at = :now, due_at = NULL
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open';

-- name: note_failure
-- note why the agent's work on a message failed
UPDATE obligations SET reason = :reason
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open';

-- name: keep_draft
-- store a draft of an answer
UPDATE obligations SET draft = :draft, outside_at = coalesce(outside_at, :now)
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open';

-- name: drop_draft
-- delete a draft
UPDATE obligations SET draft = NULL, outside_at = NULL
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open';

-- name: forget_unanswerable_obligation
-- delete the obligation of a message that was given up, since no agent could answer it
DELETE FROM obligations
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open' AND overdue_at IS NULL AND outside_at IS NULL;

-- name: suspend_obligation
-- suspend the obligation of a message that was given up and has an outside answer, until its next delivery
UPDATE obligations SET due_at = NULL, reminded_at = NULL
WHERE workspace_id = :workspace_id AND seq = :seq AND state = 'open' AND overdue_at IS NULL;

-- name: obligations_due
-- the due obligations of a workspace, longest due first
SELECT o.workspace_id, o.seq, o.activity_id, o.org_id, o.source_id, o.state, o.handed_at, o.due_at, o.reminded_at,
    o.outside_at, o.overdue_at, o.closed_at, o.answer_id, o.by_handle, o.reason, o.draft, o.template_org, o.template,
    o.version, o.form, o.tokens, a.inbound_no, a.context_id, a.summary, a.kind
FROM obligations o JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE o.workspace_id = :workspace_id AND o.state = 'open' AND o.due_at <= :now
ORDER BY o.due_at, o.seq LIMIT :count;

-- name: shift_due_times
-- shift the due times of a workspace's open obligations
UPDATE obligations SET due_at = due_at + CAST(:microseconds AS BIGINT)
WHERE workspace_id = :workspace_id AND state = 'open' AND due_at IS NOT NULL AND overdue_at IS NULL;

-- name: next_obligation_due
-- the next due time of a workspace's obligations
SELECT min(due_at) FROM obligations WHERE workspace_id = :workspace_id AND state = 'open';

-- name: reminders_under_way
-- one row if an agent has a pending reminder
SELECT seq FROM obligations
WHERE workspace_id = :workspace_id AND state = 'open' AND reminded_at > 0 AND overdue_at IS NULL LIMIT 1;

-- name: obsolete_reminders
-- reminders that wait for delivery although their message was answered
SELECT h.seq, h.attempt, a.inbound_no, h.lease_until
FROM handouts h
JOIN obligations o ON o.workspace_id = h.workspace_id AND o.seq = h.seq
JOIN activities a ON a.workspace_id = h.workspace_id AND a.seq = h.seq
WHERE h.workspace_id = :workspace_id AND h.requeued = 1 AND o.state <> 'open' AND o.reminded_at > 0
    AND NOT EXISTS (
        SELECT 1 FROM dead_letters d WHERE d.workspace_id = h.workspace_id AND d.seq = h.seq AND d.state = 'requeued'
    );

-- name: obligations_page
-- a page of a workspace's obligations before one of them, newest first, limited by rows and bytes of drafts (at least one row); and the number of rows without the byte limit
SELECT o.workspace_id, o.seq, o.activity_id, o.org_id, o.source_id, o.state, o.handed_at, o.due_at, o.reminded_at,
    o.outside_at, o.overdue_at, o.closed_at, o.answer_id, o.by_handle, o.reason, o.draft, o.template_org, o.template,
    o.version, o.form, o.tokens, a.inbound_no, a.context_id, a.summary, a.kind, w.found
FROM (
    SELECT p.seq, COUNT(*) OVER () AS found, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT seq, CASE WHEN state = 'open' THEN coalesce(octet_length(draft), 0) ELSE 0 END AS size FROM obligations
        WHERE workspace_id = :workspace_id AND seq < :before
            AND (CAST(:unanswered AS BIGINT) = 0 OR overdue_at IS NOT NULL OR outside_at IS NOT NULL)
            AND (CAST(:state AS TEXT) IS NULL OR state = :state)
            AND (CAST(:overdue AS BIGINT) IS NULL OR (overdue_at IS NOT NULL) = (CAST(:overdue AS BIGINT) = 1))
            AND (CAST(:outside AS BIGINT) IS NULL OR (outside_at IS NOT NULL) = (CAST(:outside AS BIGINT) = 1))
        ORDER BY seq DESC LIMIT :count
    ) p
) w JOIN obligations o ON o.workspace_id = :workspace_id AND o.seq = w.seq
JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE w.before < :page_bytes ORDER BY o.seq DESC;

-- name: unanswered_page
-- the same for overdue and outside-answered obligations of an organisation's active workspaces
SELECT o.workspace_id, o.seq, o.activity_id, o.org_id, o.source_id, o.state, o.handed_at, o.due_at, o.reminded_at,
    o.outside_at, o.overdue_at, o.closed_at, o.answer_id, o.by_handle, o.reason, o.draft, o.template_org, o.template,
    o.version, o.form, o.tokens, a.inbound_no, a.context_id, a.summary, a.kind, w.found
FROM (
    SELECT p.workspace_id, p.seq, COUNT(*) OVER () AS found,
        sum(p.size) OVER (ORDER BY p.handed_at DESC, p.activity_id DESC) - p.size AS before
    FROM (
        SELECT workspace_id, seq, handed_at, activity_id, coalesce(octet_length(draft), 0) AS size FROM obligations
        WHERE org_id = :org_id AND state = 'open' AND (overdue_at IS NOT NULL OR outside_at IS NOT NULL)
            AND (CAST(:at AS BIGINT) IS NULL OR (handed_at, activity_id) < (:at, CAST(:before AS TEXT)))
            AND (CAST(:overdue AS BIGINT) IS NULL OR (overdue_at IS NOT NULL) = (CAST(:overdue AS BIGINT) = 1))
            AND (CAST(:outside AS BIGINT) IS NULL OR (outside_at IS NOT NULL) = (CAST(:outside AS BIGINT) = 1))
            AND NOT EXISTS (
                SELECT 1 FROM workspaces s WHERE s.id = obligations.workspace_id AND s.removed_at IS NOT NULL
            )
        ORDER BY handed_at DESC, activity_id DESC LIMIT :count
    ) p
) w JOIN obligations o ON o.workspace_id = w.workspace_id AND o.seq = w.seq
JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE w.before < :page_bytes ORDER BY o.handed_at DESC, o.activity_id DESC;

-- name: position_of_obligation
-- the position of an obligation in such a page
SELECT o.handed_at, o.seq, o.workspace_id, o.org_id
FROM activities a JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq WHERE a.id = :activity_id;

-- name: record_missed_request
-- record that an agent left a message unanswered
UPDATE instruction_seats SET missed = 1 WHERE workspace_id = :workspace_id;

-- name: forget_obligation
-- delete the obligation of a deleted message
DELETE FROM obligations WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: unanswered_between
-- overdue and outside-answered messages of a log range
SELECT o.seq, a.inbound_no
FROM obligations o JOIN activities a ON a.workspace_id = o.workspace_id AND a.seq = o.seq
WHERE o.workspace_id = :workspace_id AND o.seq >= :first AND o.seq <= :last AND o.state = 'open'
    AND (o.overdue_at IS NOT NULL OR o.outside_at IS NOT NULL) ORDER BY o.seq;

-- name: forget_every_obligation
-- delete the obligations of a workspace that was removed long ago
DELETE FROM obligations WHERE workspace_id = :workspace_id;

-- name: outcomes_since
-- good and missed outcomes of the newest messages sent with a template version since a time
SELECT COUNT(CASE WHEN missed = 0 THEN 1 END), COUNT(CASE WHEN missed = 1 THEN 1 END)
FROM (
    SELECT CASE WHEN outside_at IS NULL AND overdue_at IS NULL THEN 0 ELSE 1 END AS missed
    FROM obligations
    WHERE org_id = :org_id AND template = :template AND version = :version AND template_org = :template_org
        AND handed_at >= :since AND (state <> 'open' OR outside_at IS NOT NULL OR overdue_at IS NOT NULL)
    ORDER BY handed_at DESC LIMIT :count
) AS known;

-- name: figures_of_version
-- outcomes and tokens of the newest messages sent with a template version, each message counted once
SELECT COUNT(*), COUNT(CASE WHEN came = 'answered' THEN 1 END), COUNT(CASE WHEN came = 'declined' THEN 1 END),
    COUNT(CASE WHEN came = 'answered_outside' THEN 1 END), COUNT(CASE WHEN came = 'overdue' THEN 1 END),
    COUNT(CASE WHEN came = 'open' THEN 1 END), CAST(COALESCE(SUM(tokens), 0) AS BIGINT)
FROM (
    SELECT tokens, CASE
        WHEN overdue_at IS NOT NULL THEN 'overdue' WHEN outside_at IS NOT NULL THEN 'answered_outside' ELSE state
    END AS came
    FROM obligations
    WHERE org_id = :org_id AND template = :template AND version = :version AND template_org = :template_org
    ORDER BY handed_at DESC LIMIT :count
) AS told;

-- name: task_message
-- a message as part of an A2A task, with its delivery, its obligation and the answer to its push
SELECT a.id, a.org_id, a.workspace_id, a.seq, a.inbound_no, a.kind, a.intent, a.method, a.source_id, a.sender,
    a.context_id, a.created_at, a.root_id, a.cause_id, a.request_body, a.trace_parent, coalesce(h.attempt, 0),
    CASE WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 1 ELSE 0 END,
    p.answer, d.state, d.reason, d.died_at, o.state, o.handed_at, o.closed_at, o.answer_id, o.reason,
    CASE WHEN q.seq IS NULL THEN 0 ELSE 1 END
FROM activities a
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
LEFT JOIN questions q ON q.workspace_id = a.workspace_id AND q.seq = a.seq
WHERE a.id = :id;

-- name: task_chain
-- the same for the newest messages of a chain between two workspaces, or in the log of one (`peer_id` empty), newest first
SELECT a.id, a.org_id, a.workspace_id, a.seq, a.inbound_no, a.kind, a.intent, a.method, a.source_id, a.sender,
    a.context_id, a.created_at, a.root_id, a.cause_id, a.request_body, a.trace_parent, coalesce(h.attempt, 0),
    CASE WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 1 ELSE 0 END,
    p.answer, d.state, d.reason, d.died_at, o.state, o.handed_at, o.closed_at, o.answer_id, o.reason,
    CASE WHEN q.seq IS NULL THEN 0 ELSE 1 END
FROM activities a
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
LEFT JOIN questions q ON q.workspace_id = a.workspace_id AND q.seq = a.seq
WHERE a.root_id = :root_id AND a.chain_no IS NOT NULL
    AND (a.workspace_id = :workspace_id OR a.workspace_id = :peer_id)
ORDER BY a.chain_no DESC LIMIT :count;

-- name: task_heads_of_person
-- the newest messages of a person to a workspace, below a place, that begin an A2A task, with the time of their last change
SELECT a.id, a.context_id, a.seq, coalesce(o.closed_at, o.handed_at, a.created_at)
FROM (
    SELECT c.workspace_id, c.seq FROM activities c
    WHERE c.workspace_id = :workspace_id AND c.chat = 1 AND c.inbound_no IS NOT NULL AND c.sender = :sender
        AND c.root_id IS NULL AND c.seq < :before
    ORDER BY c.seq DESC LIMIT :count
) w JOIN activities a ON a.workspace_id = w.workspace_id AND a.seq = w.seq
LEFT JOIN obligations o ON o.workspace_id = w.workspace_id AND o.seq = w.seq
ORDER BY a.seq DESC;

-- name: task_heads_of_peer
-- the newest requests of a workspace to another, before one, that may begin an A2A task, with the time of their last change
SELECT a.id, a.context_id, a.created_at, coalesce(o.closed_at, o.handed_at, a.created_at)
FROM (
    SELECT c.id, c.workspace_id, c.seq, c.context_id, c.created_at FROM activities c
    WHERE c.workspace_id = :workspace_id AND c.source_id = :source_id AND c.inbound_no IS NOT NULL
        AND c.kind = 'peer_agent' AND c.intent = 'request' AND (c.created_at, c.id) < (:before, :before_id)
    ORDER BY c.created_at DESC, c.id DESC LIMIT :count
) a LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
ORDER BY a.created_at DESC, a.id DESC;

-- name: task_continuations
-- the same for the messages of a workspace to another in a context since a time, oldest first
SELECT a.id, a.org_id, a.workspace_id, a.seq, a.inbound_no, a.kind, a.intent, a.method, a.source_id, a.sender,
    a.context_id, a.created_at, a.root_id, a.cause_id, a.request_body, a.trace_parent, coalesce(h.attempt, 0),
    CASE WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 1 ELSE 0 END,
    p.answer, d.state, d.reason, d.died_at, o.state, o.handed_at, o.closed_at, o.answer_id, o.reason,
    CASE WHEN q.seq IS NULL THEN 0 ELSE 1 END
FROM activities a
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
LEFT JOIN obligations o ON o.workspace_id = a.workspace_id AND o.seq = a.seq
LEFT JOIN questions q ON q.workspace_id = a.workspace_id AND q.seq = a.seq
WHERE a.workspace_id = :workspace_id AND a.source_id = :source_id AND a.inbound_no IS NOT NULL
    AND a.created_at >= :since AND a.context_id = :context_id
ORDER BY a.created_at, a.id LIMIT :count;
