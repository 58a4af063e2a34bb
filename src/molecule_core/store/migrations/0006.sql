-- From schema 5 to 6: delegations.

-- delegations: tasks that one workspace gives another. id: also the id of the message to the target. open 1: not ended.
-- phase: the step within the status. seq: of the row in the caller's log; message_seq: in the target's. root_no numbers
-- all of one root; hop and chain_id: position of the message in its chain. wait_until: until when the caller waits and
-- takes the result itself
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
    PRIMARY KEY (org_id, id)
);
CREATE INDEX delegations_by_source ON delegations (source_id, seq);
CREATE INDEX delegations_by_target ON delegations (target_id, created_at, id);
CREATE INDEX delegations_by_org ON delegations (org_id, created_at, id);
CREATE INDEX delegations_open ON delegations (org_id, created_at, id) WHERE open = 1;
CREATE UNIQUE INDEX delegations_twin ON delegations (source_id, target_id, task_hash) WHERE open = 1 AND recorded = 0;
CREATE UNIQUE INDEX delegations_by_root ON delegations (root_id, root_no);
CREATE INDEX delegations_by_parent ON delegations (org_id, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX delegations_by_result ON delegations (result_id) WHERE result_id IS NOT NULL;
CREATE INDEX delegations_settled ON delegations (org_id, settled_at) WHERE settled_at IS NOT NULL;

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

-- store: events that snapshots list: delegations stopped by a limit
CREATE INDEX events_refused ON events (org_id, seq) WHERE entity_kind = 'refusal';
