"""The requirements manifest: one id for each promise of the specs, tied to the tests that show it, both ways.

A test names what it shows: `@requirement("M16")`. `tests/shape/test_requirements.py` holds both ends together: a
promise of this version without a test fails, and so does a test that names no promise. `LATER` are promises of parts
that do not exist yet; a test that names one fails too, so that the table is moved when the part comes.
"""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

NOW = {
    "P1": "Nothing accepted is lost: a 2xx means it is on disk, whatever is killed when.",
    "P2": "Nothing is told twice: same message id, one effect.",
    "P3": "No reply goes astray: sender and route come from the credential.",
    "P6": "Nobody gets in: no fail-open mode, also on a fresh install.",
    "M1": "A workspace has id, org, name, role, runtime, parent, delivery mode, card, status and times.",
    "M2": "Silent for 90 s is offline (external: awaiting_agent); a heartbeat heals; errors degrade; one sweep.",
    "M3": "Who may talk: itself, parent, children, siblings; foreign ids answer as unknown; removed 410 or 404.",
    "M5": "A taken name gets a number; control, bidi and tag characters are refused; 120 characters.",
    "M7": "Three kinds of credential, hashed, with prefix and checksum; each route declares which it takes.",
    "M8": "The caller is what the credential proves; a claim that disagrees, or a reserved prefix, is refused.",
    "M9": "Without credentials only what is public answers; register makes no workspace and gives no token.",
    "M10": "Messages come in through message/send and notify, through one writer.",
    "M11": "A message is an a2a_receive row with a kind; identity in a body counts only from the session.",
    "M12": "Entry is regular: type or kind, missing members, content; an A2A version is held to.",
    "M13": "(sender, messageId) is unique while kept: same content the first answer, other content 409.",
    "M14": "The answer leaves after the commit; the queued answer is JSON-RPC and has the older keys.",
    "M15": "Refusals speak JSON-RPC once it was understood; limits are settings; hostile JSON is refused.",
    "M16": "One gap-free seq per workspace, given in the inserting transaction; no cursor ever skips.",
    "M17": "activity and activities: order, long-poll, filters, includes, 410 for unknown cursors.",
    "M18": "claim hands out with lease and attempt; unacked comes again; a late ack is refused; old cursors ack.",
    "M19": "What a workspace did itself never comes back as somebody's turn.",
    "M31": "One append-only journal and sequence per org; the event is in the transaction of its change.",
    "M33": "Readers are woken with 'look again', never with data.",
    "M35": "Chat history is paged both ways.",
    "W1": "A client that knows only the original's wire works unchanged.",
    "W2": "Push registration answers 422 and says that polling works.",
    "S8": "Other organisations' ids answer byte for byte like unknown ids.",
    "S13": "A mutated cursor shows no foreign row.",
    "S14": "Huge, deep, slow or malformed input gets a 4xx that says what to do; memory stays flat.",
    "S18": "A host name that is not ours is refused.",
    "S20": "Routes x credentials answer as declared.",
    "O1": "serve, admin token, backup, restore, doctor; Ctrl-C ends cleanly; a second start goes on.",
    "O2": "Every limit is a setting with a default.",
    "O3": "Credentials stay out of logs, errors, files and process arguments.",
    "A1": "The house: imports, fences, circles, table ownership, sizes, clocks.",
    "A2": "Every named query is prepared on both engines.",
    "A3": "Every refusal and every event stands in its table and in docs/.",
    "A4": "Two commands set everything up.",
}

LATER = {
    "M4": "Re-parenting, expand, collapse.",
    "M6": "The org as a file: plan, apply, export.",
    "M20": "Retention prunes only what is old and acked.",
    "M21": "Push is poll done by the server.",
    "M24": "Streams: WebSocket and SSE with resume.",
    "M25": "Ticks for the sender.",
    "M26": "Obligations and reply handles.",
    "M30": "Lineage, hop and flood limits.",
    "M34": "old snapshot + its events == new snapshot.",
    "M36": "Memory.",
    "M37": "Broadcast.",
}


def requirement(*_ids: str) -> Callable[[F], F]:
    """Says which promises a test shows."""

    def mark(test: F) -> F:
        return test

    return mark
