-- From schema 8 to 9: late answers of push agents.

-- messages: senders that wait for a push agent's answer, and until when; a later answer goes into the sender's inbox
CREATE TABLE answer_waits (
    activity_id TEXT PRIMARY KEY,
    until BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
