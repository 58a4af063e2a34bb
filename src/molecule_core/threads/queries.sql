-- Threads: their rows, logs, base instructions, turns, and the mail between agents.

-- name: thread
-- a thread
SELECT thread_id, org_id, workspace_id, root_id, root_workspace_id, parent_id, requester_id, fork_id, fork_at,
    fork_since, path, task_name, nickname, role, kind, call_id, wake, model, effort, tools, permissions, base_thread,
    base_version, base_sha, base_item, base_from, base_bytes, base_tokens, developer, context, status, message,
    ends, end_status, end_message, turn_id, queue, open, turns, closed, flags, waits, heard, tokens,
    turn_tokens, last_ordinal, created_at, updated_at, generation, owner, owner_until, seen, revision
FROM threads WHERE thread_id = :thread_id;

-- name: insert_thread
-- insert a thread
INSERT INTO threads (
    thread_id, org_id, workspace_id, root_id, root_workspace_id, parent_id, requester_id, fork_id, fork_at,
    fork_since, path, task_name, nickname, role, kind, call_id, wake, model, effort, tools, permissions, base_thread,
    base_version, base_sha, base_item, base_from, base_bytes, base_tokens, developer, context, status, message,
    ends, end_status, end_message, turn_id, queue, open, turns, closed, flags, waits, heard, tokens,
    turn_tokens, last_ordinal, created_at, updated_at, generation, owner, owner_until, seen, revision
) VALUES (
    :thread_id, :org_id, :workspace_id, :root_id, :root_workspace_id, :parent_id, :requester_id, :fork_id, :fork_at,
    :fork_since, :path, :task_name, :nickname, :role, :kind, :call_id, :wake, :model, :effort, :tools, :permissions,
    :base_thread, :base_version, :base_sha, :base_item, :base_from, :base_bytes, :base_tokens, :developer,
    :context, :status, :message, :ends, :end_status, :end_message, :turn_id, :queue, :open, :turns, :closed,
    :flags, :waits, :heard, :tokens, :turn_tokens, :last_ordinal, :created_at, :updated_at, :generation, :owner,
    :owner_until, :seen, :revision
);

-- name: save_thread
-- update a thread
UPDATE threads SET
    model = :model, effort = :effort, tools = :tools, permissions = :permissions, base_thread = :base_thread,
    base_version = :base_version, base_sha = :base_sha, base_item = :base_item, base_from = :base_from,
    base_bytes = :base_bytes, base_tokens = :base_tokens, developer = :developer, context = :context, status =
    :status, message = :message, ends = :ends, end_status = :end_status, end_message = :end_message, turn_id =
    :turn_id, queue = :queue, open = :open, turns = :turns, closed = :closed, flags = :flags, waits = :waits,
    heard = :heard, tokens = :tokens, turn_tokens = :turn_tokens, last_ordinal = :last_ordinal, updated_at =
    :updated_at, generation = :generation, owner = :owner, owner_until = :owner_until, seen = :seen, revision =
    :revision
WHERE thread_id = :thread_id;

-- name: threads_of_workspace
-- threads of a workspace, newest first, before one of them; up to a number of threads and bytes of their texts but at least one; with their number regardless of bytes
SELECT t.thread_id, t.org_id, t.workspace_id, t.root_id, t.root_workspace_id, t.parent_id, t.requester_id, t.fork_id, t.fork_at,
    t.fork_since, t.path, t.task_name, t.nickname, t.role, t.kind, t.call_id, t.wake, t.model, t.effort, t.tools,
    t.permissions, t.base_thread, t.base_version, t.base_sha, t.base_item, t.base_from, t.base_bytes, t.base_tokens,
    t.developer, t.context, t.status, t.message, t.ends, t.end_status, t.end_message, t.turn_id, t.queue, t.open,
    t.turns, t.closed, t.flags, t.waits, t.heard, t.tokens, t.turn_tokens, t.last_ordinal, t.created_at, t.updated_at,
    t.generation, t.owner, t.owner_until, t.seen, t.revision, w.found
FROM (
    SELECT p.thread_id, count(*) OVER () AS found,
        sum(p.size) OVER (ORDER BY p.created_at DESC, p.thread_id DESC) - p.size AS preceding
    FROM (
        SELECT thread_id, created_at,
            coalesce(octet_length(message), 0) + octet_length(tools) + octet_length(permissions) AS size
        FROM threads
        WHERE workspace_id = :workspace_id AND (CAST(:state AS TEXT) IS NULL OR status = :state)
            AND (CAST(:is_open AS BIGINT) IS NULL OR open = :is_open)
            AND (created_at < :before_at OR (created_at = :before_at AND thread_id < :before_id))
        ORDER BY created_at DESC, thread_id DESC LIMIT :count
    ) p
) w JOIN threads t ON t.thread_id = w.thread_id
WHERE w.preceding < :page_bytes ORDER BY t.created_at DESC, t.thread_id DESC;

-- name: threads_of_tree
-- all threads of a tree, oldest first
SELECT thread_id, org_id, workspace_id, root_id, root_workspace_id, parent_id, requester_id, fork_id, fork_at,
    fork_since, path, task_name, nickname, role, kind, call_id, wake, model, effort, tools, permissions, base_thread,
    base_version, base_sha, base_item, base_from, base_bytes, base_tokens, developer, context, status, message,
    ends, end_status, end_message, turn_id, queue, open, turns, closed, flags, waits, heard, tokens,
    turn_tokens, last_ordinal, created_at, updated_at, generation, owner, owner_until, seen, revision
FROM threads WHERE root_id = :root_id ORDER BY created_at, thread_id;

-- name: threads_of_tree_without_final
-- the same without their final messages
SELECT thread_id, org_id, workspace_id, root_id, root_workspace_id, parent_id, requester_id, fork_id, fork_at,
    fork_since, path, task_name, nickname, role, kind, call_id, wake, model, effort, tools, permissions, base_thread,
    base_version, base_sha, base_item, base_from, base_bytes, base_tokens, developer, context, status, NULL AS message,
    ends, end_status, NULL AS end_message, turn_id, queue, open, turns, closed, flags, waits, heard, tokens,
    turn_tokens, last_ordinal, created_at, updated_at, generation, owner, owner_until, seen, revision
FROM threads WHERE root_id = :root_id ORDER BY created_at, thread_id;

-- name: open_threads_of_workspace
-- the threads of a workspace that are not closed
SELECT thread_id, org_id, workspace_id, root_id, root_workspace_id, parent_id, requester_id, fork_id, fork_at,
    fork_since, path, task_name, nickname, role, kind, call_id, wake, model, effort, tools, permissions, base_thread,
    base_version, base_sha, base_item, base_from, base_bytes, base_tokens, developer, context, status, message,
    ends, end_status, end_message, turn_id, queue, open, turns, closed, flags, waits, heard, tokens,
    turn_tokens, last_ordinal, created_at, updated_at, generation, owner, owner_until, seen, revision
FROM threads WHERE workspace_id = :workspace_id AND closed = 0 ORDER BY created_at, thread_id;

-- name: thread_by_path
-- the thread of a tree with a path
SELECT thread_id, org_id, workspace_id, root_id, root_workspace_id, parent_id, requester_id, fork_id, fork_at,
    fork_since, path, task_name, nickname, role, kind, call_id, wake, model, effort, tools, permissions, base_thread,
    base_version, base_sha, base_item, base_from, base_bytes, base_tokens, developer, context, status, message,
    ends, end_status, end_message, turn_id, queue, open, turns, closed, flags, waits, heard, tokens,
    turn_tokens, last_ordinal, created_at, updated_at, generation, owner, owner_until, seen, revision
FROM threads WHERE root_id = :root_id AND path = :path;

-- name: thread_limit_usage
-- the use of a tree's limits: agents at work, agents in all, tokens
SELECT COALESCE(SUM(CASE WHEN open = 1 AND thread_id <> root_id THEN 1 ELSE 0 END), 0),
    COALESCE(SUM(CASE WHEN thread_id <> root_id THEN 1 ELSE 0 END), 0), COALESCE(SUM(tokens), 0)
FROM threads WHERE root_id = :root_id;

-- name: thread_states
-- the number of unclosed threads that are idle, queued, running, and waiting
SELECT (SELECT count(*) FROM threads WHERE closed = 0) - count(*),
    COALESCE(SUM(CASE WHEN turn_id IS NULL THEN 1 ELSE 0 END), 0),
    COALESCE(SUM(CASE WHEN turn_id IS NOT NULL AND waits = '[]' AND flags = '[]' THEN 1 ELSE 0 END), 0),
    COALESCE(SUM(CASE WHEN turn_id IS NOT NULL AND (waits <> '[]' OR flags <> '[]') THEN 1 ELSE 0 END), 0)
FROM threads WHERE open = 1;

-- name: thread_tree_tokens
-- the tokens that a tree has used
SELECT COALESCE(SUM(tokens), 0) FROM threads WHERE root_id = :root_id;

-- name: thread_spawns_since
-- the number of agents that a workspace spawned since a time, in any workspace
SELECT count(*) FROM threads AS c JOIN threads AS p ON p.thread_id = c.parent_id
WHERE c.parent_id IS NOT NULL AND c.created_at > :since AND p.workspace_id = :workspace_id;

-- name: thread_work
-- threads of a workspace with an open turn that are unclaimed, or whose engine must begin it
SELECT thread_id, path, turn_id, queue FROM threads
WHERE workspace_id = :workspace_id AND open = 1 AND (owner IS NULL OR owner_until <= :now
    OR (owner = :owner AND (turn_id IS NULL OR CAST(:own_too AS BIGINT) = 1)))
ORDER BY updated_at, thread_id LIMIT :count;

-- name: thread_work_held
-- the first end of a lease of another engine on a workspace's threads with an open turn
SELECT MIN(owner_until) FROM threads
WHERE workspace_id = :workspace_id AND open = 1 AND owner_until > :now AND owner IS NOT NULL
    AND (CAST(:owner AS TEXT) IS NULL OR owner <> :owner);

-- name: thread_engine
-- when an engine of a workspace last polled for work
SELECT asked_at FROM thread_engines WHERE workspace_id = :workspace_id;

-- name: keep_thread_engine
-- record that an engine of a workspace polls for work
INSERT INTO thread_engines (workspace_id, asked_at) VALUES (:workspace_id, :asked_at)
ON CONFLICT (workspace_id) DO UPDATE SET asked_at = excluded.asked_at;

-- name: thread_by_key
-- the thread that a workspace started under a key; for a closed session, its first successor that is not closed, else the last one
WITH RECURSIVE links (thread_id, place) AS (
    SELECT thread_id, 0 FROM thread_keys WHERE workspace_id = :workspace_id AND key = :key
    UNION ALL
    SELECT k.thread_id, s.place + 1
    FROM links AS s JOIN threads AS t ON t.thread_id = s.thread_id AND t.closed = 1
        JOIN thread_keys AS k ON k.workspace_id = :workspace_id AND k.key = 'session:' || s.thread_id
)
SELECT thread_id FROM links ORDER BY place DESC LIMIT 1;

-- name: keep_thread_key
-- store an idempotency key
INSERT INTO thread_keys (workspace_id, key, thread_id) VALUES (:workspace_id, :key, :thread_id);

-- name: insert_thread_entry
-- append an entry to a log
INSERT INTO thread_entries (thread_id, ordinal, turn_id, type, body, at, key)
VALUES (:thread_id, :ordinal, :turn_id, :type, :body, :at, :key);

-- name: thread_entries_after
-- log entries after an ordinal, up to another one
SELECT thread_id, ordinal, turn_id, type, body, at FROM thread_entries
WHERE thread_id = :thread_id AND ordinal > :after AND ordinal <= :upto ORDER BY ordinal LIMIT :count;

-- name: thread_entries_page
-- a page of log entries after an ordinal; up to a number of entries and bytes but at least one; with their number regardless of bytes; base instructions count as the thread's longest
SELECT e.thread_id, e.ordinal, e.turn_id, e.type, e.body, e.at, w.found
FROM (
    SELECT p.ordinal, count(*) OVER () AS found, sum(p.size) OVER (ORDER BY p.ordinal) - p.size AS preceding FROM (
        SELECT ordinal, octet_length(body) + CASE WHEN type = 'base' THEN (
            SELECT coalesce(max(octet_length(b.text)), 0) FROM thread_bases b WHERE b.thread_id = :thread_id
        ) ELSE 0 END AS size
        FROM thread_entries WHERE thread_id = :thread_id AND ordinal > :after ORDER BY ordinal LIMIT :count
    ) p
) w JOIN thread_entries e ON e.thread_id = :thread_id AND e.ordinal = w.ordinal
WHERE w.preceding < :page_bytes ORDER BY e.ordinal;

-- name: thread_calls_of_tree
-- the latest begin and end entries of collaboration calls in a tree, or of one workspace, newest first; up to a number of entries and bytes but at least one
SELECT e.thread_id, e.ordinal, e.turn_id, e.type, e.body, e.at
FROM (
    SELECT p.thread_id, p.ordinal,
        sum(p.size) OVER (ORDER BY p.at DESC, p.thread_id DESC, p.ordinal DESC) - p.size AS preceding
    FROM (
        SELECT c.thread_id, c.ordinal, c.at, octet_length(c.body) AS size
        FROM threads t JOIN thread_entries c ON c.thread_id = t.thread_id
        WHERE t.root_id = :root_id AND c.type = 'collab'
            AND (CAST(:workspace_id AS TEXT) IS NULL OR t.workspace_id = :workspace_id)
        ORDER BY c.at DESC, c.thread_id DESC, c.ordinal DESC LIMIT :count
    ) p
) w JOIN thread_entries e ON e.thread_id = w.thread_id AND e.ordinal = w.ordinal
WHERE w.preceding < :page_bytes ORDER BY e.at DESC, e.thread_id DESC, e.ordinal DESC;

-- name: thread_mail_of_tree
-- the latest mail to threads of a tree, or to and from threads of one workspace, newest first; texts are cut
SELECT m.mail_id, m.receiver_id, m.author_id, m.author, m.seq, m.type, m.wakes,
    substr(m.text, 1, :text_most) AS text, m.key, m.state, m.turn_id, m.sent_at
FROM threads t JOIN thread_mail m ON m.receiver_id = t.thread_id
LEFT JOIN threads w ON w.thread_id = m.author_id
WHERE t.root_id = :root_id
    AND (CAST(:workspace_id AS TEXT) IS NULL OR t.workspace_id = :workspace_id OR w.workspace_id = :workspace_id)
ORDER BY m.sent_at DESC, m.receiver_id DESC, m.seq DESC LIMIT :count;

-- name: thread_entry_by_key
-- the log entry with a key
SELECT thread_id, ordinal, turn_id, type, body, at FROM thread_entries WHERE thread_id = :thread_id AND key = :key;

-- name: thread_calls_of_turn
-- tool calls of a turn, and their outputs
SELECT type, body FROM thread_entries
WHERE thread_id = :thread_id AND turn_id = :turn_id AND type IN ('tool_call', 'tool_output') ORDER BY ordinal;

-- name: usage_entries_of_turn
-- what the model requests of a turn used
SELECT body FROM thread_entries WHERE thread_id = :thread_id AND turn_id = :turn_id AND type = 'usage' ORDER BY ordinal;

-- name: latest_keyed_turn
-- the key of the newest turn of a thread that was accepted under one, until a time
SELECT key FROM thread_turns WHERE thread_id = :thread_id AND key IS NOT NULL AND accepted_at <= :accepted_at
ORDER BY accepted_at DESC LIMIT 1;

-- name: thread_collabs_of_turn
-- collaboration calls of a turn
SELECT body FROM thread_entries WHERE thread_id = :thread_id AND turn_id = :turn_id AND type = 'collab'
ORDER BY ordinal;

-- name: thread_turn_starts
-- where the last turns of a thread begin, newest first; a turn continued by a restarted engine begins once
SELECT MIN(ordinal) FROM thread_entries
WHERE thread_id = :thread_id AND type = 'turn_started' GROUP BY turn_id ORDER BY MIN(ordinal) DESC LIMIT :count;

-- name: insert_thread_base
-- insert a version of base instructions; it never changes
INSERT INTO thread_bases (thread_id, version, text, provenance, sha256, item_id)
VALUES (:thread_id, :version, :text, :provenance, :sha256, :item_id);

-- name: thread_base
-- the text of base instructions
SELECT text FROM thread_bases WHERE thread_id = :thread_id AND version = :version;

-- name: insert_thread_turn
-- insert an accepted turn
INSERT INTO thread_turns (turn_id, thread_id, status, cause, input, author, key, requester_id, accepted_at, ended_at)
VALUES (:turn_id, :thread_id, :status, :cause, :input, :author, :key, :requester_id, :accepted_at, :ended_at);

-- name: thread_turn
-- a turn
SELECT turn_id, thread_id, status, cause, input, author, key, requester_id, accepted_at, ended_at FROM thread_turns
WHERE turn_id = :turn_id;

-- name: thread_turn_by_key
-- the turn that was accepted under a key
SELECT turn_id, thread_id, status, cause, input, author, key, requester_id, accepted_at, ended_at FROM thread_turns
WHERE thread_id = :thread_id AND key = :key;

-- name: keyed_turns
-- the turns of a workspace's threads that were accepted under a key since a time, oldest first
SELECT t.workspace_id, t.root_id, t.path, u.thread_id, u.turn_id, u.key, u.accepted_at, u.ended_at
FROM threads t JOIN thread_turns u ON u.thread_id = t.thread_id
WHERE t.workspace_id = :workspace_id AND u.accepted_at >= :since AND u.key IS NOT NULL
ORDER BY u.accepted_at LIMIT :count;

-- name: mailed_turns
-- the turns of a tree that mail between its agents began since a time, oldest first
SELECT t.workspace_id, t.root_id, t.path, u.thread_id, u.turn_id, u.key, u.accepted_at, u.ended_at
FROM threads t JOIN thread_turns u ON u.thread_id = t.thread_id
WHERE t.root_id = :root_id AND u.accepted_at >= :since AND u.key IS NULL AND u.cause <> 'user'
ORDER BY u.accepted_at, u.turn_id LIMIT :count;

-- name: mail_of_tree
-- the mail between agents of a tree that turns have read since a time, oldest first
SELECT m.author_id, m.key, m.turn_id FROM threads t JOIN thread_mail m ON m.receiver_id = t.thread_id
WHERE t.root_id = :root_id AND m.sent_at >= :since AND m.turn_id IS NOT NULL AND m.author_id IS NOT NULL
ORDER BY m.sent_at, m.mail_id LIMIT :count;

-- name: turn_of_entry
-- the turn of the log entry with a key
SELECT turn_id FROM thread_entries WHERE thread_id = :thread_id AND key = :key;

-- name: work_entries
-- what the turns of a thread used, and their calls of tools, in a span of time, oldest first
SELECT turn_id, body FROM thread_entries
WHERE thread_id = :thread_id AND type IN ('usage', 'tool_call') AND at >= :since AND at <= :until
ORDER BY ordinal LIMIT :count;

-- name: save_thread_turn
-- update a turn
UPDATE thread_turns SET status = :status, ended_at = :ended_at WHERE turn_id = :turn_id;

-- name: open_turns_requested
-- the open turns that a thread requested
SELECT turn_id FROM thread_turns WHERE requester_id = :requester_id AND ended_at IS NULL;

-- name: thread_digests_waiting
-- ends of agents that wait to be delivered together with others, in order
SELECT m.mail_id FROM thread_mail m JOIN threads t ON t.thread_id = m.author_id
WHERE m.receiver_id = :receiver_id AND m.state = 'accepted' AND m.type = 'FINAL_ANSWER' AND t.wake = 'digest'
ORDER BY m.seq;

-- name: insert_thread_mail
-- insert mail
INSERT INTO thread_mail (mail_id, receiver_id, author_id, author, seq, type, wakes, text, key, state, turn_id, sent_at)
VALUES (:mail_id, :receiver_id, :author_id, :author, :seq, :type, :wakes, :text, :key, :state, :turn_id, :sent_at);

-- name: thread_mail_waiting
-- unread mail of a thread, in order
SELECT mail_id, receiver_id, author_id, author, seq, type, wakes, text, key, state, turn_id, sent_at FROM thread_mail
WHERE receiver_id = :receiver_id AND state = 'accepted' ORDER BY seq;

-- name: thread_mail_last
-- the number of the last mail to a thread
SELECT COALESCE(MAX(seq), 0) FROM thread_mail WHERE receiver_id = :receiver_id;

-- name: thread_mail_in_turn
-- the mail that was delivered to a turn
SELECT mail_id, receiver_id, author_id, author, seq, type, wakes, text, key, state, turn_id, sent_at FROM thread_mail
WHERE receiver_id = :receiver_id AND turn_id = :turn_id AND state = 'delivered' ORDER BY seq;

-- name: last_final_answer
-- the last end of an agent that was sent to a thread as mail
SELECT text FROM thread_mail
WHERE receiver_id = :receiver_id AND author_id = :author_id AND type = 'FINAL_ANSWER' ORDER BY seq DESC LIMIT 1;

-- name: save_thread_mail
-- update the state of mail
UPDATE thread_mail SET state = :state, turn_id = :turn_id WHERE mail_id = :mail_id;

-- name: wake_by_thread_mail
-- let mail wake its receiver that was to wait for others
UPDATE thread_mail SET wakes = 1 WHERE mail_id = :mail_id;

-- name: thread_usage_known
-- whether the usage of a request was counted
SELECT tokens FROM thread_usage WHERE thread_id = :thread_id AND record_key = :record_key;

-- name: keep_thread_usage
-- store the usage of a request
INSERT INTO thread_usage (thread_id, record_key, tokens) VALUES (:thread_id, :record_key, :tokens);

-- name: thread_reports
-- the ends that were reported to a thread
SELECT target_id, ends FROM thread_reports WHERE thread_id = :thread_id;

-- name: keep_thread_report
-- record that an end was reported to a thread
INSERT INTO thread_reports (thread_id, target_id, ends) VALUES (:thread_id, :target_id, :ends)
ON CONFLICT (thread_id, target_id) DO UPDATE SET ends = excluded.ends;

-- name: old_threads
-- closed threads whose whole tree is closed and unchanged since a time, and which no fork sees; after one of them
SELECT thread_id, updated_at, last_ordinal FROM threads AS t
WHERE org_id = :org_id AND closed = 1 AND updated_at < :before
    AND (updated_at > :updated_at OR (updated_at = :updated_at AND thread_id > :id))
    AND NOT EXISTS (SELECT 1 FROM threads AS f WHERE f.fork_id = t.thread_id)
    AND NOT EXISTS (SELECT 1 FROM threads AS o WHERE o.root_id = t.root_id AND (o.closed = 0 OR o.updated_at >= :before))
ORDER BY updated_at, thread_id LIMIT :count;

-- name: move_thread_keys
-- let the keys of a deleted session point to the session that replaced it, if there is one
UPDATE thread_keys SET thread_id = (
    SELECT s.thread_id FROM thread_keys AS s
    WHERE s.workspace_id = thread_keys.workspace_id AND s.key = 'session:' || :thread_id
)
WHERE thread_id = :thread_id AND EXISTS (
    SELECT 1 FROM thread_keys AS s
    WHERE s.workspace_id = thread_keys.workspace_id AND s.key = 'session:' || :thread_id
);

-- name: forget_successor_link
-- delete the link from a deleted session to its successor, if that has taken over its keys
DELETE FROM thread_keys
WHERE workspace_id = (SELECT workspace_id FROM threads WHERE thread_id = :thread_id)
    AND key = 'session:' || :thread_id AND EXISTS (
        SELECT 1 FROM thread_keys AS k WHERE k.thread_id = thread_keys.thread_id AND k.key <> thread_keys.key
    );

-- name: forget_thread
-- delete a thread
DELETE FROM threads WHERE thread_id = :thread_id;

-- name: forget_thread_entries
-- delete its log
DELETE FROM thread_entries WHERE thread_id = :thread_id;

-- name: forget_thread_bases
-- delete its base instructions, once it is deleted
DELETE FROM thread_bases WHERE thread_id = :thread_id;

-- name: forget_thread_turns
-- delete its turns
DELETE FROM thread_turns WHERE thread_id = :thread_id;

-- name: forget_thread_usage
-- delete its usage
DELETE FROM thread_usage WHERE thread_id = :thread_id;

-- name: forget_thread_reports
-- delete its reports
DELETE FROM thread_reports WHERE thread_id = :thread_id;

-- name: forget_thread_keys
-- delete its idempotency keys
DELETE FROM thread_keys WHERE thread_id = :thread_id;

-- name: forget_thread_mail
-- delete the mail to it
DELETE FROM thread_mail WHERE receiver_id = :thread_id;
