-- From schema 11 to 12: OAuth clients of the MCP endpoint.

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
