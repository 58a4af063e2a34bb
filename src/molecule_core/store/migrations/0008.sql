-- From schema 7 to 8: threads.

ALTER TABLE approvals ADD COLUMN thread_id TEXT;

-- threads: one row each, the fold of its log (threads/fold.py) up to updated_at. root_workspace_id: the workspace that
-- started its tree and receives its events. path: task names from the root. fork_*: the part of another thread that it
-- sees. tools, permissions, base_from, queue, flags, waits: JSON. base_*: the base instructions in force, with their
-- text in base_thread. ends counts its ends; end_*: the last one. open 1: a turn has not ended. heard: ordinal of the
-- last user input. generation, owner, owner_until: the engine that may write; seen: the last ordinal that it was sent;
-- revision counts changes of the row
CREATE TABLE threads (
    thread_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    root_id TEXT NOT NULL,
    root_workspace_id TEXT NOT NULL,
    parent_id TEXT,
    requester_id TEXT,
    fork_id TEXT,
    fork_at BIGINT NOT NULL,
    fork_since BIGINT NOT NULL,
    path TEXT NOT NULL,
    task_name TEXT NOT NULL,
    nickname TEXT NOT NULL,
    role TEXT,
    kind TEXT NOT NULL,
    call_id TEXT,
    wake TEXT NOT NULL,
    model TEXT,
    effort TEXT,
    tools TEXT NOT NULL,
    permissions TEXT NOT NULL,
    base_thread TEXT NOT NULL,
    base_version BIGINT NOT NULL,
    base_sha TEXT NOT NULL,
    base_item TEXT NOT NULL,
    base_from TEXT NOT NULL,
    base_bytes BIGINT NOT NULL,
    base_tokens BIGINT NOT NULL,
    developer BIGINT NOT NULL,
    context BIGINT NOT NULL,
    status TEXT NOT NULL,
    message TEXT,
    ends BIGINT NOT NULL,
    end_status TEXT,
    end_message TEXT,
    turn_id TEXT,
    queue TEXT NOT NULL,
    open BIGINT NOT NULL,
    turns BIGINT NOT NULL,
    closed BIGINT NOT NULL,
    flags TEXT NOT NULL,
    waits TEXT NOT NULL,
    heard BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    turn_tokens BIGINT NOT NULL,
    last_ordinal BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    generation BIGINT NOT NULL,
    owner TEXT,
    owner_until BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    revision BIGINT NOT NULL
);
CREATE INDEX threads_by_workspace ON threads (workspace_id, created_at, thread_id);
CREATE UNIQUE INDEX threads_by_path ON threads (root_id, path);
CREATE INDEX threads_by_fork ON threads (fork_id) WHERE fork_id IS NOT NULL;
CREATE INDEX threads_with_work ON threads (workspace_id, updated_at) WHERE open = 1;
CREATE INDEX threads_spawned ON threads (created_at) WHERE parent_id IS NOT NULL;
CREATE INDEX threads_living ON threads (root_id) WHERE closed = 0;
CREATE INDEX threads_by_age ON threads (org_id, updated_at, thread_id) WHERE closed = 1;

-- threads: their logs, one entry a row; body: JSON, as in wire/schemas/thread_log.py, without the text of base
-- instructions. key: idempotency key
CREATE TABLE thread_entries (
    thread_id TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    turn_id TEXT,
    type TEXT NOT NULL,
    body TEXT NOT NULL,
    at BIGINT NOT NULL,
    key TEXT,
    PRIMARY KEY (thread_id, ordinal)
);
CREATE UNIQUE INDEX thread_entries_by_key ON thread_entries (thread_id, key) WHERE key IS NOT NULL;

-- threads: base instructions: never changed, deleted only after their thread
CREATE TABLE thread_bases (
    thread_id TEXT NOT NULL,
    version BIGINT NOT NULL,
    text TEXT NOT NULL,
    provenance TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    item_id TEXT NOT NULL,
    PRIMARY KEY (thread_id, version)
);

-- threads: their turns. input, author: JSON. requester_id: the thread that gets the end as mail
CREATE TABLE thread_turns (
    turn_id TEXT PRIMARY KEY,
    thread_id TEXT NOT NULL,
    status TEXT NOT NULL,
    cause TEXT NOT NULL,
    input TEXT NOT NULL,
    author TEXT NOT NULL,
    key TEXT,
    requester_id TEXT,
    accepted_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX thread_turns_by_thread ON thread_turns (thread_id, accepted_at);
CREATE UNIQUE INDEX thread_turns_by_key ON thread_turns (thread_id, key) WHERE key IS NOT NULL;
CREATE INDEX thread_turns_asked ON thread_turns (requester_id) WHERE ended_at IS NULL AND requester_id IS NOT NULL;

-- threads: messages between agents. seq orders those of a recipient; key: idempotency key; wakes 1: it starts a turn of
-- an idle recipient
CREATE TABLE thread_mail (
    mail_id TEXT PRIMARY KEY,
    receiver_id TEXT NOT NULL,
    author_id TEXT,
    author TEXT NOT NULL,
    seq BIGINT NOT NULL,
    type TEXT NOT NULL,
    wakes BIGINT NOT NULL,
    text TEXT NOT NULL,
    key TEXT NOT NULL,
    state TEXT NOT NULL,
    turn_id TEXT,
    sent_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX thread_mail_by_seq ON thread_mail (receiver_id, seq);
CREATE UNIQUE INDEX thread_mail_by_key ON thread_mail (receiver_id, key);
CREATE INDEX thread_mail_waiting ON thread_mail (receiver_id, seq) WHERE state = 'accepted';

-- threads: the cost of model requests; each counts once
CREATE TABLE thread_usage (
    thread_id TEXT NOT NULL,
    record_key TEXT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (thread_id, record_key)
) /*sqlite: WITHOUT ROWID */;

-- threads: the last end of an agent that was reported to a thread by a wait
CREATE TABLE thread_reports (
    thread_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    ends BIGINT NOT NULL,
    PRIMARY KEY (thread_id, target_id)
) /*sqlite: WITHOUT ROWID */;

-- threads: idempotency keys of started threads; a repeated key returns the same thread
CREATE TABLE thread_keys (
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    PRIMARY KEY (workspace_id, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX thread_keys_by_thread ON thread_keys (thread_id);

-- threads: when an engine of a workspace last asked for work; without an engine its threads do not run
CREATE TABLE thread_engines (
    workspace_id TEXT PRIMARY KEY,
    asked_at BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- guards: triggers that reject writes. Created from here when a copy is restored. thread_bases: no update, and no
-- deletion before the thread's own
/*sqlite: CREATE TRIGGER thread_bases_unchanged BEFORE UPDATE ON thread_bases BEGIN SELECT RAISE(ABORT, 'base instructions are written once'); END; */
/*sqlite: CREATE TRIGGER thread_bases_kept BEFORE DELETE ON thread_bases WHEN EXISTS (SELECT 1 FROM threads WHERE thread_id = old.thread_id) BEGIN SELECT RAISE(ABORT, 'base instructions stay as long as their thread'); END; */
/*postgres: CREATE FUNCTION thread_bases_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' THEN IF NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = OLD.thread_id) THEN RETURN OLD; END IF; END IF; RAISE EXCEPTION 'base instructions are written once, and stay as long as their thread'; END; $$; */
/*postgres: CREATE TRIGGER thread_bases_kept BEFORE UPDATE OR DELETE ON thread_bases FOR EACH ROW EXECUTE FUNCTION thread_bases_refuse(); */
