-- Shared context and the prompts that agents have told.

-- name: shared_context
-- what a workspace shares with its children
SELECT revision, files FROM shared_contexts WHERE workspace_id = :workspace_id;

-- name: save_shared_context
-- what it shares now, in the place of what it shared before
INSERT INTO shared_contexts (workspace_id, revision, files, updated_at)
VALUES (:workspace_id, :revision, :files, :updated_at)
ON CONFLICT (workspace_id) DO UPDATE SET
    revision = excluded.revision, files = excluded.files, updated_at = excluded.updated_at;

-- name: forget_shared_context
-- nothing is shared any more
DELETE FROM shared_contexts WHERE workspace_id = :workspace_id;

-- name: last_prompt
-- the prompt that was told last, with its number and its hash
SELECT revision, hash, build FROM prompt_builds WHERE workspace_id = :workspace_id ORDER BY revision DESC LIMIT 1;

-- name: newest_prompts
-- the prompts that were told last, newest first
SELECT revision, build, built_at FROM prompt_builds
WHERE workspace_id = :workspace_id ORDER BY revision DESC LIMIT :count;

-- name: insert_prompt
-- a prompt that was told
INSERT INTO prompt_builds (workspace_id, revision, hash, build, built_at)
VALUES (:workspace_id, :revision, :hash, :build, :built_at);

-- name: forget_prompts
-- the oldest prompts of a workspace, up to a number
DELETE FROM prompt_builds WHERE workspace_id = :workspace_id AND revision <= :upto;
