-- Persons, tokens and invitations.

-- name: insert_person
-- a new person
-- mirrored: nothing, a person without a token is nobody yet
INSERT INTO persons (id, org_id, name, role, created_at) VALUES (:id, :org_id, :name, :role, :created_at);

-- name: persons_of_org
-- the persons of an organisation, oldest first
SELECT id, org_id, name, role, created_at FROM persons WHERE org_id = :org_id AND removed_at IS NULL ORDER BY id;

-- name: update_person
-- what can change about a person
-- mirrored: holder by id
UPDATE persons SET name = :name, role = :role WHERE id = :id;

-- name: remove_person
-- a person belongs to the organisation no more
-- mirrored: holder by id
UPDATE persons SET removed_at = :now WHERE id = :id;

-- name: insert_person_token
-- a new token of a person, hashed
-- mirrored: nothing, a token that is not known is looked up
INSERT INTO person_tokens (hash, hint, person_id, created_at, expires_at)
VALUES (:hash, :hint, :person_id, :created_at, :expires_at);

-- name: insert_workspace_token
-- a new token of a workspace, hashed
-- mirrored: nothing, a token that is not known is looked up
INSERT INTO workspace_tokens (hash, hint, org_id, workspace_id, created_at)
VALUES (:hash, :hint, :org_id, :workspace_id, :created_at);

-- name: person_by_token
-- whom a live person token belongs to
SELECT p.id, p.org_id, p.role, p.name, t.expires_at
FROM person_tokens t JOIN persons p ON p.id = t.person_id
WHERE t.hash = :hash AND t.revoked_at IS NULL AND p.removed_at IS NULL;

-- name: workspace_by_token
-- which workspace a live token belongs to, and how long
SELECT workspace_id, org_id, expires_at FROM workspace_tokens WHERE hash = :hash AND revoked_at IS NULL;

-- name: tokens_of_workspace
-- the live tokens of a workspace, oldest first
SELECT hash, hint, created_at, expires_at FROM workspace_tokens
WHERE workspace_id = :workspace_id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
ORDER BY created_at, hash;

-- name: tokens_of_person
-- the live tokens of a person, oldest first
SELECT hash, hint, created_at, expires_at FROM person_tokens
WHERE person_id = :person_id AND revoked_at IS NULL AND expires_at > :now
ORDER BY created_at, hash;

-- name: revoke_workspace_token
-- a token of a workspace opens nothing any more
-- mirrored: credential by hash
UPDATE workspace_tokens SET revoked_at = :now WHERE hash = :hash;

-- name: end_workspace_token
-- a token of a workspace opens nothing from a time on
-- mirrored: credential by hash
UPDATE workspace_tokens SET expires_at = :ends_at WHERE hash = :hash;

-- name: revoke_person_token
-- a token of a person opens nothing any more
-- mirrored: credential by hash
UPDATE person_tokens SET revoked_at = :now WHERE hash = :hash;

-- name: insert_invitation
-- somebody may come in, the link's code hashed
INSERT INTO invitations (hash, id, org_id, name, role, invited_by, created_at, expires_at)
VALUES (:hash, :id, :org_id, :name, :role, :invited_by, :created_at, :expires_at);

-- name: open_invitations
-- the invitations of an organisation that still let somebody in, oldest first
SELECT id, org_id, name, role, invited_by, created_at, expires_at FROM invitations
WHERE org_id = :org_id AND ended_at IS NULL AND expires_at > :now
ORDER BY id;

-- name: invitation_by_hash
-- whom a link invites, until when, and whether it was used or withdrawn
SELECT id, org_id, name, role, invited_by, created_at, expires_at, ended_at FROM invitations WHERE hash = :hash;

-- name: end_invitation
-- an invitation was used or withdrawn
UPDATE invitations SET ended_at = :now WHERE id = :id;

-- name: end_invitations_by
-- what a person who may not invite any more has left open
UPDATE invitations SET ended_at = :now WHERE org_id = :org_id AND invited_by = :person_id AND ended_at IS NULL;

-- name: insert_login
-- a link that lets a person in once, hashed
INSERT INTO logins (hash, person_id, created_at, expires_at) VALUES (:hash, :person_id, :created_at, :expires_at);

-- name: login_by_hash
-- whom a link lets in, until when, and whether it was used
SELECT p.id, p.org_id, p.name, p.role, p.created_at, l.expires_at, l.used_at
FROM logins l JOIN persons p ON p.id = l.person_id WHERE l.hash = :hash AND p.removed_at IS NULL;

-- name: use_login
-- a link has let its person in
UPDATE logins SET used_at = :now WHERE hash = :hash;

-- name: insert_session
-- a person is logged in, the session's token hashed
-- mirrored: nothing, a session that is not known is looked up
INSERT INTO sessions (hash, person_id, created_at, expires_at) VALUES (:hash, :person_id, :created_at, :expires_at);

-- name: end_session
-- a person has logged out
-- mirrored: credential by hash
UPDATE sessions SET ended_at = :now WHERE hash = :hash AND ended_at IS NULL;

-- name: person_by_session
-- whom a live session belongs to
SELECT p.id, p.org_id, p.role, p.name, s.expires_at
FROM sessions s JOIN persons p ON p.id = s.person_id
WHERE s.hash = :hash AND s.ended_at IS NULL AND p.removed_at IS NULL;

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
-- mirrored: nothing, what it stands for ended long before
DELETE FROM sessions WHERE hash = :hash;

-- name: spent_person_tokens
-- tokens that expired or were revoked before a time, in order of their hashes
SELECT hash FROM person_tokens
WHERE hash > :hash AND (expires_at < :before OR revoked_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_person_token
-- a token that opens nothing any more
-- mirrored: nothing, what it stands for ended long before
DELETE FROM person_tokens WHERE hash = :hash;

-- name: spent_workspace_tokens
-- tokens that were revoked or rotated out before a time, in order of their hashes
SELECT hash FROM workspace_tokens
WHERE hash > :hash AND (revoked_at < :before OR expires_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_workspace_token
-- a token that opens nothing any more
-- mirrored: nothing, what it stands for ended long before
DELETE FROM workspace_tokens WHERE hash = :hash;

-- name: spent_invitations
-- invitations that were used, withdrawn or too old before a time, in order of their hashes
SELECT hash FROM invitations
WHERE hash > :hash AND (expires_at < :before OR ended_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_invitation
-- an invitation that lets nobody in any more
DELETE FROM invitations WHERE hash = :hash;
