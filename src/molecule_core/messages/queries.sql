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
    request_body, response_body, tool_trace, root_id, hop, cause_id, expires_at, trace_parent,
    chain_no, small_talk
) VALUES (
    :id, :org_id, :workspace_id, :seq, :inbound_no, :chat, :size, :activity_type, :method, :kind, :intent, :source_id,
    :target_id, :user_id, :sender, :dedupe_key, :content_hash, :context_id, :status, :created_at, :duration_ms,
    :summary, :error_detail, :request_body, :response_body, :tool_trace, :root_id, :hop, :cause_id, :expires_at,
    :trace_parent, :chain_no, :small_talk
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
    duration_ms, summary, error_detail, request_body, response_body, tool_trace, root_id, hop, cause_id,
    trace_parent
FROM activities
WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :seq AND seq <= :last ORDER BY seq;

-- name: activity_after
-- the filtered log behind a number, oldest first, at most so many rows and bytes but at least one row
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent
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
    a.root_id, a.hop, a.cause_id, a.trace_parent
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
-- what a workspace and its users said, and how far each message has come, before a number and a time, newest first
SELECT a.id, a.seq, a.method, a.created_at, a.request_body, CASE
    WHEN a.inbound_no IS NULL THEN NULL
    WHEN d.state IN ('dead', 'discarded') THEN 'dead'
    WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 'acked'
    WHEN h.attempt > 0 AND h.lease_until > 0 THEN 'handed_over'
    ELSE 'stored'
END, CASE WHEN d.state IN ('dead', 'discarded') THEN d.reason END FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq DESC) - p.size AS before FROM (
        SELECT seq, size FROM activities
        WHERE workspace_id = :workspace_id AND chat = 1 AND seq < :seq
            AND (CAST(:before AS BIGINT) IS NULL OR created_at < :before)
        ORDER BY seq DESC LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
WHERE w.before < :page_bytes ORDER BY a.seq DESC;

-- name: chat_after
-- what a workspace and its users said, and how far each message has come, behind a number, oldest first
SELECT a.id, a.seq, a.method, a.created_at, a.request_body, CASE
    WHEN a.inbound_no IS NULL THEN NULL
    WHEN d.state IN ('dead', 'discarded') THEN 'dead'
    WHEN h.acked_at IS NOT NULL OR (a.seq <= i.acked_seq AND coalesce(h.requeued, 0) = 0) THEN 'acked'
    WHEN h.attempt > 0 AND h.lease_until > 0 THEN 'handed_over'
    ELSE 'stored'
END, CASE WHEN d.state IN ('dead', 'discarded') THEN d.reason END FROM (
    SELECT p.seq, sum(p.size) OVER (ORDER BY p.seq) - p.size AS before FROM (
        SELECT seq, size FROM activities
        WHERE workspace_id = :workspace_id AND chat = 1 AND seq > :seq
        ORDER BY seq LIMIT :count
    ) p
) w JOIN activities a ON a.workspace_id = :workspace_id AND a.seq = w.seq
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
WHERE w.before < :page_bytes ORDER BY a.seq;

-- name: insert_file
-- a file that came in
INSERT INTO files (
    id, org_id, workspace_id, uploaded_by, name, mime_type, size, sha256, activity_id, created_at, acked_at
) VALUES (
    :id, :org_id, :workspace_id, :uploaded_by, :name, :mime_type, :size, :sha256, :activity_id, :created_at, :acked_at
);

-- name: file
-- a file, and whether a message that mentions it went to a workspace
SELECT f.id, f.org_id, f.workspace_id, f.uploaded_by, f.name, f.mime_type, f.size, f.sha256, f.activity_id,
    f.created_at, f.acked_at,
    EXISTS (SELECT 1 FROM file_mentions m WHERE m.file_id = f.id AND m.workspace_id = :reader_id)
FROM files f WHERE f.id = :id;

-- name: file_is_mentioned
-- one row if any message mentions a file
SELECT 1 FROM file_mentions WHERE file_id = :file_id LIMIT 1;

-- name: insert_mention
-- a message mentions a file
INSERT INTO file_mentions (file_id, activity_id, workspace_id) VALUES (:file_id, :activity_id, :workspace_id);

-- name: ack_file
-- its workspace has taken a file
UPDATE files SET acked_at = :acked_at WHERE id = :id AND acked_at IS NULL;

-- name: delete_file
-- a file is forgotten
DELETE FROM files WHERE id = :id;

-- name: inbox_state
-- how far the inbox of a workspace is handled
SELECT acked_seq, acked_no, acked_above, requeued, dead FROM inboxes WHERE workspace_id = :workspace_id;

-- name: save_inbox
-- the inbox of a workspace is handled as far as this
INSERT INTO inboxes (workspace_id, acked_seq, acked_no, acked_above, requeued, dead)
VALUES (:workspace_id, :acked_seq, :acked_no, :acked_above, :requeued, :dead)
ON CONFLICT (workspace_id) DO UPDATE SET
    acked_seq = excluded.acked_seq, acked_no = excluded.acked_no, acked_above = excluded.acked_above,
    requeued = excluded.requeued, dead = excluded.dead;

-- name: claimable
-- inbound rows behind the floor that nobody holds and nobody handled, oldest first, with attempt and place in the inbox
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, w.attempt + 1, a.inbound_no
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
-- inbound rows behind the floor that nobody handled, held or not, oldest first, with the attempt they were last given
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, w.attempt
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
-- when the first lease of a workspace ends
SELECT min(lease_until) FROM handouts WHERE workspace_id = :workspace_id AND acked_at IS NULL;

-- name: handout
-- whether a row was handed out or handled
SELECT seq, attempt, lease_until, acked_at, requeued, shown_behind FROM handouts WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: handouts_upto
-- rows up to a number that were handed out or handled singly
SELECT seq, attempt, lease_until, acked_at, requeued, shown_behind FROM handouts WHERE workspace_id = :workspace_id AND seq <= :seq ORDER BY seq;

-- name: save_handout
-- a row is handed out, or handled
INSERT INTO handouts (workspace_id, seq, attempt, lease_until, acked_at)
VALUES (:workspace_id, :seq, :attempt, :lease_until, :acked_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    attempt = excluded.attempt, lease_until = excluded.lease_until, acked_at = excluded.acked_at;

-- name: forget_handouts
-- rows that the floor has passed need no note, unless they wait again
DELETE FROM handouts WHERE workspace_id = :workspace_id AND seq <= :seq AND requeued = 0;

-- name: last_inbound_upto
-- the newest inbound row up to a number
SELECT seq, inbound_no FROM activities
WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq <= :seq ORDER BY seq DESC LIMIT 1;

-- name: unhandled_upto
-- inbound rows behind the floor up to a number that match a filter and are not handled
SELECT r.seq, coalesce(h.attempt, 0), r.inbound_no
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor AND r.seq <= :seq
    AND h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0
    AND (CAST(:source AS TEXT) IS NULL OR (r.source_id IS NULL) = (CAST(:source AS TEXT) = 'canvas'))
    AND (CAST(:peer_id AS TEXT) IS NULL OR r.source_id = :peer_id OR r.target_id = :peer_id)
    AND (CAST(:since AS BIGINT) IS NULL OR r.created_at >= :since)
    AND (CAST(:before AS BIGINT) IS NULL OR r.created_at < :before)
ORDER BY r.seq;

-- name: handled_behind
-- the first inbound rows behind the floor, and whether each is handled; what waits again holds up no floor
SELECT r.seq, CASE WHEN h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0 THEN 0 ELSE 1 END
FROM activities r LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor
ORDER BY r.seq LIMIT :count;

-- name: requeued_rows
-- dead letters before the floor that wait again and that nobody holds, as `claimable` tells them
SELECT a.id, a.workspace_id, a.seq, a.activity_type, a.method, a.kind, a.intent, a.source_id, a.target_id, a.status,
    a.created_at, a.duration_ms, a.summary, a.error_detail, a.request_body, a.response_body, a.tool_trace,
    a.root_id, a.hop, a.cause_id, a.trace_parent, h.attempt + 1, a.inbound_no
FROM handouts h JOIN activities a ON a.workspace_id = h.workspace_id AND a.seq = h.seq
WHERE h.workspace_id = :workspace_id AND h.requeued = 1 AND h.seq <= :seq AND h.lease_until <= :now
ORDER BY h.seq LIMIT :count;

-- name: requeued_handouts
-- all rows of an inbox that wait again
SELECT h.seq, h.attempt, h.lease_until, h.acked_at, h.requeued, h.shown_behind, a.inbound_no
FROM handouts h JOIN activities a ON a.workspace_id = h.workspace_id AND a.seq = h.seq
WHERE h.workspace_id = :workspace_id AND h.requeued = 1 ORDER BY h.seq;

-- name: requeue_handout
-- a dead letter waits again; its attempts are counted on
INSERT INTO handouts (workspace_id, seq, attempt, lease_until, acked_at, requeued, shown_behind)
VALUES (:workspace_id, :seq, :attempt, 0, NULL, 1, NULL)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    attempt = excluded.attempt, lease_until = 0, acked_at = NULL, requeued = 1, shown_behind = NULL;

-- name: show_handout
-- a reader by cursor was shown a row that waits again
UPDATE handouts SET attempt = :attempt, shown_behind = :cursor WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: settle_handout
-- a row that waited again is handled
UPDATE handouts SET acked_at = :now, requeued = 0, shown_behind = NULL
WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: note_handover
-- a range of an inbox was handed out, settled or given up
INSERT INTO handovers (workspace_id, first_no, last_no, tick, attempt, at, reason)
VALUES (:workspace_id, :first_no, :last_no, :tick, :attempt, :at, :reason);

-- name: handovers_of
-- what became of one place of an inbox; no range is wider than `widest`
SELECT tick, at, attempt, reason FROM handovers
WHERE workspace_id = :workspace_id AND first_no <= :no AND first_no > :no - :widest AND last_no >= :no
ORDER BY at, attempt;

-- name: message_state
-- all that is known of the delivery of one message
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
-- a message is given up
INSERT INTO dead_letters (workspace_id, seq, org_id, activity_id, state, reason, detail, attempts, died_at)
VALUES (:workspace_id, :seq, :org_id, :activity_id, 'dead', :reason, :detail, :attempts, :died_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    state = 'dead', reason = excluded.reason, detail = excluded.detail, attempts = excluded.attempts,
    died_at = excluded.died_at;

-- name: set_dead_letter
-- what became of a dead letter
UPDATE dead_letters SET state = :state WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: was_dead_letter
-- whether a row was given up once
SELECT state FROM dead_letters WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: dead_between
-- the rows of a stretch of a log that are given up or discarded
SELECT seq FROM dead_letters
WHERE workspace_id = :workspace_id AND seq >= :first AND seq <= :last AND state IN ('dead', 'discarded');

-- name: dead_letters_page
-- the dead letters of an organisation or of one workspace before one of them, newest first
SELECT d.activity_id, d.workspace_id, a.source_id, a.kind, a.summary, d.reason, d.detail, d.attempts, d.died_at,
    a.created_at
FROM dead_letters d JOIN activities a ON a.workspace_id = d.workspace_id AND a.seq = d.seq
WHERE d.org_id = :org_id AND d.state = 'dead'
    AND (CAST(:workspace_id AS TEXT) IS NULL OR d.workspace_id = :workspace_id)
    AND (CAST(:died_at AS BIGINT) IS NULL OR d.died_at < :died_at
        OR (d.died_at = :died_at AND d.activity_id < :activity_id))
ORDER BY d.died_at DESC, d.activity_id DESC LIMIT :count;

-- name: dead_letter_place
-- where a dead letter stands in its page
SELECT died_at, activity_id FROM dead_letters WHERE activity_id = :activity_id AND org_id = :org_id;

-- name: wake_target
-- a push agent is looked at, at a time or earlier if it already was to be
INSERT INTO push_targets (workspace_id, due) VALUES (:workspace_id, :due)
ON CONFLICT (workspace_id) DO UPDATE SET
    due = CASE WHEN excluded.due < push_targets.due THEN excluded.due ELSE push_targets.due END;

-- name: set_target
-- a push agent is looked at later, unless mail came meanwhile
INSERT INTO push_targets (workspace_id, due) SELECT CAST(:workspace_id AS TEXT), CAST(:due AS BIGINT) WHERE NOT EXISTS (
    SELECT 1 FROM activities WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :last
) ON CONFLICT (workspace_id) DO UPDATE SET due = excluded.due;

-- name: drop_target
-- a push agent has no mail, unless some came meanwhile
DELETE FROM push_targets WHERE workspace_id = :workspace_id AND NOT EXISTS (
    SELECT 1 FROM activities WHERE workspace_id = :workspace_id AND inbound_no IS NOT NULL AND seq > :last
);

-- name: due_targets
-- which push agents are to be looked at, the longest due first
SELECT workspace_id, due FROM push_targets ORDER BY due, workspace_id LIMIT :count;

-- name: push_head
-- the first rows of an inbox that are not handled, in order, and how each stands
SELECT r.seq, r.inbound_no, coalesce(h.attempt, 0), coalesce(h.lease_until, 0), coalesce(p.next_at, 0),
    coalesce(p.busy, 0), coalesce(p.noted_at, 0)
FROM activities r
LEFT JOIN handouts h ON h.workspace_id = r.workspace_id AND h.seq = r.seq
LEFT JOIN pushes p ON p.workspace_id = r.workspace_id AND p.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.inbound_no IS NOT NULL AND r.seq > :floor
    AND h.acked_at IS NULL AND coalesce(h.requeued, 0) = 0 AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.seq LIMIT :count;

-- name: push_requeued
-- the same of the dead letters that wait again
SELECT r.seq, r.inbound_no, h.attempt, h.lease_until, coalesce(p.next_at, 0), coalesce(p.busy, 0),
    coalesce(p.noted_at, 0)
FROM handouts h
JOIN activities r ON r.workspace_id = h.workspace_id AND r.seq = h.seq
LEFT JOIN pushes p ON p.workspace_id = h.workspace_id AND p.seq = h.seq
WHERE h.workspace_id = :workspace_id AND h.requeued = 1 ORDER BY r.seq LIMIT :count;

-- name: forget_push
-- how the delivery of a message went is forgotten: it is pushed as if for the first time, or not any more
DELETE FROM pushes WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: start_push
-- a message is pushed now: it does not wait any more
UPDATE pushes SET next_at = 0, busy = 0 WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: push_body
-- what is pushed
SELECT id, request_body FROM activities WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: save_push
-- how a push stands now
INSERT INTO pushes (workspace_id, seq, failures, next_at, busy, noted_at, last_error, answer, answered_at)
VALUES (:workspace_id, :seq, :failures, :next_at, :busy, :noted_at, :last_error, :answer, :answered_at)
ON CONFLICT (workspace_id, seq) DO UPDATE SET
    failures = excluded.failures, next_at = excluded.next_at, busy = excluded.busy, noted_at = excluded.noted_at,
    last_error = excluded.last_error, answer = excluded.answer, answered_at = excluded.answered_at;

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

-- name: cause_of
-- the message that an agent is at work on: the named one if it had it, else the newest it holds, else the newest handled
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
-- how many messages followed the first one of a chain
SELECT chain_no FROM activities WHERE root_id = :key AND chain_no IS NOT NULL ORDER BY chain_no DESC LIMIT 1;

-- name: chain_trips
-- how often a chain ran into a limit
SELECT trips FROM chains WHERE root_id = :key;

-- name: save_chain
-- a chain ran into a limit, or a person decided about it
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
-- what is noted of a chain
SELECT root_id, org_id, workspace_id, state, reason, trips, hops, messages, small_talk, most_hops, most_messages,
    most_small_talk, frozen_at, released_at, ended_at, decided_by
FROM chains WHERE root_id = :root_id AND org_id = :org_id;

-- name: chains_of_org
-- the chains of an organisation that ran into a limit, newest first; in one state or in all, before one of them
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

-- name: chain_messages
-- the messages behind the first one of a chain, in the order they came
SELECT id, workspace_id, source_id, target_id, method, kind, summary, hop, cause_id, created_at, chain_no
FROM activities
WHERE root_id = :root_id AND chain_no IS NOT NULL AND chain_no > :after AND org_id = :org_id
ORDER BY chain_no LIMIT :count;

-- name: response_of
-- what is kept as the answer of a row
SELECT response_body FROM activities WHERE id = :id;

-- name: log_front
-- the oldest rows of a log behind a number, as retention looks at them
SELECT a.seq, a.id, a.created_at, a.inbound_no, a.chat, a.method,
    CASE WHEN d.state IN ('dead', 'requeued') THEN 1 ELSE 0 END
FROM activities a LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
WHERE a.workspace_id = :workspace_id AND a.seq > :seq ORDER BY a.seq LIMIT :count;

-- name: files_mentioned
-- the files that rows of a log mention, from one row to another
SELECT DISTINCT m.file_id FROM activities a JOIN file_mentions m ON m.activity_id = a.id
WHERE a.workspace_id = :workspace_id AND a.seq >= :first AND a.seq <= :last;

-- name: forget_mentions
-- which files a row mentioned
DELETE FROM file_mentions WHERE activity_id = :id;

-- name: forget_handout
-- that a row was handed out
DELETE FROM handouts WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_dead_letter
-- that a row was given up
DELETE FROM dead_letters WHERE workspace_id = :workspace_id AND seq = :seq;

-- name: forget_handovers
-- what became of the rows of an inbox up to a number
DELETE FROM handovers WHERE workspace_id = :workspace_id AND last_no <= :upto_no;

-- name: forget_every_handover
-- what became of the rows of an inbox
DELETE FROM handovers WHERE workspace_id = :workspace_id;

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
