-- From schema 8 to 9: answers of push agents that come when nobody waits for them.

-- messages: who has asked a push agent something and waits for its answer, and until when; the answer to who waits no more
-- goes into their inbox
CREATE TABLE answer_waits (
    activity_id TEXT PRIMARY KEY,
    until BIGINT NOT NULL
) /*sqlite: WITHOUT ROWID */;
