-- From schema 10 to 11: open questions of agents to people.

-- messages: questions with options that agents have asked people and that have no answer yet
CREATE TABLE questions (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX questions_by_org ON questions (org_id, asked_at, activity_id);
-- A question without a later message of a person in its chat has no answer. Quotes within texts are escaped in JSON, so
-- the pattern matches the options of questions only.
INSERT INTO questions (workspace_id, seq, org_id, activity_id, asked_at)
SELECT a.workspace_id, a.seq, a.org_id, a.id, a.created_at
FROM activities a
WHERE a.chat = 1 AND a.method = 'notify' AND a.request_body LIKE '%"options":[%'
    AND NOT EXISTS (
        SELECT 1 FROM activities u
        WHERE u.workspace_id = a.workspace_id AND u.chat = 1 AND u.seq > a.seq AND u.method <> 'notify'
    )
    AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = a.workspace_id AND w.removed_at IS NOT NULL);
