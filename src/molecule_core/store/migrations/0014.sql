-- From schema 13 to 14: published A2A cards.

-- workspaces: whether the A2A card can be read without a credential
ALTER TABLE workspaces ADD COLUMN a2a_published BIGINT NOT NULL DEFAULT 0;
