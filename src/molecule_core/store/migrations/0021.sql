-- From schema 20 to 21: scopes of delegations.

-- delegations: what a delegation may do, of those that are restricted; may: JSON. open: the delegation has not ended
CREATE TABLE delegation_scopes (
    org_id TEXT NOT NULL,
    delegation_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    open BIGINT NOT NULL,
    may TEXT NOT NULL,
    PRIMARY KEY (org_id, delegation_id)
) /*sqlite: WITHOUT ROWID */;
CREATE INDEX delegation_scopes_open ON delegation_scopes (workspace_id) WHERE open = 1;
