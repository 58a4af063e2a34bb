"""PostgreSQL made difficult: commits that overlap and come late, and the column that a serial would be."""

import asyncpg

from proofs.harness.settings import Setting

# Up to 4 ms, one time in eight 25 ms more, once in a transaction, when it commits. Which transaction waits how long
# follows from the seed. (A number that becomes visible so late is what a reader of a serial column never sees.)
_LATE = """
CREATE FUNCTION proof_pause() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE chance int := hashint8(txid_current() # %d);
BEGIN
    IF current_setting('proof.paused', true) IS DISTINCT FROM txid_current()::text THEN
        PERFORM set_config('proof.paused', txid_current()::text, true);
        PERFORM pg_sleep((chance & 1023) / 1024.0 * 0.004 + CASE WHEN chance & 7168 = 0 THEN 0.025 ELSE 0 END);
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER proof_pause AFTER INSERT ON events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION proof_pause();
"""
_SERIAL = """
CREATE SEQUENCE proof_numbers;
CREATE FUNCTION proof_number() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    NEW.seq := nextval('proof_numbers');
    RETURN NEW;
END $$;
CREATE TRIGGER proof_number BEFORE INSERT ON events FOR EACH ROW EXECUTE FUNCTION proof_number();
"""


async def prepare_database(setting: Setting) -> None:
    """Makes the commits of a new database come late; if the setting is serial, a sequence numbers its journal."""
    connection = await asyncpg.connect(setting.database)
    try:
        await connection.execute(_LATE % (setting.seed & 0x7FFFFFFF))
        if setting.serial:
            await connection.execute(_SERIAL)
    finally:
        await connection.close()
