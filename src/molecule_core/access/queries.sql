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

-- name: insert_oauth_client
-- insert a registered OAuth client
INSERT INTO oauth_clients (id, org_id, name, redirect_uris, created_at)
VALUES (:id, :org_id, :name, :redirect_uris, :created_at);

-- name: oauth_client
-- a registered OAuth client by its id
SELECT id, org_id, name, redirect_uris, created_at FROM oauth_clients WHERE id = :id;

-- name: oauth_clients_of_org
-- the OAuth clients of an organisation, oldest first; of an empty one, those that registered themselves
SELECT id, org_id, name, redirect_uris, created_at FROM oauth_clients
WHERE org_id = :org_id ORDER BY created_at, id LIMIT :count;

-- name: use_oauth_client
-- record that a person has granted an OAuth client something
UPDATE oauth_clients SET used_at = :now WHERE id = :id;

-- name: delete_oauth_client
-- delete an OAuth client
DELETE FROM oauth_clients WHERE id = :id;

-- name: forget_unused_oauth_clients
-- delete OAuth clients that registered themselves before a time and were never used
DELETE FROM oauth_clients WHERE org_id = '' AND created_at < :before AND used_at IS NULL;

-- name: insert_oauth_grant
-- insert a grant that its client has not used yet
-- mirrored: nothing, a grant without a token is not cached
INSERT INTO oauth_grants (
    id, org_id, workspace_id, person_id, client_id, client_name, resource, scope, created_at, expires_at
) VALUES (
    :id, :org_id, :workspace_id, :person_id, :client_id, :client_name, :resource, :scope, :created_at, :expires_at
);

-- name: live_oauth_grants_of_workspace
-- the live grants of a workspace, oldest first
SELECT id, org_id, workspace_id, person_id, client_id, client_name, scope, created_at, expires_at, started_at
FROM oauth_grants
WHERE workspace_id = :workspace_id AND started_at IS NOT NULL AND ended_at IS NULL AND expires_at > :now
ORDER BY created_at, id;

-- name: live_oauth_grants_of_person
-- the live grants of a person, also those that their clients have not used yet
SELECT id, org_id, workspace_id, person_id, client_id, client_name, scope, created_at, expires_at, started_at
FROM oauth_grants
WHERE person_id = :person_id AND ended_at IS NULL AND expires_at > :now
ORDER BY created_at, id;

-- name: live_oauth_grants_of_client
-- the live grants of a client, also those that it has not used yet
SELECT id, org_id, workspace_id, person_id, client_id, client_name, scope, created_at, expires_at, started_at
FROM oauth_grants
WHERE client_id = :client_id AND ended_at IS NULL AND expires_at > :now
ORDER BY created_at, id;

-- name: oauth_grant
-- a live grant by its id
SELECT id, org_id, workspace_id, person_id, client_id, client_name, scope, created_at, expires_at, started_at
FROM oauth_grants
WHERE id = :id AND ended_at IS NULL AND expires_at > :now;

-- name: start_oauth_grant
-- record that a client has exchanged the code of its grant
-- mirrored: nothing, a token that is not known is looked up
UPDATE oauth_grants SET started_at = :now WHERE id = :id;

-- name: end_oauth_grant
-- end a grant; its tokens are ended by statements of their own
-- mirrored: nothing, its tokens name themselves
UPDATE oauth_grants SET ended_at = :now WHERE id = :id AND ended_at IS NULL;

-- name: end_oauth_grants_of_workspace
-- end the grants of a removed workspace
-- mirrored: holder by workspace_id
UPDATE oauth_grants SET ended_at = :now WHERE workspace_id = :workspace_id AND ended_at IS NULL;

-- name: insert_oauth_code
-- insert the code of a grant, hashed
INSERT INTO oauth_codes (hash, grant_id, redirect_uri, challenge, expires_at)
VALUES (:hash, :grant_id, :redirect_uri, :challenge, :expires_at);

-- name: oauth_code_by_hash
-- a code with what its exchange must name
SELECT c.grant_id, g.org_id, g.client_id, c.redirect_uri, c.challenge, g.resource, c.expires_at, c.used_at
FROM oauth_codes c JOIN oauth_grants g ON g.id = c.grant_id WHERE c.hash = :hash;

-- name: use_oauth_code
-- mark a code as used
UPDATE oauth_codes SET used_at = :now WHERE hash = :hash;

-- name: insert_oauth_token
-- insert a token of a grant, hashed
-- mirrored: nothing, a token that is not known is looked up
INSERT INTO oauth_tokens (hash, grant_id, kind, created_at, expires_at)
VALUES (:hash, :grant_id, :kind, :created_at, :expires_at);

-- name: oauth_token_by_hash
-- a token with its grant
SELECT t.grant_id, g.org_id, g.client_id, g.resource, t.kind, t.expires_at, t.ended_at
FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id WHERE t.hash = :hash;

-- name: live_oauth_tokens
-- the live tokens of a grant, the newest first
SELECT hash, kind FROM oauth_tokens
WHERE grant_id = :grant_id AND ended_at IS NULL AND expires_at > :now
ORDER BY created_at DESC, hash;

-- name: end_oauth_token
-- end a token
-- mirrored: credential by hash
UPDATE oauth_tokens SET ended_at = :now WHERE hash = :hash;

-- name: workspace_by_oauth_token
-- what a live access token is for, and until when; the person who granted it must still be an operator
SELECT g.workspace_id, g.org_id, t.expires_at, g.resource, g.person_id, g.id, g.scope
FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id JOIN persons p ON p.id = g.person_id
WHERE t.hash = :hash AND t.kind = 'access' AND t.ended_at IS NULL AND g.ended_at IS NULL
    AND p.removed_at IS NULL AND p.role <> 'viewer';

-- name: spent_oauth_codes
-- codes that expired before a time, by hash
SELECT hash FROM oauth_codes WHERE hash > :hash AND expires_at < :before ORDER BY hash LIMIT :count;

-- name: forget_oauth_code
-- delete a code
DELETE FROM oauth_codes WHERE hash = :hash;

-- name: spent_oauth_tokens
-- tokens of clients that ended before a time, by hash, but refresh tokens of live grants: a second use is noticed
SELECT t.hash FROM oauth_tokens t JOIN oauth_grants g ON g.id = t.grant_id
WHERE t.hash > :hash AND (
    g.ended_at < :before OR g.expires_at < :before OR (t.kind = 'access' AND (t.expires_at < :before OR t.ended_at < :before))
)
ORDER BY t.hash LIMIT :count;

-- name: forget_oauth_token
-- delete a token of a client
-- mirrored: nothing, it ended long before
DELETE FROM oauth_tokens WHERE hash = :hash;

-- name: spent_oauth_grants
-- grants that ended or expired before a time and have no token or code any more, by id
SELECT g.id FROM oauth_grants g
WHERE g.id > :hash AND (g.ended_at < :before OR g.expires_at < :before)
    AND NOT EXISTS (SELECT 1 FROM oauth_tokens t WHERE t.grant_id = g.id)
ORDER BY g.id LIMIT :count;

-- name: forget_oauth_grant
-- delete a grant
-- mirrored: nothing, it ended long before
DELETE FROM oauth_grants WHERE id = :hash;
