-- From schema 1 to 2: logins of people, and read marks.

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
CREATE TABLE read_marks (
    person_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (person_id, workspace_id)
) /*sqlite: WITHOUT ROWID */;
