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
