-- From schema 16 to 17: push notifications of A2A agents of others.

ALTER TABLE a2a_agents ADD COLUMN notification_key TEXT NOT NULL DEFAULT '';
ALTER TABLE a2a_tasks ADD COLUMN notified BIGINT NOT NULL DEFAULT 0;
ALTER TABLE a2a_tasks ADD COLUMN leased_until BIGINT NOT NULL DEFAULT 0;
