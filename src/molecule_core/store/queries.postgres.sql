-- What PostgreSQL has to say otherwise.

-- name: due_timers
-- what is due by a time, locked for who asks; what others are just changing is left out, so that nobody waits
SELECT kind, key, due FROM timers WHERE due <= :now ORDER BY due LIMIT :count FOR UPDATE SKIP LOCKED;
