"""Mistakes of a server that several proofs of a crowd must see."""

from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Swap

MESSAGE_AGAIN = Control(
    name="a repeated messageId is not recognised",
    marker="message-dedupe-key",
    change=Swap("= $", "= None"),
    breaks="twice in an inbox",
)
KEY_AGAIN = Control(
    name="a repeated Idempotency-Key is not recognised",
    marker="notice-idempotency-key",
    change=Swap(", $($, $),", ", None,"),
    breaks="answers twice",
)
STALE_ACK = Control(
    name="an ack of an earlier attempt is taken",
    marker="stale-ack",
    change=Always(False),
    breaks="stale acks taken",
)
POSTGRES_ANSWERS_FIRST = Control(
    name="the answer leaves 20 ms before the commit",
    marker="postgres-commit",
    change=Swap("await", "[each.resolve() for each in group], await asyncio.sleep(0.02), await"),
    breaks="accepted but missing",
)
