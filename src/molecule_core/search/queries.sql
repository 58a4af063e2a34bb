-- The search index: documents, how far it follows the journal, and the rows that it is made from. `:partitions` and
-- `:words` are separated by blanks. Each part has only letters, digits and an underscore (rules.py), so none can be
-- interpreted by a database.

-- name: search_documents
-- the newest documents in some partitions with all of these words; the last word may be a prefix
SELECT d.no, d.kind, d.id, d.ordinal FROM search_words JOIN search_documents d ON d.no = search_words.rowid
WHERE search_words MATCH '("' || replace(:partitions, ' ', '" OR "') || '") AND "' || replace(:words, ' ', '" AND "')
    || '"' || CASE :prefix WHEN 1 THEN '*' ELSE '' END
AND search_words.rowid >= :first AND search_words.rowid < :before
AND d.org_id = :org_id AND d.at >= :since AND d.at < :until
ORDER BY search_words.rowid DESC LIMIT :count;

-- name: insert_search_document
-- insert a document
INSERT INTO search_documents (no, org_id, kind, id, ordinal, at, words)
VALUES (:no, :org_id, :kind, :id, :ordinal, :at, :words);

-- name: forget_search_document
-- delete a document
DELETE FROM search_documents WHERE no = :no;

-- name: search_document_of
-- the document of a row
SELECT no, words FROM search_documents
WHERE org_id = :org_id AND kind = :kind AND id = :id AND ordinal = :ordinal;

-- name: search_number_in_use
-- one row if a document has this number
SELECT 1 FROM search_documents WHERE no = :no;

-- name: old_search_documents
-- documents after a number and before another, oldest first, and whether their rows still exist, for retention
SELECT d.no, d.org_id, CASE d.kind
    WHEN 'message' THEN (SELECT count(*) FROM activities a WHERE a.id = d.id)
    WHEN 'delegation' THEN (SELECT count(*) FROM delegations g WHERE g.org_id = d.org_id AND g.id = d.id)
    WHEN 'thread' THEN (SELECT count(*) FROM thread_entries e WHERE e.thread_id = d.id AND e.ordinal = d.ordinal)
    ELSE (SELECT count(*) FROM memories m WHERE m.id = d.id)
END
FROM search_documents d WHERE d.no > :no AND d.no < :before ORDER BY d.no LIMIT :count;

-- name: search_position
-- how far an organisation is indexed
SELECT seq, backfill FROM search_positions WHERE org_id = :org_id;

-- name: save_search_position
-- store how far an organisation is indexed
INSERT INTO search_positions (org_id, seq, backfill) VALUES (:org_id, :seq, :backfill)
ON CONFLICT (org_id) DO UPDATE SET seq = excluded.seq, backfill = excluded.backfill;

-- name: events_to_index
-- the events of an organisation after a number, without their payloads
SELECT seq, entity_kind, entity_id, rev, name FROM events WHERE org_id = :org_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: messages_to_index
-- the log rows of a workspace after a position, oldest first
SELECT seq, id FROM activities WHERE workspace_id = :workspace_id AND seq > :number ORDER BY seq LIMIT :count;

-- name: delegations_to_index
-- the delegations of a source after a position of its log, oldest first
SELECT seq, id FROM delegations WHERE source_id = :workspace_id AND seq > :number ORDER BY seq LIMIT :count;

-- name: memories_to_index
-- the memories of a workspace after a number, oldest first
SELECT no, id FROM memories WHERE workspace_id = :workspace_id AND no > :number ORDER BY no LIMIT :count;

-- name: thread_to_index
-- the first thread of a workspace after another one, oldest first
SELECT created_at, thread_id FROM threads
WHERE workspace_id = :workspace_id AND (created_at > :number OR (created_at = :number AND thread_id > :text))
ORDER BY created_at, thread_id LIMIT 1;

-- name: entries_to_index
-- the entries of a thread after one of them, oldest first
SELECT ordinal FROM thread_entries WHERE thread_id = :thread_id AND ordinal > :ordinal ORDER BY ordinal LIMIT :count;

-- name: searchable_message
-- what is searchable of a log row
SELECT id, org_id, workspace_id, created_at, activity_type, method, kind, source_id, target_id, chat, summary,
    error_detail, request_body
FROM activities WHERE id = :id;

-- name: searchable_delegation
-- what is searchable of a delegation
SELECT id, org_id, source_id, target_id, created_at, task, result, error FROM delegations
WHERE org_id = :org_id AND id = :id;

-- name: searchable_entry
-- what is searchable of an entry of a thread
SELECT e.thread_id, e.ordinal, t.org_id, t.workspace_id, e.at, e.body
FROM thread_entries e JOIN threads t ON t.thread_id = e.thread_id
WHERE e.thread_id = :id AND e.ordinal = :ordinal;

-- name: searchable_memory
-- what is searchable of a memory
SELECT id, org_id, workspace_id, created_at, content FROM memories WHERE id = :id;
