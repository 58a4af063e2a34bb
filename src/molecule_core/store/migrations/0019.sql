-- From schema 18 to 19: signatures of the cards of A2A agents of others.

ALTER TABLE a2a_agents ADD COLUMN card_keys TEXT;
ALTER TABLE a2a_agents ADD COLUMN signature TEXT NOT NULL DEFAULT 'none';
