-- Shared context and reported prompts.

-- name: shared_context
-- the files that a workspace shares with its children
SELECT revision, files FROM shared_contexts WHERE workspace_id = :workspace_id;

-- name: save_shared_context
-- insert or replace the files that a workspace shares
INSERT INTO shared_contexts (workspace_id, revision, files, updated_at)
VALUES (:workspace_id, :revision, :files, :updated_at)
ON CONFLICT (workspace_id) DO UPDATE SET
    revision = excluded.revision, files = excluded.files, updated_at = excluded.updated_at;

-- name: forget_shared_context
-- delete the shared files of a workspace
DELETE FROM shared_contexts WHERE workspace_id = :workspace_id;

-- name: last_prompt
-- the last reported prompt, with its revision and hash
SELECT revision, hash, build FROM prompt_builds WHERE workspace_id = :workspace_id ORDER BY revision DESC LIMIT 1;

-- name: newest_prompts
-- the last reported prompts, newest first
SELECT revision, build, built_at FROM prompt_builds
WHERE workspace_id = :workspace_id ORDER BY revision DESC LIMIT :count;

-- name: insert_prompt
-- insert a reported prompt
INSERT INTO prompt_builds (workspace_id, revision, hash, build, built_at)
VALUES (:workspace_id, :revision, :hash, :build, :built_at);

-- name: forget_prompts
-- delete the prompts of a workspace up to a revision
DELETE FROM prompt_builds WHERE workspace_id = :workspace_id AND revision <= :upto;
