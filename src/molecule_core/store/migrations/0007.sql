-- From schema 6 to 7: shared context and prompt builds.

-- shared context and prompt builds
-- prompts: the files (JSON) that a workspace shares with its direct children, and how often they were changed
CREATE TABLE shared_contexts (
    workspace_id TEXT PRIMARY KEY,
    revision BIGINT NOT NULL,
    files TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- prompts: the last system prompts of a workspace's agent, as it has told them (JSON)
CREATE TABLE prompt_builds (
    workspace_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    hash TEXT NOT NULL,
    build TEXT NOT NULL,
    built_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, revision)
);
