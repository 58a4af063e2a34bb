-- The store's own statements: journal, timers, metadata, cache changes.

-- name: last_event
-- the highest number in the journal of an organisation
SELECT max(seq) FROM events WHERE org_id = :key;

-- name: first_event
-- the lowest number in the journal of an organisation
SELECT min(seq) FROM events WHERE org_id = :org_id;

-- name: oldest_events
-- the oldest events after a number, for retention
SELECT seq, at FROM events WHERE org_id = :org_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: forget_events
-- delete the oldest events, up to a number
DELETE FROM events WHERE org_id = :org_id AND seq <= :upto;

-- name: append_event
-- append one event to the journal of its organisation
INSERT INTO events (org_id, seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload)
VALUES (:org_id, :seq, :name, :workspace_id, :audience, :entity_kind, :entity_id, :rev, :at, :payload);

-- name: events_after
-- the events of an organisation after a number, in order
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload
FROM events WHERE org_id = :org_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: events_after_for
-- the same for one workspace, up to a number: its own, visible ones of peers and parent, those of trees it started
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload
FROM events WHERE org_id = :org_id AND seq > :seq AND seq <= :upto AND (
    workspace_id = :workspace_id
    OR (audience = 'peers' AND CAST(:peers AS TEXT) LIKE '%,' || workspace_id || ',%')
    OR (audience = 'children' AND workspace_id = :parent)
    OR audience = :tree
) ORDER BY seq LIMIT :count;

-- name: event_heads_before
-- the events of an organisation before a number, newest first, without their payloads
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at
FROM events WHERE org_id = :org_id AND seq < :seq ORDER BY seq DESC LIMIT :count;

-- name: event_heads_after
-- the events of an organisation after a number, in order, without their payloads
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at
FROM events WHERE org_id = :org_id AND seq > :seq ORDER BY seq LIMIT :count;

-- name: event_by_number
-- one event of an organisation
SELECT seq, name, workspace_id, audience, entity_kind, entity_id, rev, at, payload
FROM events WHERE org_id = :org_id AND seq = :seq;

-- name: event_time
-- the time of one event of an organisation
SELECT at FROM events WHERE org_id = :org_id AND seq = :seq;

-- name: count_events_for
-- the number of these events
SELECT count(*) FROM events WHERE org_id = :org_id AND seq > :seq AND seq <= :upto AND (
    workspace_id = :workspace_id
    OR (audience = 'peers' AND CAST(:peers AS TEXT) LIKE '%,' || workspace_id || ',%')
    OR (audience = 'children' AND workspace_id = :parent)
    OR audience = :tree
);

-- name: set_timer
-- set a timer; an earlier time under the same key is replaced
INSERT INTO timers (kind, key, due) VALUES (:kind, :key, :due)
ON CONFLICT (kind, key) DO UPDATE SET due = excluded.due;

-- name: bring_timer_forward
-- set a timer, unless it is already set to an earlier time
INSERT INTO timers (kind, key, due) VALUES (:kind, :key, :due)
ON CONFLICT (kind, key) DO UPDATE SET due = CASE WHEN excluded.due < timers.due THEN excluded.due ELSE timers.due END;

-- name: postpone_timer
-- postpone a timer, unless it was set again meanwhile
UPDATE timers SET due = :later WHERE kind = :kind AND key = :key AND due = :due;

-- name: forget_timer
-- delete a timer
DELETE FROM timers WHERE kind = :kind AND key = :key;

-- name: next_timers
-- the next timers
SELECT kind, key, due FROM timers ORDER BY due LIMIT :count;

-- name: due_timers
-- timers due by a time, earliest first
SELECT kind, key, due FROM timers WHERE due <= :now ORDER BY due LIMIT :count;

-- name: meta_value
-- one value of the store's metadata
SELECT value FROM meta WHERE name = :name;

-- name: set_meta
-- write one value of the store's metadata
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: last_change_and_schema
-- the number of the last change, and the schema of the store
SELECT (SELECT max(no) FROM changes), (SELECT value FROM meta WHERE name = 'schema');

-- name: last_change
-- the number of the last change
SELECT max(no) FROM changes;

-- name: append_change
-- append a changed cache entry
INSERT INTO changes (no, org_id, kind, key) VALUES (:no, :org_id, :kind, :key);

-- name: changes_after
-- the changes after a number, in order
SELECT no, kind, key FROM changes WHERE no > :no ORDER BY no LIMIT :count;

-- name: forget_changes
-- delete changes up to a number; processes that have not read them reload everything
DELETE FROM changes WHERE no <= :no;
