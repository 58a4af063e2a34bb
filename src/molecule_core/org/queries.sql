-- Organisations and workspaces.

-- name: insert_org
-- insert an organisation
-- mirrored: org by id
INSERT INTO orgs (id, name, allow_skip_level, created_at) VALUES (:id, :name, :allow_skip_level, :created_at);

-- name: rename_org
-- rename an organisation
-- mirrored: org by id
UPDATE orgs SET name = :name WHERE id = :id;

-- name: all_orgs
-- all organisations, oldest first
SELECT id, name, allow_skip_level, created_at FROM orgs ORDER BY created_at, id;

-- name: org_by_id
-- one organisation
SELECT id, name, allow_skip_level, created_at FROM orgs WHERE id = :id;

-- name: insert_workspace
-- insert a workspace
-- mirrored: workspace by id
INSERT INTO workspaces (
    id, org_id, parent_id, name, role, runtime, delivery_mode, url, agent_card, status, external, tier,
    max_concurrent_tasks, instruction_template_id, instruction_compact, broadcast_enabled, talk_to_user_enabled,
    collapsed, x, y, rev, created_at, updated_at, removed_at, key, instruction_shape, reply_seconds, send_drafts,
    limited_until, limit_reason, a2a_card_url, a2a_published
) VALUES (
    :id, :org_id, :parent_id, :name, :role, :runtime, :delivery_mode, :url, :agent_card, :status, :external, :tier,
    :max_concurrent_tasks, :instruction_template_id, :instruction_compact, :broadcast_enabled, :talk_to_user_enabled,
    :collapsed, :x, :y, :rev, :created_at, :updated_at, :removed_at, :key, :instruction_shape, :reply_seconds,
    :send_drafts, :limited_until, :limit_reason, :a2a_card_url, :a2a_published
);

-- name: update_workspace
-- update everything that can change about a workspace
-- mirrored: workspace by id
UPDATE workspaces SET
    parent_id = :parent_id, name = :name, role = :role, runtime = :runtime, delivery_mode = :delivery_mode,
    url = :url, agent_card = :agent_card, status = :status, external = :external, tier = :tier,
    max_concurrent_tasks = :max_concurrent_tasks, instruction_template_id = :instruction_template_id,
    instruction_compact = :instruction_compact, broadcast_enabled = :broadcast_enabled,
    talk_to_user_enabled = :talk_to_user_enabled, collapsed = :collapsed, x = :x, y = :y, rev = :rev,
    updated_at = :updated_at, removed_at = :removed_at, key = :key, instruction_shape = :instruction_shape,
    reply_seconds = :reply_seconds, send_drafts = :send_drafts,
    limited_until = :limited_until, limit_reason = :limit_reason,
    a2a_card_url = :a2a_card_url, a2a_published = :a2a_published
WHERE id = :id;

-- name: all_workspaces
-- all workspaces, removed ones included, oldest first
SELECT id, org_id, parent_id, name, role, runtime, delivery_mode, url, agent_card, status, external, tier,
    max_concurrent_tasks, instruction_template_id, instruction_compact, broadcast_enabled, talk_to_user_enabled,
    collapsed, x, y, rev, created_at, updated_at, removed_at, key, instruction_shape, reply_seconds, send_drafts,
    limited_until, limit_reason, a2a_card_url, a2a_published
FROM workspaces ORDER BY created_at, id;

-- name: workspace_by_id
-- one workspace
SELECT id, org_id, parent_id, name, role, runtime, delivery_mode, url, agent_card, status, external, tier,
    max_concurrent_tasks, instruction_template_id, instruction_compact, broadcast_enabled, talk_to_user_enabled,
    collapsed, x, y, rev, created_at, updated_at, removed_at, key, instruction_shape, reply_seconds, send_drafts,
    limited_until, limit_reason, a2a_card_url, a2a_published
FROM workspaces WHERE id = :id;

-- name: save_heartbeat
-- save the last heartbeat of an agent unless another process has saved a later one
-- mirrored: pulses by saved
INSERT INTO heartbeats (
    workspace_id, heard_at, active_tasks, error_rate, sample_error, uptime_seconds, current_task, saved
) VALUES (
    :workspace_id, :heard_at, :active_tasks, :error_rate, :sample_error, :uptime_seconds, :current_task, :saved
) ON CONFLICT (workspace_id) DO UPDATE SET
    heard_at = excluded.heard_at, active_tasks = excluded.active_tasks, error_rate = excluded.error_rate,
    sample_error = excluded.sample_error, uptime_seconds = excluded.uptime_seconds,
    current_task = excluded.current_task, saved = excluded.saved
WHERE excluded.heard_at > heartbeats.heard_at;

-- name: heartbeat
-- the last saved heartbeat of an agent, from any process
SELECT workspace_id, heard_at, active_tasks, error_rate, sample_error, uptime_seconds, current_task
FROM heartbeats WHERE workspace_id = :workspace_id;

-- name: heartbeats_of_save
-- the heartbeats that one process saved together
SELECT workspace_id, heard_at, active_tasks, error_rate, sample_error, uptime_seconds, current_task
FROM heartbeats WHERE saved = :saved;

-- name: all_heartbeats
-- the last saved heartbeat of every agent
SELECT workspace_id, heard_at, active_tasks, error_rate, sample_error, uptime_seconds, current_task FROM heartbeats;

-- name: heartbeats_of_removed
-- workspaces removed before a time that still have a heartbeat, by id
SELECT h.workspace_id FROM heartbeats h JOIN workspaces w ON w.id = h.workspace_id
WHERE h.workspace_id > :workspace_id AND w.removed_at < :before ORDER BY h.workspace_id LIMIT :count;

-- name: forget_heartbeat
-- delete the heartbeat of a workspace
-- mirrored: nothing, a removed workspace has no pulse
DELETE FROM heartbeats WHERE workspace_id = :workspace_id;
