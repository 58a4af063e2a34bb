-- Statements that differ on PostgreSQL.

-- name: newest_memories
-- the newest memories in some partitions, newest first
SELECT m.no, m.id, m.org_id, m.workspace_id, m.scope, m.namespace, m.shelf, m.content, m.written_by, m.created_at
FROM memories m WHERE m.no IN (
    SELECT t.no FROM unnest(string_to_array(:shelves, ' ')) AS s (shelf) CROSS JOIN LATERAL (
        SELECT x.no FROM memories x
        WHERE x.shelf = s.shelf AND x.no < :before AND (CAST(:namespace AS TEXT) IS NULL OR x.namespace = :namespace)
        ORDER BY x.no DESC LIMIT :count
    ) t ORDER BY t.no DESC LIMIT :count
) ORDER BY m.no DESC;

-- name: search_memories
-- the newest memories in some partitions with all of these words; the last word may be a prefix
SELECT no, id, org_id, workspace_id, scope, namespace, shelf, content, written_by, created_at FROM memories
WHERE array_to_tsvector(string_to_array(words, ' ')) @@ CAST(
    '(''' || replace(:shelves, ' ', ''' | ''') || ''') & ''' || replace(:words, ' ', ''' & ''') || ''''
    || CASE CAST(:prefix AS BIGINT) WHEN 1 THEN ':*' ELSE '' END AS tsquery
) AND no < :before AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
ORDER BY no DESC LIMIT :count;

-- name: key_entries
-- the values of a workspace after a key, by the code points of the keys
SELECT key, value, version, expires_at, updated_at FROM memory_keys
WHERE workspace_id = :workspace_id AND key COLLATE "C" > :after AND (expires_at IS NULL OR expires_at > :now)
ORDER BY key COLLATE "C" LIMIT :count;
