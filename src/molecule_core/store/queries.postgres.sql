-- Statements that differ on PostgreSQL.

-- name: due_timers
-- timers due by a time, locked for the caller; rows locked by others are skipped instead of waited for
SELECT kind, key, due FROM timers WHERE due <= :now ORDER BY due LIMIT :count FOR UPDATE SKIP LOCKED;
