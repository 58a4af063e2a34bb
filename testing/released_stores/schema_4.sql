-- The whole schema, schema version 4. Times are microseconds since 1970 (UTC), switches 0 or 1, JSON is text.
-- What stands in /*sqlite: ... */ belongs to SQLite only, what stands in /*postgres: ... */ to PostgreSQL.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) /*sqlite: STRICT, WITHOUT ROWID */;

-- store: one journal, numbered per organisation without gaps. payload NULL: made from the entity when read.
CREATE TABLE events (
    org_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    name TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    audience TEXT NOT NULL,
    entity_kind TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    rev BIGINT NOT NULL,
    at BIGINT NOT NULL,
    payload TEXT,
    PRIMARY KEY (org_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- store: what is due when, and who is asked
CREATE TABLE timers (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    due BIGINT NOT NULL,
    PRIMARY KEY (kind, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX timers_by_due ON timers (due);

-- store: what every process that keeps a part of the store in memory has to look at again, in the order of the commits.
-- Written on PostgreSQL only: no other process writes to an SQLite store.
CREATE TABLE changes (
    no BIGINT PRIMARY KEY,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL
);

-- access: three kinds of credential that share no table (the admin token is not in the store at all)
CREATE TABLE persons (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    removed_at BIGINT
);
CREATE TABLE person_tokens (
    hash TEXT PRIMARY KEY,
    hint TEXT NOT NULL,
    person_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE TABLE logins (
    hash TEXT PRIMARY KEY,
    person_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    person_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE TABLE workspace_tokens (
    hash TEXT PRIMARY KEY,
    hint TEXT NOT NULL,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT,
    expires_at BIGINT
);
CREATE INDEX workspace_tokens_by_workspace ON workspace_tokens (workspace_id);
CREATE INDEX person_tokens_by_person ON person_tokens (person_id);
CREATE TABLE invitations (
    hash TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    invited_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX invitations_by_org ON invitations (org_id);

-- org: organisations and the seats in them
CREATE TABLE orgs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    allow_skip_level BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE workspaces (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    parent_id TEXT,
    name TEXT NOT NULL,
    role TEXT,
    runtime TEXT NOT NULL,
    delivery_mode TEXT NOT NULL,
    url TEXT,
    agent_card TEXT,
    status TEXT NOT NULL,
    external BIGINT NOT NULL,
    tier BIGINT NOT NULL,
    max_concurrent_tasks BIGINT NOT NULL,
    instruction_template_id TEXT,
    instruction_compact BIGINT NOT NULL,
    broadcast_enabled BIGINT NOT NULL,
    talk_to_user_enabled BIGINT NOT NULL,
    collapsed BIGINT NOT NULL,
    x DOUBLE PRECISION NOT NULL,
    y DOUBLE PRECISION NOT NULL,
    rev BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    removed_at BIGINT,
    key TEXT
);
CREATE INDEX workspaces_by_org ON workspaces (org_id);

-- org: what an agent said of itself last; written by the sweep, not by each heartbeat. saved: which sweep wrote it
CREATE TABLE heartbeats (
    workspace_id TEXT PRIMARY KEY,
    heard_at BIGINT NOT NULL,
    active_tasks BIGINT NOT NULL,
    error_rate DOUBLE PRECISION NOT NULL,
    sample_error TEXT,
    uptime_seconds BIGINT NOT NULL,
    current_task TEXT,
    saved TEXT
);
CREATE INDEX heartbeats_by_save ON heartbeats (saved);

-- messages: the append-only log. seq numbers all rows of a workspace, inbound_no its inbox. root_id, hop and cause_id
-- tell of which chain a message is; root_id NULL: it began one. chain_no counts the messages behind the first one of a
-- chain, small_talk how many without content two workspaces have exchanged up to this one.
CREATE TABLE activities (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    inbound_no BIGINT,
    chat BIGINT NOT NULL,
    size BIGINT NOT NULL,
    activity_type TEXT NOT NULL,
    method TEXT,
    kind TEXT,
    intent TEXT,
    source_id TEXT,
    target_id TEXT,
    user_id TEXT,
    sender TEXT NOT NULL,
    dedupe_key TEXT,
    content_hash TEXT,
    context_id TEXT,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    duration_ms BIGINT,
    summary TEXT,
    error_detail TEXT,
    request_body TEXT,
    response_body TEXT,
    tool_trace TEXT,
    root_id TEXT,
    hop BIGINT NOT NULL DEFAULT 0,
    cause_id TEXT,
    expires_at BIGINT,
    trace_parent TEXT,
    chain_no BIGINT,
    small_talk BIGINT
);
CREATE UNIQUE INDEX activities_by_seq ON activities (workspace_id, seq);
CREATE INDEX activities_inbound ON activities (workspace_id, seq) WHERE inbound_no IS NOT NULL;
CREATE INDEX activities_chat ON activities (workspace_id, seq) WHERE chat = 1;
CREATE UNIQUE INDEX activities_by_sender ON activities (dedupe_key, sender) WHERE dedupe_key IS NOT NULL;
CREATE UNIQUE INDEX activities_by_chain ON activities (root_id, chain_no) WHERE chain_no IS NOT NULL;

-- messages: how far a workspace has handled its inbox: all up to acked_seq (which was inbound number acked_no),
-- and acked_above single rows behind it. requeued rows wait again wherever they stand; dead ones were given up.
CREATE TABLE inboxes (
    workspace_id TEXT PRIMARY KEY,
    acked_seq BIGINT NOT NULL,
    acked_no BIGINT NOT NULL,
    acked_above BIGINT NOT NULL,
    requeued BIGINT NOT NULL DEFAULT 0,
    dead BIGINT NOT NULL DEFAULT 0
) /*sqlite: WITHOUT ROWID */;

-- messages: rows behind acked_seq that were handed out by a claim or handled out of order; and requeued = 1: dead
-- letters that wait again, also before acked_seq, shown_behind which cursor if a reader by cursor has seen them
CREATE TABLE handouts (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    acked_at BIGINT,
    requeued BIGINT NOT NULL DEFAULT 0,
    shown_behind BIGINT,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- messages: what was handed out, settled or given up when, as ranges of an inbox's numbers: what ticks are made of
CREATE TABLE handovers (
    workspace_id TEXT NOT NULL,
    first_no BIGINT NOT NULL,
    last_no BIGINT NOT NULL,
    tick TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    reason TEXT
);
CREATE INDEX handovers_by_number ON handovers (workspace_id, first_no);

-- messages: what was given up, and what became of it: dead, requeued, handled or discarded
CREATE TABLE dead_letters (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    org_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT,
    attempts BIGINT NOT NULL,
    died_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX dead_letters_by_org ON dead_letters (org_id, died_at, activity_id) WHERE state = 'dead';

-- messages: how the delivery of a message to a push agent stands. failures count towards its death; next_at 0: none is
-- planned; busy = 1: the agent had no time, which is no failure; answer: what the agent said, as JSON
CREATE TABLE pushes (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    busy BIGINT NOT NULL,
    noted_at BIGINT NOT NULL,
    last_error TEXT,
    answer TEXT,
    answered_at BIGINT,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- messages: push agents that have mail, and when to look at each
CREATE TABLE push_targets (
    workspace_id TEXT PRIMARY KEY,
    due BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX push_targets_by_due ON push_targets (due);

-- messages: how far a person has read the chat of a workspace
CREATE TABLE read_marks (
    person_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (person_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;

-- messages: chains of messages that ran into a limit, and what a person decided. most_*: how far each may go.
CREATE TABLE chains (
    root_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    trips BIGINT NOT NULL,
    hops BIGINT NOT NULL,
    messages BIGINT NOT NULL,
    small_talk BIGINT NOT NULL,
    most_hops BIGINT NOT NULL,
    most_messages BIGINT NOT NULL,
    most_small_talk BIGINT NOT NULL,
    frozen_at BIGINT NOT NULL,
    released_at BIGINT,
    ended_at BIGINT,
    decided_by TEXT
);
CREATE INDEX chains_by_org ON chains (org_id, frozen_at, root_id);
-- messages: the files that came in; their bytes are in a folder, under their ids. activity_id: the row that told a
-- polling agent of it
CREATE TABLE files (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    uploaded_by TEXT NOT NULL,
    name TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    activity_id TEXT,
    created_at BIGINT NOT NULL,
    acked_at BIGINT
);

-- messages: which message mentions which file, and to whom it went: whoever was sent a file may read it
CREATE TABLE file_mentions (
    file_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    PRIMARY KEY (file_id, activity_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX file_mentions_by_activity ON file_mentions (activity_id);

-- memory: what workspaces wrote down. no orders it by time, shelf says who may read it (memory/rules.py), words is what
-- the search looks at: the shelf and the words of content, each once
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

-- memory: values (JSON) that workspaces keep under keys, and the last version that each has used for any of them
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

-- search: what each engine finds memories by. It is made from their words, so no copy of the other engine holds it; whoever
-- puts one back makes it anew from here. On SQLite the table is kept by triggers, and has an index for each length that
-- the beginning of a word may have (memory/rules.py).
/*sqlite: CREATE VIRTUAL TABLE memory_words USING fts5 (words, content = 'memories', content_rowid = 'no', detail = 'none', columnsize = 0, prefix = '3 4 5 6 7 8', tokenize = "ascii tokenchars '_'"); */
/*sqlite: CREATE TRIGGER memories_written AFTER INSERT ON memories BEGIN INSERT INTO memory_words (rowid, words) VALUES (new.no, new.words); END; */
/*sqlite: CREATE TRIGGER memories_forgotten AFTER DELETE ON memories BEGIN INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', old.no, old.words); END; */
/*sqlite: INSERT INTO memory_words (memory_words) VALUES ('rebuild'); */
/*postgres: CREATE INDEX memories_by_words ON memories USING gin (array_to_tsvector(string_to_array(words, ' '))); */
