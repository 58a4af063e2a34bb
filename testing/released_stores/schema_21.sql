-- The whole schema. Times are microseconds since 1970 (UTC), booleans are 0 or 1, JSON is text. Text in /*sqlite: ...
-- */ is for SQLite only, text in /*postgres: ... */ for PostgreSQL.

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) /*sqlite: STRICT, WITHOUT ROWID */;

-- store: the journal, numbered per organisation without gaps. payload NULL: built from the entity when read. audience:
-- as in wire/schemas/events.py, or tree:<workspace> for events that this workspace receives too
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
-- events that snapshots list: delegations stopped by a limit
CREATE INDEX events_refused ON events (org_id, seq) WHERE entity_kind = 'refusal';

-- store: what is due when, and which handler is called
CREATE TABLE timers (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    due BIGINT NOT NULL,
    PRIMARY KEY (kind, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX timers_by_due ON timers (due);

-- store: cached entries that every process must reload, in commit order. Written on PostgreSQL only: an SQLite store
-- has one writing process.
CREATE TABLE changes (
    no BIGINT PRIMARY KEY,
    org_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL
);

-- access: three kinds of credential, each with a table of its own (the admin token is not stored)
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

-- access: OAuth clients (org_id empty: one that registered itself), what people granted them, and their tokens
CREATE TABLE oauth_clients (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE INDEX oauth_clients_by_org ON oauth_clients (org_id, created_at);
-- started_at NULL: the client has not exchanged its code yet
CREATE TABLE oauth_grants (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    person_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    client_name TEXT NOT NULL,
    resource TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT
);
CREATE INDEX oauth_grants_by_workspace ON oauth_grants (workspace_id);
CREATE INDEX oauth_grants_by_person ON oauth_grants (person_id);
CREATE INDEX oauth_grants_by_client ON oauth_grants (client_id);
CREATE TABLE oauth_codes (
    hash TEXT PRIMARY KEY,
    grant_id TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
);
CREATE TABLE oauth_tokens (
    hash TEXT PRIMARY KEY,
    grant_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id);

-- org: organisations and their workspaces
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
    key TEXT,
    instruction_shape TEXT,
    reply_seconds BIGINT,
    send_drafts BIGINT NOT NULL DEFAULT 0,
    limited_until BIGINT,
    limit_reason TEXT,
    a2a_card_url TEXT,
    a2a_published BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX workspaces_by_org ON workspaces (org_id);

-- org: the last heartbeat of an agent; written by the sweep, not by each heartbeat. saved: which sweep wrote it
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

-- messages: the append-only log. seq numbers all rows of a workspace, inbound_no its inbox. root_id, hop and cause_id:
-- position in a chain; root_id NULL: the message started one. chain_no counts the messages of a chain after the first,
-- small_talk those without content that two workspaces have exchanged up to this one.
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
CREATE INDEX activities_by_peer ON activities (workspace_id, source_id, created_at, id)
    WHERE source_id IS NOT NULL AND inbound_no IS NOT NULL;
CREATE UNIQUE INDEX activities_by_sender ON activities (dedupe_key, sender) WHERE dedupe_key IS NOT NULL;
CREATE UNIQUE INDEX activities_by_chain ON activities (root_id, chain_no) WHERE chain_no IS NOT NULL;

-- messages: how far a workspace has handled its inbox: all up to acked_seq (inbound number acked_no), and single rows
-- above it in acked_above. Requeued rows wait again at any position; dead ones are dead letters.
CREATE TABLE inboxes (
    workspace_id TEXT PRIMARY KEY,
    acked_seq BIGINT NOT NULL,
    acked_no BIGINT NOT NULL,
    acked_above BIGINT NOT NULL,
    requeued BIGINT NOT NULL DEFAULT 0,
    dead BIGINT NOT NULL DEFAULT 0
) /*sqlite: WITHOUT ROWID */;

-- messages: rows above acked_seq that were claimed or handled out of order; requeued = 1: requeued dead letters, also
-- below acked_seq; shown_behind: the cursor after which a cursor reader has seen them; unread = 1: the claimer keeps the
-- message, and its model has not read it
CREATE TABLE handouts (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    acked_at BIGINT,
    requeued BIGINT NOT NULL DEFAULT 0,
    shown_behind BIGINT,
    unread BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;

-- messages: what was delivered, acknowledged or dead-lettered when, as ranges of inbound numbers: the source of ticks
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

-- messages: dead letters and their state: dead, requeued, handled or discarded
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

-- messages: state of the push of a message. failures: failed attempts, up to the limit for dead letters; next_at 0: no
-- attempt is planned; busy = 1: the agent had no capacity, which is no failure; answer: the agent's answer, as JSON
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

-- messages: senders that wait for a push agent's answer, and until when; a later answer goes into the sender's inbox
CREATE TABLE answer_waits (
    activity_id TEXT PRIMARY KEY,
    until BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- messages: push agents that have mail, and when to try each
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

-- messages: chains of messages that reached a limit, and the decision of a person. most_*: limits of this chain.
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
-- messages: attached files; their bytes are in the blob store under their ids. activity_id: the row that announced the
-- file to a polling agent
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

-- messages: which message mentions which file, and its recipient, who may read the file
CREATE TABLE file_mentions (
    file_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    PRIMARY KEY (file_id, activity_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX file_mentions_by_activity ON file_mentions (activity_id);

-- messages: bytes of the stored log rows (bodies, answers to pushes, and 512 for each row itself) and files of a workspace
CREATE TABLE storage_usage (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    body_bytes BIGINT NOT NULL,
    file_bytes BIGINT NOT NULL,
    PRIMARY KEY (org_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;

-- instructions: templates of the instructions sent with each delivery. org_id '': built-in ones; a version is never
-- changed. parts is JSON
CREATE TABLE instruction_templates (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    runtime TEXT NOT NULL,
    extends TEXT,
    parts TEXT NOT NULL,
    note TEXT,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (org_id, id, version)
) /*sqlite: WITHOUT ROWID */;

-- instructions: which version of a template is active since when, and which other version gets a share of the messages
CREATE TABLE instruction_choices (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    version BIGINT NOT NULL,
    canary BIGINT,
    percent BIGINT NOT NULL,
    since BIGINT NOT NULL,
    removed_at BIGINT,
    PRIMARY KEY (org_id, id)
) /*sqlite: WITHOUT ROWID */;

-- messages: the full instructions that an agent got last: template (id@version) and facts; missed 1: it has left a
-- message without an answer since
CREATE TABLE instruction_seats (
    workspace_id TEXT PRIMARY KEY,
    template TEXT NOT NULL,
    facts TEXT NOT NULL,
    missed BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- messages: the obligation to answer a message, from its delivery on. state: open, answered or declined; source_id
-- NULL: the sender is a person. due_at NULL: no due time. template (of template_org), version, form, tokens:
-- instructions sent with it
CREATE TABLE obligations (
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    activity_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    source_id TEXT,
    state TEXT NOT NULL,
    handed_at BIGINT NOT NULL,
    due_at BIGINT,
    reminded_at BIGINT,
    outside_at BIGINT,
    overdue_at BIGINT,
    closed_at BIGINT,
    answer_id TEXT,
    by_handle BIGINT NOT NULL,
    reason TEXT,
    draft TEXT,
    template_org TEXT,
    template TEXT,
    version BIGINT,
    form TEXT,
    tokens BIGINT,
    PRIMARY KEY (workspace_id, seq)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX obligations_open ON obligations (workspace_id, source_id, seq) WHERE state = 'open';
CREATE INDEX obligations_of_org ON obligations (org_id, workspace_id, seq)
    WHERE state = 'open' AND (overdue_at IS NOT NULL OR outside_at IS NOT NULL);
CREATE INDEX obligations_by_template ON obligations (org_id, template, version, handed_at) WHERE template IS NOT NULL;

-- delegations: tasks that one workspace gives another. id: also the id of the message to the target. open 1: not ended.
-- phase: the step within the status. seq: of the row in the caller's log; message_seq: in the target's. root_no numbers
-- all of one root; hop and chain_id: position of the message in its chain. wait_until: until when the caller waits and
-- takes the result itself. checks: how many its answer must pass
CREATE TABLE delegations (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    rev BIGINT NOT NULL,
    open BIGINT NOT NULL,
    reason TEXT,
    error TEXT,
    task TEXT NOT NULL,
    task_hash TEXT NOT NULL,
    result TEXT,
    via TEXT,
    seq BIGINT NOT NULL,
    activity_id TEXT NOT NULL,
    message_seq BIGINT,
    result_id TEXT,
    result_seq BIGINT,
    parent_id TEXT,
    root_id TEXT NOT NULL,
    root_no BIGINT,
    depth BIGINT NOT NULL,
    hop BIGINT NOT NULL,
    chain_id TEXT,
    cause_id TEXT,
    context_id TEXT,
    recorded BIGINT NOT NULL,
    begun_by TEXT NOT NULL,
    retry_of TEXT,
    attempt BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    taken_at BIGINT,
    life_at BIGINT NOT NULL,
    settled_at BIGINT,
    deadline_at BIGINT NOT NULL,
    unsure_at BIGINT,
    wait_until BIGINT NOT NULL,
    checks BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX delegations_by_source ON delegations (source_id, seq);
CREATE INDEX delegations_by_target ON delegations (target_id, created_at, id);
CREATE INDEX delegations_by_org ON delegations (org_id, created_at, id);
CREATE INDEX delegations_open ON delegations (org_id, created_at, id) WHERE open = 1;
CREATE UNIQUE INDEX delegations_twin ON delegations (source_id, target_id, task_hash) WHERE open = 1 AND recorded = 0;
CREATE UNIQUE INDEX delegations_by_root ON delegations (root_id, root_no);
CREATE INDEX delegations_by_parent ON delegations (org_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX delegations_by_chain ON delegations (org_id, chain_id, created_at, id) WHERE chain_id IS NOT NULL;
CREATE INDEX delegations_by_result ON delegations (result_id) WHERE result_id IS NOT NULL;
CREATE INDEX delegations_settled ON delegations (org_id, settled_at) WHERE settled_at IS NOT NULL;

-- delegations: how many are open: begun by a workspace, and under the workspace '' in a whole organisation
CREATE TABLE delegation_usage (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    open BIGINT NOT NULL,
    PRIMARY KEY (org_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;

-- delegations: their timeline. late 1: it came after the end and changed nothing
CREATE TABLE delegation_facts (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    no BIGINT NOT NULL,
    at BIGINT NOT NULL,
    fact TEXT NOT NULL,
    status TEXT NOT NULL,
    phase TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    late BIGINT NOT NULL,
    detail TEXT,
    PRIMARY KEY (org_id, delegation_id, no)
) /*sqlite: WITHOUT ROWID */;

-- delegations: the checks that an answer must pass (JSON). rounds: how many answers that fail are returned to the target;
-- answer_no: of the answer that is due or being checked; message_id: the message that it answers; task_seq: of the message
-- with the task in the target's log; answer: the one that is being checked (JSON)
CREATE TABLE delegation_acceptance (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    checks TEXT NOT NULL,
    rounds BIGINT NOT NULL,
    answer_no BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    task_seq BIGINT NOT NULL,
    answer TEXT,
    PRIMARY KEY (org_id, delegation_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX delegation_acceptance_by_message ON delegation_acceptance (org_id, message_id);

-- delegations: what each check found in each answer (JSON)
CREATE TABLE delegation_evidence (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    answer_no BIGINT NOT NULL,
    check_no BIGINT NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (org_id, delegation_id, answer_no, check_no)
) /*sqlite: WITHOUT ROWID */;

-- delegations: idempotency keys; a repeated key returns the same delegation
CREATE TABLE delegation_keys (
    source_id TEXT NOT NULL,
    key TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (source_id, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX delegation_keys_by_age ON delegation_keys (created_at);
CREATE INDEX delegation_keys_by_delegation ON delegation_keys (source_id, delegation_id);

-- delegations: the last progress report of the target; JSON
CREATE TABLE delegation_progress (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    said TEXT NOT NULL,
    PRIMARY KEY (org_id, delegation_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX delegation_progress_by_age ON delegation_progress (org_id, at);

-- delegations: what a delegation may do, of those that are restricted; may: JSON. open: the delegation has not ended
CREATE TABLE delegation_scopes (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    open BIGINT NOT NULL,
    may TEXT NOT NULL,
    PRIMARY KEY (org_id, delegation_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX delegation_scopes_open ON delegation_scopes (workspace_id) WHERE open = 1;

-- delegations: a row for each ended delegation, for analysis; written only if the operator enables it, never read by
-- the product
CREATE TABLE delegation_history (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    depth BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    taken_at BIGINT,
    settled_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, delegation_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX delegation_history_by_age ON delegation_history (settled_at);

-- approvals: requests for approval. open 1: not decided. revision counts changes of the content, rev all changes.
-- proposed, edited: the details, canonical JSON. holder_id: the workspace that decides now; NULL: a person. asker: who
-- asked the requester a question. messages numbers its messages; message_id and message_seq: the request in the
-- holder's log; question_seq: the open question in the requester's log. asked: all approvers asked so far. policy,
-- path, decided: JSON, as in wire/schemas/approvals.py. thread_id: the thread that waits for it
CREATE TABLE approvals (
    org_id TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    requester_name TEXT NOT NULL,
    status TEXT NOT NULL,
    open BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    rev BIGINT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    proposed TEXT NOT NULL,
    edited TEXT,
    action_hash TEXT NOT NULL,
    cost DOUBLE PRECISION,
    task_id TEXT,
    source TEXT NOT NULL,
    tool TEXT,
    risk TEXT NOT NULL,
    holder_id TEXT,
    holder_name TEXT NOT NULL,
    for_person BIGINT NOT NULL,
    asker TEXT,
    messages BIGINT NOT NULL,
    message_id TEXT,
    message_seq BIGINT,
    question_seq BIGINT,
    asked TEXT NOT NULL,
    policy TEXT NOT NULL,
    path TEXT NOT NULL,
    decided TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    level_at BIGINT,
    settled_at BIGINT,
    used_at BIGINT,
    thread_id TEXT,
    PRIMARY KEY (org_id, id)
);
CREATE INDEX approvals_by_requester ON approvals (workspace_id, created_at, id);
CREATE INDEX approvals_by_age ON approvals (org_id, created_at, id);
CREATE INDEX approvals_open ON approvals (org_id, created_at, id) WHERE open = 1;
CREATE INDEX approvals_of_task ON approvals (org_id, task_id) WHERE open = 1 AND task_id IS NOT NULL;
CREATE INDEX approvals_by_hash ON approvals (workspace_id, action_hash);
CREATE INDEX approvals_by_use ON approvals (workspace_id, action) WHERE used_at IS NOT NULL;
CREATE INDEX approvals_settled ON approvals (org_id, settled_at, id) WHERE settled_at IS NOT NULL;

-- approvals: who was asked to decide which
CREATE TABLE approval_holders (
    workspace_id TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, approval_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX approval_holders_by_approval ON approval_holders (approval_id);
CREATE INDEX approval_holders_by_age ON approval_holders (workspace_id, created_at, approval_id);

-- approvals: idempotency keys; a repeated key returns the same approval
CREATE TABLE approval_keys (
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    PRIMARY KEY (workspace_id, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX approval_keys_by_approval ON approval_keys (approval_id);

-- approvals: which actions of a workspace need an approval (rules), and what it decides itself (grants); JSON
CREATE TABLE approval_policies (
    workspace_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    rules TEXT NOT NULL,
    grants TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;

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

-- memory: bytes of the memories and values of an organisation
CREATE TABLE memory_usage (
    org_id TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

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

-- prompts: the files (JSON) that a workspace shares with its direct children, and the number of their changes
CREATE TABLE shared_contexts (
    workspace_id TEXT PRIMARY KEY,
    revision BIGINT NOT NULL,
    files TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- prompts: the last system prompts that a workspace's agent reported (JSON)
CREATE TABLE prompt_builds (
    workspace_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    hash TEXT NOT NULL,
    build TEXT NOT NULL,
    built_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, revision)
);

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

-- threads: the last end of an agent that was reported to a thread, by a wait or a message
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

-- a2a_agents: the A2A agents of workspaces. credential: readable because the server presents it. notification_key: derives
-- the token of each task's push notifications, which the server presents too; empty until the card is checked. card_keys: of the signer of
-- the card; without their signature the card is refused
CREATE TABLE a2a_agents (
    workspace_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    card_url TEXT NOT NULL,
    etag TEXT,
    card TEXT NOT NULL,
    credential TEXT,
    checked_at BIGINT NOT NULL,
    error TEXT,
    notification_key TEXT NOT NULL DEFAULT '',
    card_keys TEXT,
    signature TEXT NOT NULL DEFAULT 'none'
);

-- a2a_agents: tasks at those agents, each for one message. due: when it is looked at next, or 0; notified: how often its
-- agent has notified us; leased_until: how long its follower has it, or 0
CREATE TABLE a2a_tasks (
    workspace_id TEXT NOT NULL,
    activity_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    source_id TEXT,
    kind TEXT,
    conversation TEXT NOT NULL,
    task_id TEXT NOT NULL,
    context_id TEXT,
    state TEXT NOT NULL,
    claim BIGINT NOT NULL,
    polls BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    asked TEXT,
    due BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    notified BIGINT NOT NULL DEFAULT 0,
    leased_until BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (workspace_id, activity_id)
);
CREATE INDEX a2a_tasks_by_conversation ON a2a_tasks (workspace_id, conversation, created_at, activity_id);
CREATE INDEX a2a_tasks_by_due ON a2a_tasks (due);
CREATE INDEX a2a_tasks_by_time ON a2a_tasks (updated_at, workspace_id, activity_id);

-- webhooks: addresses to which the changes of a task are posted. owner: key of the caller who created it; token and
-- credentials are sent with each post, so they are readable. cursor: journal number of the last change that was accepted,
-- -1: not even the task itself; next_at: not before this time, after a failure; holder: the process that follows it until
-- due
CREATE TABLE task_webhooks (
    org_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    line TEXT NOT NULL,
    url TEXT NOT NULL,
    token TEXT NOT NULL,
    scheme TEXT NOT NULL,
    credentials TEXT NOT NULL,
    rev BIGINT NOT NULL,
    state TEXT NOT NULL,
    cursor BIGINT NOT NULL,
    posted BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    last_error TEXT,
    holder TEXT NOT NULL,
    due BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, task_id, owner, id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX task_webhooks_by_due ON task_webhooks (due) WHERE state = 'active';
CREATE INDEX task_webhooks_by_org ON task_webhooks (org_id) WHERE state = 'active';
CREATE INDEX task_webhooks_by_holder ON task_webhooks (holder) WHERE state = 'active';
CREATE INDEX task_webhooks_by_workspace ON task_webhooks (workspace_id, created_at);
CREATE INDEX task_webhooks_by_owner ON task_webhooks (owner);
CREATE INDEX task_webhooks_by_change ON task_webhooks (changed_at) WHERE state <> 'active';

-- usage: what each turn used. key: identifies the turn in its workspace; activity_id: the message that it worked on;
-- root_id: first message of its chain; input_tokens: without cached ones; cost_micros: millionths of the organisation's
-- currency, NULL: unknown; at: end of the turn
CREATE TABLE usage_records (
    org_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    key TEXT NOT NULL,
    thread_id TEXT,
    activity_id TEXT,
    delegation_id TEXT,
    root_id TEXT,
    model TEXT,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micros BIGINT,
    source TEXT NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, key)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX usage_records_by_chain ON usage_records (org_id, root_id) WHERE root_id IS NOT NULL;
CREATE INDEX usage_records_by_org ON usage_records (org_id, at);
CREATE INDEX usage_records_by_time ON usage_records (at, workspace_id, key);

-- usage: its sums by day (YYYY-MM-DD, UTC), workspace and model ('': unknown); they stay when records are deleted.
-- unpriced: turns whose cost is unknown
CREATE TABLE usage_days (
    org_id TEXT NOT NULL,
    day TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    model TEXT NOT NULL,
    turns BIGINT NOT NULL,
    unpriced BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    cached_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, workspace_id, model)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX usage_days_by_workspace ON usage_days (workspace_id, day);

-- usage: prices of models, as JSON, and the currency of all costs of an organisation
CREATE TABLE usage_prices (
    org_id TEXT PRIMARY KEY,
    currency TEXT NOT NULL,
    prices TEXT NOT NULL,
    version BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- budgets: limits of what turns may use. scope: workspace, subtree, chain or delegation, and target_id which; most: the
-- limit in each period, in micro-units of the currency or in tokens
CREATE TABLE budgets (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    target_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    unit TEXT NOT NULL,
    most BIGINT NOT NULL,
    period TEXT NOT NULL,
    rev BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- budgets: what was spent of a budget in a period, and added to its limit for this period. asked_at: an approval was
-- requested; stopped: it was denied
CREATE TABLE budget_periods (
    budget_id TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    raised BIGINT NOT NULL,
    stopped BIGINT NOT NULL,
    noticed_at BIGINT,
    asked_at BIGINT,
    PRIMARY KEY (budget_id, period_start)
) /*sqlite: WITHOUT ROWID */;

-- budgets: what a turn has reserved of a budget and not reported yet. thread_id: empty, or its thread, with which it ends
CREATE TABLE budget_leases (
    budget_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    turn_key TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    period_start BIGINT NOT NULL,
    amount BIGINT NOT NULL,
    until BIGINT NOT NULL,
    begun_at BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, turn_key, budget_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX budget_leases_by_budget ON budget_leases (budget_id, period_start);
CREATE INDEX budget_leases_by_thread ON budget_leases (workspace_id, thread_id);
CREATE INDEX budget_leases_by_begin ON budget_leases (workspace_id, begun_at, turn_key) WHERE thread_id = '';

-- budgets: workspaces whose turns wait for a budget. until: end of the limit of the workspace; 0: it has none
CREATE TABLE budget_holds (
    budget_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    until BIGINT NOT NULL,
    PRIMARY KEY (budget_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;

-- budgets: what each turn of a workspace leases, where it is not the default
CREATE TABLE turn_leases (
    workspace_id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL,
    money BIGINT NOT NULL,
    tokens BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;

-- guards: triggers that reject writes. Created from here when a copy is restored. thread_bases: no update, and no
-- deletion before the thread's own
/*sqlite: CREATE TRIGGER thread_bases_unchanged BEFORE UPDATE ON thread_bases BEGIN SELECT RAISE(ABORT, 'base instructions are written once'); END; */
/*sqlite: CREATE TRIGGER thread_bases_kept BEFORE DELETE ON thread_bases WHEN EXISTS (SELECT 1 FROM threads WHERE thread_id = old.thread_id) BEGIN SELECT RAISE(ABORT, 'base instructions stay as long as their thread'); END; */
/*postgres: CREATE FUNCTION thread_bases_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'DELETE' THEN IF NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = OLD.thread_id) THEN RETURN OLD; END IF; END IF; RAISE EXCEPTION 'base instructions are written once, and stay as long as their thread'; END; $$; */
/*postgres: CREATE TRIGGER thread_bases_kept BEFORE UPDATE OR DELETE ON thread_bases FOR EACH ROW EXECUTE FUNCTION thread_bases_refuse(); */

-- search: memories: the search index of each engine, derived from the words of memories. No copy of the other engine
-- has it: a restore creates it from here. On SQLite triggers update the table, and it has an index for each length of a
-- prefix (memory/rules.py).
/*sqlite: CREATE VIRTUAL TABLE memory_words USING fts5 (words, content = 'memories', content_rowid = 'no', detail = 'none', columnsize = 0, prefix = '3 4 5 6 7 8', tokenize = "ascii tokenchars '_'"); */
/*sqlite: CREATE TRIGGER memories_written AFTER INSERT ON memories BEGIN INSERT INTO memory_words (rowid, words) VALUES (new.no, new.words); END; */
/*sqlite: CREATE TRIGGER memories_forgotten AFTER DELETE ON memories BEGIN INSERT INTO memory_words (memory_words, rowid, words) VALUES ('delete', old.no, old.words); END; */
/*sqlite: INSERT INTO memory_words (memory_words) VALUES ('rebuild'); */
/*postgres: CREATE INDEX memories_by_words ON memories USING gin (array_to_tsvector(string_to_array(words, ' '))); */

-- search: search_documents: the same for the searchable texts of all kinds (search/rules.py). Pages of 1,000 bytes: FTS5
-- merges by pages, and a merge of larger ones would hold the event loop for 30 ms.
/*sqlite: CREATE VIRTUAL TABLE search_words USING fts5 (words, content = 'search_documents', content_rowid = 'no', detail = 'none', columnsize = 0, prefix = '3 4 5 6 7 8', tokenize = "ascii tokenchars '_'"); */
/*sqlite: INSERT INTO search_words (search_words, rank) VALUES ('pgsz', 1000); */
/*sqlite: CREATE TRIGGER search_documents_written AFTER INSERT ON search_documents BEGIN INSERT INTO search_words (rowid, words) VALUES (new.no, new.words); END; */
/*sqlite: CREATE TRIGGER search_documents_forgotten AFTER DELETE ON search_documents BEGIN INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', old.no, old.words); END; */
/*sqlite: INSERT INTO search_words (search_words) VALUES ('rebuild'); */
/*postgres: CREATE INDEX search_documents_by_words ON search_documents USING gin (array_to_tsvector(string_to_array(words, ' '))); */
