-- Memories and keys. `:shelves` and `:words` are separated by blanks. Each part has only letters, digits and, in the name
-- of a partition (`shelf`), an underscore (rules.py), so none can be interpreted by a database.

-- name: insert_memory
-- insert a memory
INSERT INTO memories (
    no, id, org_id, workspace_id, scope, namespace, shelf, content, words, content_hash, written_by, created_at
) VALUES (
    :no, :id, :org_id, :workspace_id, :scope, :namespace, :shelf, :content, :words, :content_hash, :written_by,
    :created_at
);

-- name: forget_memory
-- delete a memory
DELETE FROM memories WHERE no = :no;

-- name: memory_by_id
-- a memory by its id
SELECT no, id, org_id, workspace_id, scope, namespace, shelf, content, written_by, created_at
FROM memories WHERE id = :id;

-- name: identical_memory
-- an identical memory of the same workspace, scope and namespace
SELECT no, id, org_id, workspace_id, scope, namespace, shelf, content, written_by, created_at
FROM memories WHERE workspace_id = :workspace_id AND content_hash = :content_hash;

-- name: count_memories
-- the number of memories of a workspace
SELECT count(*) FROM memories WHERE workspace_id = :workspace_id;

-- name: newest_memories
-- the newest memories in some partitions, newest first
SELECT m.no, m.id, m.org_id, m.workspace_id, m.scope, m.namespace, m.shelf, m.content, m.written_by, m.created_at
FROM memories m WHERE m.no IN (
    SELECT t.no FROM json_each('["' || replace(:shelves, ' ', '","') || '"]') s JOIN memories t ON t.no IN (
        SELECT x.no FROM memories x
        WHERE x.shelf = s.value AND x.no < :before AND (CAST(:namespace AS TEXT) IS NULL OR x.namespace = :namespace)
        ORDER BY x.no DESC LIMIT :count
    ) ORDER BY t.no DESC LIMIT :count
) ORDER BY m.no DESC;

-- name: search_memories
-- the newest memories in some partitions with all of these words; the last word may be a prefix
SELECT m.no, m.id, m.org_id, m.workspace_id, m.scope, m.namespace, m.shelf, m.content, m.written_by, m.created_at
FROM memory_words JOIN memories m ON m.no = memory_words.rowid
WHERE memory_words MATCH '("' || replace(:shelves, ' ', '" OR "') || '") AND "' || replace(:words, ' ', '" AND "') || '"'
    || CASE :prefix WHEN 1 THEN '*' ELSE '' END
AND memory_words.rowid < :before AND (CAST(:namespace AS TEXT) IS NULL OR m.namespace = :namespace)
ORDER BY memory_words.rowid DESC LIMIT :count;

-- name: memories_of_workspace
-- the memories of a workspace after a number, oldest first, for retention
SELECT no, octet_length(content) FROM memories WHERE workspace_id = :workspace_id AND no > :no ORDER BY no LIMIT :count;

-- name: save_key
-- insert or replace the value of a key
INSERT INTO memory_keys (workspace_id, key, value, version, expires_at, updated_at)
VALUES (:workspace_id, :key, :value, :version, :expires_at, :updated_at)
ON CONFLICT (workspace_id, key) DO UPDATE SET
    value = excluded.value, version = excluded.version, expires_at = excluded.expires_at,
    updated_at = excluded.updated_at;

-- name: save_key_version
-- save the last version used for any key of a workspace
INSERT INTO memory_versions (workspace_id, last) VALUES (:workspace_id, :last)
ON CONFLICT (workspace_id) DO UPDATE SET last = excluded.last;

-- name: last_key_version
-- the last version used for any key of a workspace
SELECT last FROM memory_versions WHERE workspace_id = :workspace_id;

-- name: forget_key_version
-- delete the last version of a removed workspace
DELETE FROM memory_versions WHERE workspace_id = :workspace_id;

-- name: forget_key
-- delete a key
DELETE FROM memory_keys WHERE workspace_id = :workspace_id AND key = :key;

-- name: key_entry
-- the value of a key that has not expired
SELECT key, value, version, expires_at, updated_at FROM memory_keys
WHERE workspace_id = :workspace_id AND key = :key AND (expires_at IS NULL OR expires_at > :now);

-- name: key_entries
-- the values of a workspace after a key, by the code points of the keys
SELECT key, value, version, expires_at, updated_at FROM memory_keys
WHERE workspace_id = :workspace_id AND key > :after AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key LIMIT :count;

-- name: count_keys
-- the number of keys of a workspace that have not expired
SELECT count(*) FROM memory_keys WHERE workspace_id = :workspace_id AND (expires_at IS NULL OR expires_at > :now);

-- name: expiring_keys
-- the keys of a workspace with an expiry time, earliest first
SELECT key, expires_at, octet_length(value) FROM memory_keys
WHERE workspace_id = :workspace_id AND expires_at IS NOT NULL ORDER BY expires_at LIMIT :count;

-- name: keys_of_workspace
-- the keys of a workspace after one, expired ones included, for retention
SELECT key, octet_length(value) FROM memory_keys
WHERE workspace_id = :workspace_id AND key > :after ORDER BY key LIMIT :count;

-- name: key_bytes
-- the size of the value of a key, expired or not
SELECT octet_length(value) FROM memory_keys WHERE workspace_id = :workspace_id AND key = :key;

-- name: memory_usage
-- bytes of the memories and values of an organisation
SELECT bytes FROM memory_usage WHERE org_id = :org_id;

-- name: add_memory_usage
-- add to the bytes of memories and values of an organisation; a negative number subtracts
INSERT INTO memory_usage (org_id, bytes) VALUES (:org_id, :bytes)
ON CONFLICT (org_id) DO UPDATE SET bytes = memory_usage.bytes + excluded.bytes;
