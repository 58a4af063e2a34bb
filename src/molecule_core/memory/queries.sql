-- Memories and keys. `:shelves` and `:words` are texts with a blank between their parts; a part is letters, digits and,
-- in the name of a shelf, an underscore (rules.py), so none of them can say anything to an engine.

-- name: insert_memory
-- a new memory
INSERT INTO memories (
    no, id, org_id, workspace_id, scope, namespace, shelf, content, words, content_hash, written_by, created_at
) VALUES (
    :no, :id, :org_id, :workspace_id, :scope, :namespace, :shelf, :content, :words, :content_hash, :written_by,
    :created_at
);

-- name: forget_memory
-- a memory that nobody is to remember any more
DELETE FROM memories WHERE no = :no;

-- name: memory_by_id
-- a memory
SELECT no, id, org_id, workspace_id, scope, namespace, shelf, content, written_by, created_at
FROM memories WHERE id = :id;

-- name: memory_twin
-- what a workspace has written down before, word for word and at the same place
SELECT no, id, org_id, workspace_id, scope, namespace, shelf, content, written_by, created_at
FROM memories WHERE workspace_id = :workspace_id AND content_hash = :content_hash;

-- name: count_memories
-- how much a workspace has written down
SELECT count(*) FROM memories WHERE workspace_id = :workspace_id;

-- name: newest_memories
-- the newest memories on some shelves, newest first
SELECT m.no, m.id, m.org_id, m.workspace_id, m.scope, m.namespace, m.shelf, m.content, m.written_by, m.created_at
FROM memories m WHERE m.no IN (
    SELECT t.no FROM json_each('["' || replace(:shelves, ' ', '","') || '"]') s JOIN memories t ON t.no IN (
        SELECT x.no FROM memories x
        WHERE x.shelf = s.value AND x.no < :before AND (CAST(:namespace AS TEXT) IS NULL OR x.namespace = :namespace)
        ORDER BY x.no DESC LIMIT :count
    ) ORDER BY t.no DESC LIMIT :count
) ORDER BY m.no DESC;

-- name: search_memories
-- the newest memories on some shelves that hold all of these words; the last may be the beginning of one
SELECT m.no, m.id, m.org_id, m.workspace_id, m.scope, m.namespace, m.shelf, m.content, m.written_by, m.created_at
FROM memory_words JOIN memories m ON m.no = memory_words.rowid
WHERE memory_words MATCH '("' || replace(:shelves, ' ', '" OR "') || '") AND "' || replace(:words, ' ', '" AND "') || '"'
    || CASE :prefix WHEN 1 THEN '*' ELSE '' END
AND memory_words.rowid < :before AND (CAST(:namespace AS TEXT) IS NULL OR m.namespace = :namespace)
ORDER BY memory_words.rowid DESC LIMIT :count;

-- name: memories_of_workspace
-- what a workspace wrote down, behind a number, oldest first, as retention looks at it
SELECT no FROM memories WHERE workspace_id = :workspace_id AND no > :no ORDER BY no LIMIT :count;

-- name: save_key
-- a value under a key, in the place of one that was there
INSERT INTO memory_keys (workspace_id, key, value, version, expires_at, updated_at)
VALUES (:workspace_id, :key, :value, :version, :expires_at, :updated_at)
ON CONFLICT (workspace_id, key) DO UPDATE SET
    value = excluded.value, version = excluded.version, expires_at = excluded.expires_at,
    updated_at = excluded.updated_at;

-- name: save_key_version
-- the last version that a workspace has used for any of its keys
INSERT INTO memory_versions (workspace_id, last) VALUES (:workspace_id, :last)
ON CONFLICT (workspace_id) DO UPDATE SET last = excluded.last;

-- name: last_key_version
-- that version
SELECT last FROM memory_versions WHERE workspace_id = :workspace_id;

-- name: forget_key_version
-- nothing under keys is left of a workspace, and never will be
DELETE FROM memory_versions WHERE workspace_id = :workspace_id;

-- name: forget_key
-- a key that is not needed any more
DELETE FROM memory_keys WHERE workspace_id = :workspace_id AND key = :key;

-- name: key_entry
-- a value under a key, unless its time is over
SELECT key, value, version, expires_at, updated_at FROM memory_keys
WHERE workspace_id = :workspace_id AND key = :key AND (expires_at IS NULL OR expires_at > :now);

-- name: key_entries
-- the values of a workspace behind a key, in the order of the keys' code points
SELECT key, value, version, expires_at, updated_at FROM memory_keys
WHERE workspace_id = :workspace_id AND key > :after AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key LIMIT :count;

-- name: count_keys
-- how many keys a workspace has whose time is not over
SELECT count(*) FROM memory_keys WHERE workspace_id = :workspace_id AND (expires_at IS NULL OR expires_at > :now);

-- name: expiring_keys
-- the keys of a workspace whose time will be over, or is, first things first
SELECT key, expires_at FROM memory_keys
WHERE workspace_id = :workspace_id AND expires_at IS NOT NULL ORDER BY expires_at LIMIT :count;

-- name: keys_of_workspace
-- the keys of a workspace behind one, whatever their time, as retention looks at them
SELECT key FROM memory_keys WHERE workspace_id = :workspace_id AND key > :after ORDER BY key LIMIT :count;
