"""Mistakes of a server that several proofs of a crowd must see."""

from proofs.harness.controls import Control

MESSAGE_AGAIN = Control(
    name="a repeated messageId is not recognised",
    file="edges/messages.py",
    line="dedupe_key = sent.message_id",
    by="dedupe_key = None",
    breaks="twice in an inbox",
)
KEY_AGAIN = Control(
    name="a repeated Idempotency-Key is not recognised",
    file="edges/messages.py",
    line="line = Line(self._parts(notice), checked_key(call, self._limits), metadata)",
    by="line = Line(self._parts(notice), None, metadata)",
    breaks="answers twice",
)
STALE_ACK = Control(
    name="an ack of an earlier attempt is taken",
    file="messages/rules.py",
    line="if attempt < handout.attempt:",
    by="if False:",
    breaks="stale acks taken",
)
POSTGRES_ANSWERS_FIRST = Control(
    name="the answer leaves 20 ms before the commit",
    file="store/postgres.py",
    line='await connection.execute("COMMIT")',
    by='[each.settle() for each in group], await asyncio.sleep(0.02), await connection.execute("COMMIT")',
    breaks="accepted but missing",
)
