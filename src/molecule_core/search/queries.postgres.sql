-- Statements that differ on PostgreSQL.

-- name: search_documents
-- the newest documents in some partitions with all of these words; the last word may be a prefix
SELECT no, kind, id, ordinal FROM search_documents
WHERE array_to_tsvector(string_to_array(words, ' ')) @@ CAST(
    '(''' || replace(:partitions, ' ', ''' | ''') || ''') & ''' || replace(:words, ' ', ''' & ''') || ''''
    || CASE CAST(:prefix AS BIGINT) WHEN 1 THEN ':*' ELSE '' END AS tsquery
) AND no >= :first AND no < :before AND org_id = :org_id AND at >= :since AND at < :until
ORDER BY no DESC LIMIT :count;
