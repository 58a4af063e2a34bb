-- Persons, tokens and invitations.

-- name: insert_person
-- insert a person
-- mirrored: nothing, a person without a token is nobody yet
INSERT INTO persons (id, org_id, name, role, created_at) VALUES (:id, :org_id, :name, :role, :created_at);

-- name: persons_of_org
-- the persons of an organisation, oldest first
SELECT id, org_id, name, role, created_at FROM persons WHERE org_id = :org_id AND removed_at IS NULL ORDER BY id;

-- name: update_person
-- update what can change about a person
-- mirrored: holder by id
UPDATE persons SET name = :name, role = :role WHERE id = :id;

-- name: remove_person
-- mark a person as removed
-- mirrored: holder by id
UPDATE persons SET removed_at = :now WHERE id = :id;

-- name: insert_person_token
-- insert a person token, hashed
-- mirrored: nothing, a token that is not known is looked up
INSERT INTO person_tokens (hash, hint, person_id, created_at, expires_at)
VALUES (:hash, :hint, :person_id, :created_at, :expires_at);

-- name: insert_workspace_token
-- insert a workspace token, hashed
-- mirrored: nothing, a token that is not known is looked up
INSERT INTO workspace_tokens (hash, hint, org_id, workspace_id, created_at)
VALUES (:hash, :hint, :org_id, :workspace_id, :created_at);

-- name: person_by_token
-- the person that a live token belongs to
SELECT p.id, p.org_id, p.role, p.name, t.expires_at
FROM person_tokens t JOIN persons p ON p.id = t.person_id
WHERE t.hash = :hash AND t.revoked_at IS NULL AND p.removed_at IS NULL;

-- name: workspace_by_token
-- the workspace that a live token belongs to, and when the token expires
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
-- revoke a workspace token at once
-- mirrored: credential by hash
UPDATE workspace_tokens SET revoked_at = :now WHERE hash = :hash;

-- name: end_workspace_token
-- set the time at which a workspace token expires
-- mirrored: credential by hash
UPDATE workspace_tokens SET expires_at = :ends_at WHERE hash = :hash;

-- name: revoke_person_token
-- revoke a person token at once
-- mirrored: credential by hash
UPDATE person_tokens SET revoked_at = :now WHERE hash = :hash;

-- name: insert_push_secret
-- insert the current secret of a workspace's pushes
INSERT INTO push_secrets (hash, org_id, workspace_id, secret, created_at)
VALUES (:hash, :org_id, :workspace_id, :secret, :created_at);

-- name: push_secrets
-- the valid secrets of a workspace's pushes, the current one first
SELECT hash, secret, ends_at FROM push_secrets
WHERE workspace_id = :workspace_id AND (ends_at IS NULL OR ends_at > :now)
ORDER BY created_at DESC, hash;

-- name: end_push_secret
-- set the time from which a secret no longer signs
UPDATE push_secrets SET ends_at = :ends_at WHERE hash = :hash;

-- name: forget_push_secrets
-- delete the secrets of a removed workspace
DELETE FROM push_secrets WHERE workspace_id = :workspace_id;

-- name: insert_invitation
-- insert an invitation, with the code of its link hashed
INSERT INTO invitations (hash, id, org_id, name, role, invited_by, created_at, expires_at)
VALUES (:hash, :id, :org_id, :name, :role, :invited_by, :created_at, :expires_at);

-- name: open_invitations
-- the open invitations of an organisation, oldest first
SELECT id, org_id, name, role, invited_by, created_at, expires_at FROM invitations
WHERE org_id = :org_id AND ended_at IS NULL AND expires_at > :now
ORDER BY id;

-- name: invitation_by_hash
-- an invitation by its code, and when it was used or withdrawn
SELECT id, org_id, name, role, invited_by, created_at, expires_at, ended_at FROM invitations WHERE hash = :hash;

-- name: end_invitation
-- end an invitation that was used or withdrawn
UPDATE invitations SET ended_at = :now WHERE id = :id;

-- name: end_invitations_by
-- end the open invitations of a person who may not invite any more
UPDATE invitations SET ended_at = :now WHERE org_id = :org_id AND invited_by = :person_id AND ended_at IS NULL;

-- name: insert_login
-- insert a single-use login link, hashed
INSERT INTO logins (hash, person_id, created_at, expires_at) VALUES (:hash, :person_id, :created_at, :expires_at);

-- name: login_by_hash
-- the person of a login link, when the link expires, and when it was used
SELECT p.id, p.org_id, p.name, p.role, p.created_at, l.expires_at, l.used_at
FROM logins l JOIN persons p ON p.id = l.person_id WHERE l.hash = :hash AND p.removed_at IS NULL;

-- name: use_login
-- mark a login link as used
UPDATE logins SET used_at = :now WHERE hash = :hash;

-- name: insert_session
-- insert a session, with its token hashed
-- mirrored: nothing, a session that is not known is looked up
INSERT INTO sessions (hash, person_id, created_at, expires_at) VALUES (:hash, :person_id, :created_at, :expires_at);

-- name: end_session
-- end a session
-- mirrored: credential by hash
UPDATE sessions SET ended_at = :now WHERE hash = :hash AND ended_at IS NULL;

-- name: person_by_session
-- the person that a live session belongs to
SELECT p.id, p.org_id, p.role, p.name, s.expires_at
FROM sessions s JOIN persons p ON p.id = s.person_id
WHERE s.hash = :hash AND s.ended_at IS NULL AND p.removed_at IS NULL;

-- name: spent_logins
-- login links that expired before a time, by hash
SELECT hash FROM logins WHERE hash > :hash AND expires_at < :before ORDER BY hash LIMIT :count;

-- name: forget_login
-- delete a login link
DELETE FROM logins WHERE hash = :hash;

-- name: spent_sessions
-- sessions that ended or expired before a time, by hash
SELECT hash FROM sessions
WHERE hash > :hash AND (expires_at < :before OR ended_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_session
-- delete a session
-- mirrored: nothing, what it stands for ended long before
DELETE FROM sessions WHERE hash = :hash;

-- name: spent_person_tokens
-- person tokens that expired or were revoked before a time, by hash
SELECT hash FROM person_tokens
WHERE hash > :hash AND (expires_at < :before OR revoked_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_person_token
-- delete a person token
-- mirrored: nothing, what it stands for ended long before
DELETE FROM person_tokens WHERE hash = :hash;

-- name: spent_workspace_tokens
-- workspace tokens that were revoked or expired before a time, by hash
SELECT hash FROM workspace_tokens
WHERE hash > :hash AND (revoked_at < :before OR expires_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_workspace_token
-- delete a workspace token
-- mirrored: nothing, what it stands for ended long before
DELETE FROM workspace_tokens WHERE hash = :hash;

-- name: spent_invitations
-- invitations that were used, withdrawn or expired before a time, by hash
SELECT hash FROM invitations
WHERE hash > :hash AND (expires_at < :before OR ended_at < :before) ORDER BY hash LIMIT :count;

-- name: forget_invitation
-- delete an invitation
DELETE FROM invitations WHERE hash = :hash;

-- name: spent_push_secrets
-- secrets of pushes that ended before a time, by hash
SELECT hash FROM push_secrets WHERE hash > :hash AND ends_at < :before ORDER BY hash LIMIT :count;

-- name: forget_push_secret
-- delete a secret of pushes
DELETE FROM push_secrets WHERE hash = :hash;

-- name: insert_runner_token
-- insert the token of a runner, hashed
-- mirrored: nothing, a token that is not known is looked up
INSERT INTO runner_tokens (hash, org_id, runner_id, created_at) VALUES (:hash, :org_id, :runner_id, :created_at);

-- name: runner_by_token
-- the runner that a live token belongs to
SELECT runner_id, org_id FROM runner_tokens WHERE hash = :hash AND revoked_at IS NULL;

-- name: token_of_runner
-- the hash of the live token of a runner
SELECT hash FROM runner_tokens WHERE runner_id = :runner_id AND revoked_at IS NULL;

-- name: revoke_runner_token
-- revoke the token of a runner
-- mirrored: credential by hash
UPDATE runner_tokens SET revoked_at = :now WHERE hash = :hash;

-- name: spent_runner_tokens
-- tokens of runners that were revoked before a time, by hash
SELECT hash FROM runner_tokens WHERE hash > :hash AND revoked_at < :before ORDER BY hash LIMIT :count;

-- name: forget_runner_token
-- delete the token of a runner
-- mirrored: nothing, it ended long before
DELETE FROM runner_tokens WHERE hash = :hash;
