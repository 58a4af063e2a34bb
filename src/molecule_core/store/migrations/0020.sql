-- From schema 19 to 20: checks of delegations.

ALTER TABLE delegations ADD COLUMN checks BIGINT NOT NULL DEFAULT 0;

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
