-- Persons and tokens.

-- name: insert_person
-- a new person
INSERT INTO persons (id, org_id, name, role, created_at) VALUES (:id, :org_id, :name, :role, :created_at);

-- name: persons_of_org
-- the persons of an organisation, oldest first
SELECT id, org_id, name, role, created_at FROM persons WHERE org_id = :org_id ORDER BY id;

-- name: insert_person_token
-- a new token of a person, hashed
INSERT INTO person_tokens (hash, hint, person_id, created_at, expires_at)
VALUES (:hash, :hint, :person_id, :created_at, :expires_at);

-- name: insert_workspace_token
-- a new token of a workspace, hashed
INSERT INTO workspace_tokens (hash, hint, org_id, workspace_id, created_at)
VALUES (:hash, :hint, :org_id, :workspace_id, :created_at);

-- name: person_by_token
-- whom a live person token belongs to
SELECT p.id, p.org_id, p.role, p.name, t.expires_at
FROM person_tokens t JOIN persons p ON p.id = t.person_id
WHERE t.hash = :hash AND t.revoked_at IS NULL;

-- name: workspace_by_token
-- which workspace a live token belongs to
SELECT workspace_id, org_id FROM workspace_tokens WHERE hash = :hash AND revoked_at IS NULL;

-- name: insert_login
-- a link that lets a person in once, hashed
INSERT INTO logins (hash, person_id, created_at, expires_at) VALUES (:hash, :person_id, :created_at, :expires_at);

-- name: login_by_hash
-- whom a link lets in, until when, and whether it was used
SELECT p.id, p.org_id, p.name, p.role, p.created_at, l.expires_at, l.used_at
FROM logins l JOIN persons p ON p.id = l.person_id WHERE l.hash = :hash;

-- name: use_login
-- a link has let its person in
UPDATE logins SET used_at = :now WHERE hash = :hash;

-- name: insert_session
-- a person is logged in, the session's token hashed
INSERT INTO sessions (hash, person_id, created_at, expires_at) VALUES (:hash, :person_id, :created_at, :expires_at);

-- name: end_session
-- a person has logged out
UPDATE sessions SET ended_at = :now WHERE hash = :hash AND ended_at IS NULL;

-- name: person_by_session
-- whom a live session belongs to
SELECT p.id, p.org_id, p.role, p.name, s.expires_at
FROM sessions s JOIN persons p ON p.id = s.person_id
WHERE s.hash = :hash AND s.ended_at IS NULL;

-- name: spent_logins
-- links that expired before a time, in order of their hashes
SELECT hash FROM logins WHERE hash > :hash AND expires_at < :before ORDER BY hash LIMIT :count;

-- name: forget_login
-- a link that opens nothing any more
DELETE FROM logins WHERE hash = :hash;

-- name: spent_sessions
-- sessions that ended or expired before a time, in order of their hashes
SELECT hash FROM sessions
WHERE hash > :hash AND (expires_at < :before OR ended_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_session
-- a session that opens nothing any more
DELETE FROM sessions WHERE hash = :hash;

-- name: spent_person_tokens
-- tokens that expired or were revoked before a time, in order of their hashes
SELECT hash FROM person_tokens
WHERE hash > :hash AND (expires_at < :before OR revoked_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_person_token
-- a token that opens nothing any more
DELETE FROM person_tokens WHERE hash = :hash;

-- name: spent_workspace_tokens
-- tokens that were revoked before a time, in order of their hashes
SELECT hash FROM workspace_tokens WHERE hash > :hash AND revoked_at < :before ORDER BY hash LIMIT :count;

-- name: forget_workspace_token
-- a token that opens nothing any more
DELETE FROM workspace_tokens WHERE hash = :hash;
