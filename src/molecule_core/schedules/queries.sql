-- Schedules and their runs.

-- name: schedules_of_org
-- the schedules of an organisation, by name
SELECT id, org_id, name, source_id, target_id, author, author_id, author_name, cron, time_zone, once_at, work, misses,
    overlap, paused, pause_reason, next_at, rev, created_at, updated_at, updated_by
FROM schedules WHERE org_id = :org_id ORDER BY name, id;

-- name: schedule
-- one schedule
SELECT id, org_id, name, source_id, target_id, author, author_id, author_name, cron, time_zone, once_at, work, misses,
    overlap, paused, pause_reason, next_at, rev, created_at, updated_at, updated_by
FROM schedules WHERE id = :id AND org_id = :org_id;

-- name: insert_schedule
-- insert a schedule
INSERT INTO schedules (
    id, org_id, name, source_id, target_id, author, author_id, author_name, cron, time_zone, once_at, work, misses,
    overlap, paused, pause_reason, next_at, rev, created_at, updated_at, updated_by
) VALUES (
    :id, :org_id, :name, :source_id, :target_id, :author, :author_id, :author_name, :cron, :time_zone, :once_at, :work,
    :misses, :overlap, :paused, :pause_reason, :next_at, :rev, :created_at, :updated_at, :updated_by
);

-- name: update_schedule
-- change a schedule
UPDATE schedules SET name = :name, source_id = :source_id, target_id = :target_id, author = :author,
    author_id = :author_id, author_name = :author_name, cron = :cron, time_zone = :time_zone, once_at = :once_at,
    work = :work, misses = :misses, overlap = :overlap, paused = :paused, pause_reason = :pause_reason,
    next_at = :next_at, rev = :rev, updated_at = :updated_at, updated_by = :updated_by
WHERE id = :id;

-- name: delete_schedule
-- delete a schedule
DELETE FROM schedules WHERE id = :id;

-- name: delete_schedule_runs
-- delete the runs of a schedule
DELETE FROM schedule_runs WHERE schedule_id = :schedule_id;

-- name: save_schedule_run
-- store what was done at a planned time; a queued run gets its outcome
INSERT INTO schedule_runs (schedule_id, planned_at, org_id, ran_at, outcome, reason, work_id, missed)
VALUES (:schedule_id, :planned_at, :org_id, :ran_at, :outcome, :reason, :work_id, :missed)
ON CONFLICT (schedule_id, planned_at) DO UPDATE SET
    ran_at = excluded.ran_at, outcome = excluded.outcome, reason = excluded.reason, work_id = excluded.work_id;

-- name: delete_surplus_schedule_runs
-- delete the oldest runs of a schedule, so that `kept` stay, and the last one that began work
DELETE FROM schedule_runs WHERE schedule_id = :schedule_id AND outcome <> 'queued' AND planned_at < (
    SELECT planned_at FROM schedule_runs WHERE schedule_id = :schedule_id ORDER BY planned_at DESC LIMIT 1 OFFSET :kept
) AND planned_at <> coalesce((
    SELECT planned_at FROM schedule_runs WHERE schedule_id = :schedule_id AND work_id IS NOT NULL
    ORDER BY planned_at DESC LIMIT 1
), 0);

-- name: schedule_runs
-- the runs of a schedule before a planned time, newest first
SELECT schedule_id, planned_at, org_id, ran_at, outcome, reason, work_id, missed FROM schedule_runs
WHERE schedule_id = :schedule_id AND planned_at < :before ORDER BY planned_at DESC LIMIT :count;

-- name: queued_schedule_runs
-- the runs of a schedule that wait, oldest first
SELECT schedule_id, planned_at, org_id, ran_at, outcome, reason, work_id, missed FROM schedule_runs
WHERE schedule_id = :schedule_id AND outcome = 'queued' ORDER BY planned_at LIMIT :count;

-- name: last_scheduled_work
-- the newest message or delegation of a schedule, and whether it is a delegation
SELECT work_id, outcome FROM schedule_runs
WHERE schedule_id = :schedule_id AND work_id IS NOT NULL ORDER BY planned_at DESC LIMIT 1;

-- name: open_scheduled_delegation
-- whether a delegation has not ended
SELECT open FROM delegations WHERE org_id = :org_id AND id = :id;

-- name: open_scheduled_message
-- whether a message has not been acknowledged or given up
SELECT CASE WHEN d.state IN ('dead', 'handled', 'discarded') OR h.acked_at IS NOT NULL
    OR (a.seq <= coalesce(i.acked_seq, 0) AND coalesce(h.requeued, 0) = 0) THEN 0 ELSE 1 END
FROM activities a
LEFT JOIN inboxes i ON i.workspace_id = a.workspace_id
LEFT JOIN handouts h ON h.workspace_id = a.workspace_id AND h.seq = a.seq
LEFT JOIN dead_letters d ON d.workspace_id = a.workspace_id AND d.seq = a.seq
WHERE a.id = :id;

-- name: schedules_of_workspaces
-- the schedules of an organisation that act for a workspace or reach it
SELECT id, org_id, name, source_id, target_id, author, author_id, author_name, cron, time_zone, once_at, work, misses,
    overlap, paused, pause_reason, next_at, rev, created_at, updated_at, updated_by
FROM schedules WHERE org_id = :org_id AND (target_id = :workspace_id OR source_id = :workspace_id);

-- name: spent_schedule_runs
-- runs that began before a time, for retention
SELECT schedule_id, planned_at FROM schedule_runs
WHERE ran_at < :before AND outcome <> 'queued' AND (schedule_id, planned_at) > (:schedule_id, :planned_at)
ORDER BY schedule_id, planned_at LIMIT :count;

-- name: forget_schedule_run
-- delete a run
DELETE FROM schedule_runs WHERE schedule_id = :schedule_id AND planned_at = :planned_at;
