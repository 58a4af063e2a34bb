-- From schema 9 to 10: signed pushes, counters of what is stored, live turns, runners, answers that are sent,
-- limits of vendors, messages that no model has read, conversations of two workspaces, and a search over all texts.

-- access: secrets that sign pushes, readable because the server signs with them. ends_at NULL: the current one
CREATE TABLE push_secrets (
    hash TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    ends_at BIGINT
);
CREATE INDEX push_secrets_by_workspace ON push_secrets (workspace_id);

-- messages: bytes of the stored log rows (bodies, answers to pushes, and 512 for each row itself) and files of a workspace
CREATE TABLE storage_usage (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    body_bytes BIGINT NOT NULL,
    file_bytes BIGINT NOT NULL,
    PRIMARY KEY (org_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;
INSERT INTO storage_usage (org_id, workspace_id, body_bytes, file_bytes)
SELECT org_id, workspace_id, sum(body_bytes), sum(file_bytes) FROM (
    SELECT a.org_id, a.workspace_id, sum(a.size + 512 + coalesce(octet_length(p.answer), 0)) AS body_bytes,
        0 AS file_bytes
    FROM activities a LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq
    GROUP BY a.org_id, a.workspace_id
    UNION ALL
    SELECT org_id, workspace_id, 0, sum(size) FROM files GROUP BY org_id, workspace_id
) AS stored GROUP BY org_id, workspace_id;

-- delegations: how many are open: begun by a workspace, and under the workspace '' in a whole organisation
CREATE TABLE delegation_usage (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    open BIGINT NOT NULL,
    PRIMARY KEY (org_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;
INSERT INTO delegation_usage (org_id, workspace_id, open)
SELECT org_id, source_id, count(*) FROM delegations WHERE open = 1 GROUP BY org_id, source_id;
INSERT INTO delegation_usage (org_id, workspace_id, open)
SELECT org_id, '', sum(open) FROM delegation_usage GROUP BY org_id;

-- delegations: those that one request caused
CREATE INDEX delegations_by_chain ON delegations (org_id, chain_id, created_at, id) WHERE chain_id IS NOT NULL;

-- memory: bytes of the memories and values of an organisation
CREATE TABLE memory_usage (
    org_id TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
INSERT INTO memory_usage (org_id, bytes)
SELECT org_id, sum(bytes) FROM (
    SELECT org_id, octet_length(content) AS bytes FROM memories
    UNION ALL
    SELECT w.org_id, octet_length(k.value) FROM memory_keys k JOIN workspaces w ON w.id = k.workspace_id
) AS stored GROUP BY org_id;

-- live turns: what agents do now, where several processes share the store. Not logged: a crash of the database empties it.
-- state: JSON; ended: 1 or 0; expires_at: forgotten then
CREATE /*postgres: UNLOGGED */ TABLE live_turns (
    workspace_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    rev BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (workspace_id, activity_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX live_turns_by_org ON live_turns (org_id);

-- access: tokens of runners, hashed
CREATE TABLE runner_tokens (
    hash TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    runner_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX runner_tokens_by_runner ON runner_tokens (runner_id);

-- runners: programs on machines of people that start agents there. report: JSON of what the runner reported last
CREATE TABLE runners (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at BIGINT,
    report TEXT NOT NULL,
    removed_at BIGINT
);
CREATE INDEX runners_by_org ON runners (org_id);
CREATE INDEX runners_by_removal ON runners (removed_at);

-- runners: the agents that runners were asked to run. token_hash: of the workspace token that the runner was
-- given, or empty
CREATE TABLE runner_agents (
    workspace_id TEXT PRIMARY KEY,
    runner_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    folder TEXT NOT NULL,
    mode TEXT NOT NULL,
    request_id TEXT NOT NULL,
    token_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX runner_agents_by_runner ON runner_agents (runner_id);

-- runners: requests of operators. status: queued, claimed, done, failed
CREATE TABLE runner_requests (
    id TEXT PRIMARY KEY,
    runner_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    action TEXT NOT NULL,
    status TEXT NOT NULL,
    text TEXT NOT NULL,
    output TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    claimed_at BIGINT,
    expires_at BIGINT NOT NULL
);
CREATE INDEX runner_requests_by_runner ON runner_requests (runner_id);
CREATE INDEX runner_requests_by_expiry ON runner_requests (expires_at);

-- org: the final text of a turn is sent as the answer; a workspace that keeps drafts is set so again
UPDATE workspaces SET send_drafts = 1;

-- org: until when the limit of a vendor keeps an agent from working, and why
ALTER TABLE workspaces ADD COLUMN limited_until BIGINT;
ALTER TABLE workspaces ADD COLUMN limit_reason TEXT;

-- messages: claimed messages that the model has not read yet
ALTER TABLE handouts ADD COLUMN unread BIGINT NOT NULL DEFAULT 0;

-- messages: the messages from one workspace to another by time
CREATE INDEX activities_by_peer ON activities (workspace_id, source_id, created_at, id)
    WHERE source_id IS NOT NULL AND inbound_no IS NOT NULL;

-- search index: the searchable texts of messages, delegations, items of threads and memories. no orders them by time
-- (search/rules.py); ordinal: of an item within its thread, else 0. words: the partition, the workspaces and the words
-- of the text, each once
CREATE TABLE search_documents (
    no BIGINT PRIMARY KEY,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    at BIGINT NOT NULL,
    words TEXT NOT NULL
);
CREATE UNIQUE INDEX search_documents_by_source ON search_documents (org_id, kind, id, ordinal);

-- search index: how far an organisation is indexed: its journal up to seq. backfill: JSON, how far rows from before
-- that; NULL: all of them
CREATE TABLE search_positions (
    org_id TEXT PRIMARY KEY,
    seq BIGINT NOT NULL,
    backfill TEXT
) /*sqlite: WITHOUT ROWID */;
-- What is there already is indexed in the background.
INSERT INTO search_positions (org_id, seq, backfill)
SELECT id, coalesce((SELECT max(seq) FROM events WHERE events.org_id = orgs.id), 0), '{}' FROM orgs;

-- search index: what searches, derived from the table (schema.sql)
/*sqlite: CREATE VIRTUAL TABLE search_words USING fts5 (words, content = 'search_documents', content_rowid = 'no', detail = 'none', columnsize = 0, prefix = '3 4 5 6 7 8', tokenize = "ascii tokenchars '_'"); */
/*sqlite: INSERT INTO search_words (search_words, rank) VALUES ('pgsz', 1000); */
/*sqlite: CREATE TRIGGER search_documents_written AFTER INSERT ON search_documents BEGIN INSERT INTO search_words (rowid, words) VALUES (new.no, new.words); END; */
/*sqlite: CREATE TRIGGER search_documents_forgotten AFTER DELETE ON search_documents BEGIN INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', old.no, old.words); END; */
/*postgres: CREATE INDEX search_documents_by_words ON search_documents USING gin (array_to_tsvector(string_to_array(words, ' '))); */
