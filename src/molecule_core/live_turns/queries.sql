-- Live turns of stores that several processes share. Other stores keep them in memory.

-- name: live_turn
-- a live turn, as JSON
SELECT state FROM live_turns WHERE workspace_id = :workspace_id AND activity_id = :activity_id AND expires_at > :now;

-- name: count_other_live_turns
-- the number of other running turns of a workspace
SELECT count(*) FROM live_turns
WHERE workspace_id = :workspace_id AND activity_id <> :activity_id AND expires_at > :now AND ended = 0;

-- name: live_turns_of_workspace
-- the live turns of a workspace, as JSON
SELECT state FROM live_turns WHERE workspace_id = :workspace_id AND expires_at > :now ORDER BY activity_id;

-- name: live_turn_versions
-- the versions of the live turns of an organisation
SELECT workspace_id, activity_id, rev, expires_at FROM live_turns WHERE org_id = :org_id AND expires_at > :now
ORDER BY workspace_id, activity_id;

-- name: save_live_turn
-- insert or replace a live turn
INSERT INTO live_turns (workspace_id, activity_id, org_id, rev, expires_at, ended, state)
VALUES (:workspace_id, :activity_id, :org_id, :rev, :expires_at, :ended, :state)
ON CONFLICT (workspace_id, activity_id) DO UPDATE SET
    rev = excluded.rev, expires_at = excluded.expires_at, ended = excluded.ended, state = excluded.state;

-- name: forget_expired_live_turns
-- delete the expired live turns of a workspace
DELETE FROM live_turns WHERE workspace_id = :workspace_id AND expires_at <= :now;

-- name: expired_live_turns
-- workspaces with expired live turns, for retention
SELECT DISTINCT workspace_id FROM live_turns WHERE workspace_id > :workspace_id AND expires_at <= :before
ORDER BY workspace_id LIMIT :count;
