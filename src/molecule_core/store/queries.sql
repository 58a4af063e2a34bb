-- The store's own statements: journal, timers, and what it keeps about itself.

-- name: last_event
-- the highest number in the journal of an organisation
SELECT max(seq) FROM events WHERE org_id = :key;

-- name: first_event
-- the lowest number in the journal of an organisation
SELECT min(seq) FROM events WHERE org_id = :org_id;

-- name: journal_front
-- the oldest facts behind a number, as retention looks at them
SELECT seq, at FROM events WHERE org_id = :org_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: forget_events
-- the oldest facts, up to a number
DELETE FROM events WHERE org_id = :org_id AND seq <= :upto;

-- name: append_event
-- one fact behind all others of its organisation
INSERT INTO events (org_id, seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload)
VALUES (:org_id, :seq, :name, :workspace_id, :audience, :entity_kind, :entity_id, :rev, :at, :payload);

-- name: events_after
-- the journal of an organisation behind a number, in order
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload
FROM events WHERE org_id = :org_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: events_after_for
-- the same for one workspace, up to a number: its own, what it may see of peers and its parent, and of trees it began
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload
FROM events WHERE org_id = :org_id AND seq > :seq AND seq <= :upto AND (
    workspace_id = :workspace_id
    OR (audience = 'peers' AND CAST(:peers AS TEXT) LIKE '%,' || workspace_id || ',%')
    OR (audience = 'children' AND workspace_id = :parent)
    OR audience = :tree
) ORDER BY seq LIMIT :count;

-- name: count_events_for
-- how many these are
SELECT count(*) FROM events WHERE org_id = :org_id AND seq > :seq AND seq <= :upto AND (
    workspace_id = :workspace_id
    OR (audience = 'peers' AND CAST(:peers AS TEXT) LIKE '%,' || workspace_id || ',%')
    OR (audience = 'children' AND workspace_id = :parent)
    OR audience = :tree
);

-- name: set_timer
-- asks to be called at a time; an earlier wish under the same key is replaced
INSERT INTO timers (kind, key, due) VALUES (:kind, :key, :due)
ON CONFLICT (kind, key) DO UPDATE SET due = excluded.due;

-- name: bring_timer_forward
-- asks to be called at a time, or earlier if that was asked for
INSERT INTO timers (kind, key, due) VALUES (:kind, :key, :due)
ON CONFLICT (kind, key) DO UPDATE SET due = CASE WHEN excluded.due < timers.due THEN excluded.due ELSE timers.due END;

-- name: put_off_timer
-- a timer whose owner failed is due later, unless it was set anew meanwhile
UPDATE timers SET due = :later WHERE kind = :kind AND key = :key AND due = :due;

-- name: forget_timer
-- a timer that nobody needs any more
DELETE FROM timers WHERE kind = :kind AND key = :key;

-- name: next_timers
-- what is due first
SELECT kind, key, due FROM timers ORDER BY due LIMIT :count;

-- name: due_timers
-- what is due by a time, first things first
SELECT kind, key, due FROM timers WHERE due <= :now ORDER BY due LIMIT :count;

-- name: meta_value
-- a fact about the store itself
SELECT value FROM meta WHERE name = :name;

-- name: set_meta
-- writes a fact about the store itself
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: standing
-- how far the changes go, and which schema the store has by now
SELECT (SELECT max(no) FROM changes), (SELECT value FROM meta WHERE name = 'schema');

-- name: last_change
-- the number of the last change
SELECT max(no) FROM changes;

-- name: append_change
-- something that processes keep in memory is not what it was
INSERT INTO changes (no, org_id, kind, key) VALUES (:no, :org_id, :kind, :key);

-- name: changes_after
-- what has changed behind a number, in order
SELECT no, kind, key FROM changes WHERE no > :no ORDER BY no LIMIT :count;

-- name: forget_changes
-- changes up to a number; who has not seen them loads everything anew
DELETE FROM changes WHERE no <= :no;
