-- From schema 3 to 4: memory.

-- memory: memories of workspaces. no orders them by time, shelf: who may read them (memory/rules.py), words: the search
-- terms: the shelf and the words of content, each once
CREATE TABLE memories (
    no BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    namespace TEXT NOT NULL,
    shelf TEXT NOT NULL,
    content TEXT NOT NULL,
    words TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    written_by TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX memories_by_id ON memories (id);
CREATE INDEX memories_by_shelf ON memories (shelf, no, namespace);
CREATE INDEX memories_by_workspace ON memories (workspace_id, no);
CREATE UNIQUE INDEX memories_by_content ON memories (workspace_id, content_hash);

-- memory: values (JSON) under keys of workspaces, and the last version that each workspace has used for any of them
CREATE TABLE memory_keys (
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    version BIGINT NOT NULL,
    expires_at BIGINT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, key)
);
CREATE INDEX memory_keys_by_expiry ON memory_keys (workspace_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE TABLE memory_versions (
    workspace_id TEXT PRIMARY KEY,
    last BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- search: the search index of each engine, derived from the words of memories. No copy of the other engine has it: a
-- restore creates it from here. On SQLite triggers update the table, and it has an index for each length of a prefix
-- (memory/rules.py).
/*sqlite: CREATE VIRTUAL TABLE memory_words USING fts5 (words, content = 'memories', content_rowid = 'no', detail = 'none', columnsize = 0, prefix = '3 4 5 6 7 8', tokenize = "ascii tokenchars '_'"); */
/*sqlite: CREATE TRIGGER memories_written AFTER INSERT ON memories BEGIN INSERT INTO memory_words (rowid, words) VALUES (new.no, new.words); END; */
/*sqlite: CREATE TRIGGER memories_forgotten AFTER DELETE ON memories BEGIN INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', old.no, old.words); END; */
/*sqlite: INSERT INTO memory_words (memory_words) VALUES ('rebuild'); */
/*postgres: CREATE INDEX memories_by_words ON memories USING gin (array_to_tsvector(string_to_array(words, ' '))); */
