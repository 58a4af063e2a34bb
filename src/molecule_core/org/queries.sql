-- Organisations and workspaces.

-- name: insert_org
-- a new organisation
INSERT INTO orgs (id, name, allow_skip_level, created_at) VALUES (:id, :name, :allow_skip_level, :created_at);

-- name: all_orgs
-- every organisation, oldest first
SELECT id, name, allow_skip_level, created_at FROM orgs ORDER BY created_at, id;

-- name: insert_workspace
-- a new seat
INSERT INTO workspaces (
    id, org_id, parent_id, name, role, runtime, delivery_mode, url, agent_card, status, external, tier,
    max_concurrent_tasks, instruction_template_id, instruction_compact, broadcast_enabled, talk_to_user_enabled,
    collapsed, x, y, rev, created_at, updated_at, removed_at
) VALUES (
    :id, :org_id, :parent_id, :name, :role, :runtime, :delivery_mode, :url, :agent_card, :status, :external, :tier,
    :max_concurrent_tasks, :instruction_template_id, :instruction_compact, :broadcast_enabled, :talk_to_user_enabled,
    :collapsed, :x, :y, :rev, :created_at, :updated_at, :removed_at
);

-- name: update_workspace
-- all that can change about a seat
UPDATE workspaces SET
    name = :name, role = :role, runtime = :runtime, delivery_mode = :delivery_mode,
    agent_card = :agent_card, status = :status, external = :external, tier = :tier,
    max_concurrent_tasks = :max_concurrent_tasks, instruction_template_id = :instruction_template_id,
    instruction_compact = :instruction_compact, collapsed = :collapsed, x = :x, y = :y, rev = :rev,
    updated_at = :updated_at, removed_at = :removed_at
WHERE id = :id;

-- name: all_workspaces
-- every seat, also removed ones, oldest first
SELECT id, org_id, parent_id, name, role, runtime, delivery_mode, url, agent_card, status, external, tier,
    max_concurrent_tasks, instruction_template_id, instruction_compact, broadcast_enabled, talk_to_user_enabled,
    collapsed, x, y, rev, created_at, updated_at, removed_at
FROM workspaces ORDER BY created_at, id;

-- name: save_heartbeat
-- what an agent said last
INSERT INTO heartbeats (workspace_id, heard_at, active_tasks, error_rate, sample_error, uptime_seconds, current_task)
VALUES (:workspace_id, :heard_at, :active_tasks, :error_rate, :sample_error, :uptime_seconds, :current_task)
ON CONFLICT (workspace_id) DO UPDATE SET
    heard_at = excluded.heard_at, active_tasks = excluded.active_tasks, error_rate = excluded.error_rate,
    sample_error = excluded.sample_error, uptime_seconds = excluded.uptime_seconds,
    current_task = excluded.current_task;

-- name: all_heartbeats
-- what every agent said last
SELECT workspace_id, heard_at, active_tasks, error_rate, sample_error, uptime_seconds, current_task FROM heartbeats;

-- name: heartbeats_of_removed
-- whose seat was removed before a time and whose heartbeat is still kept, in order of their ids
SELECT h.workspace_id FROM heartbeats h JOIN workspaces w ON w.id = h.workspace_id
WHERE h.workspace_id > :workspace_id AND w.removed_at < :before ORDER BY h.workspace_id LIMIT :count;

-- name: forget_heartbeat
-- what an agent said last
DELETE FROM heartbeats WHERE workspace_id = :workspace_id;
