"""`prove kill9`: the server is killed at random moments under load, and nothing that it accepted suffers.

Eight senders, eight agents on four inboxes, four watchers; four givers of tasks and four agents that do them
(givers.py, doers.py). Every call is repeated under its own id until it has a 2xx.
Half of the kills are preceded by the death of an agent. At the end the store is judged against what the people saw.
"""

import asyncio
import json
from collections import Counter

from proofs.book import Book
from proofs.company import Company, answer_to
from proofs.controls import Control
from proofs.ends import judge_works, read_given
from proofs.givers import Givers
from proofs.ledger import Ledger, Row, read_ledger
from proofs.serving import Place, ServerProcess
from proofs.settings import Proof, Setting
from proofs.verdicts import Verdict, descents, gaps

SENDERS, AGENTS, INBOXES = 8, 8, 4
# The kinds of progress after which a kill may come; "listening" is a kill at once after a start.
_MOMENTS = ("begun", "accepted", "handed", "answered", "acked", "listening")
_MOST_PROGRESS = 120
# Who gets no further within it is stuck, also on a busy machine.
_STALL_SECONDS = 60.0
# What a control has broken stays so: nobody waits for it as long.
_CONTROL_SECONDS = 15.0


async def run(setting: Setting) -> Verdict:
    """`setting.size` kills, then the judgement."""
    server, book = ServerProcess(setting), Book()
    company = Company(setting, server, book)
    givers = Givers(setting, server, company, book)
    try:
        await server.start()
        await company.found(inboxes=INBOXES, senders=SENDERS)
        await givers.found()
        company.begin(agents=AGENTS)
        givers.begin()
        await _disturb(setting, server, company, givers, book)
        await asyncio.gather(company.finish(_STALL_SECONDS), givers.finish(patience(setting)))
        code = await server.stop()
    finally:
        await server.kill()
        await givers.doers.close()
    if code:
        book.fault("unclean ends", f"exit code {code}")
    return await judge_all(setting, book, givers, server)


def patience(setting: Setting) -> float:
    """How long givers wait in the end for one more result."""
    return _STALL_SECONDS if setting.package is None else _CONTROL_SECONDS


async def judge_all(setting: Setting, book: Book, givers: Givers, server: Place) -> Verdict:
    """The judgement of messages and of delegations."""
    ledger = await read_ledger(setting)
    verdict = judge(book, server, ledger)
    verdict.figures |= givers.figures()
    verdict.zeros |= judge_works(givers.works, book, await read_given(setting), ledger)
    verdict.notes += givers.works.hands.notes
    return verdict


async def _disturb(setting: Setting, server: ServerProcess, company: Company, givers: Givers, book: Book) -> None:
    """Kills and starts the server, each time after a random amount of random progress."""
    dice = setting.dice("kills")
    for number in range(setting.size):
        if dice.random() < 0.5:
            await _moment(book, "begun", dice.randint(1, _MOST_PROGRESS))
            await company.kill_agent(dice.randrange(AGENTS), number + 1)
            await givers.kill_doer(dice.randrange(1 << 16))
        await _moment(book, dice.choice(_MOMENTS), dice.randint(1, _MOST_PROGRESS))
        await server.kill()
        await server.start()


async def _moment(book: Book, kind: str, count: int) -> None:
    """Waits until a kind of progress has happened so often; a stall is a fault, and the run goes on."""
    if kind != "listening" and not await book.progress.after(kind, count, seconds=_STALL_SECONDS):
        book.fault("stalls", f"no {count} more {kind}")


# -- the judgement -----------------------------------------------------------------------------------------------------


def judge(book: Book, server: Place, ledger: Ledger) -> Verdict:
    """What people saw against what the store holds: every way in which they may disagree is counted."""
    inbound = [row for row in ledger.rows if row.inbound_no is not None and row.workspace_id in book.watched]
    logs = ledger.logs()
    zeros = {
        **_judge_messages(book, inbound),
        "per-sender order broken": _order_broken(book, inbound),
        "never handed over": len(set(book.accepted) - {id_ for id_, _ in book.handed}),
        "handed twice under one attempt": book.faults["handed twice under one attempt"],
        "handed again after its ack": book.faults["handed again after its ack"],
        "handed on while it was held": book.faults["handed on while it was held"],
        "unhandled at the end": sum(not ledger.is_handled(row) for row in inbound),
        **_judge_answers(book, ledger),
        "two receipts": book.faults["two receipts"],
        "log numbers missing": sum(gaps([row.seq for row in log]) for log in logs.values()),
        "inbound numbers missing": sum(gaps(_inbound_numbers(log)) for log in logs.values()),
        "journal numbers missing": sum(gaps([fact.seq for fact in facts]) for facts in ledger.journals().values()),
        "rows without exactly one event": _events_wrong(ledger),
        "watchers skipped or saw twice": sum(_watched_wrong(book, id_, logs.get(id_, [])) for id_ in book.watched),
        "integrity faults": len(ledger.faults),
        "refused": book.faults["refused"],
        "stalls": book.faults["stalls"] + book.faults["stuck people"],
        "errors in the server's log": len(server.errors),
        "ended by itself": server.ended_by_itself + book.faults["unclean ends"],
    }
    return Verdict(_figures(book, server, inbound), zeros, [*book.notes, *server.errors[:5], *ledger.faults[:5]])


def _figures(book: Book, server: Place, inbound: list[Row]) -> dict[str, int | float | str]:
    kept = {row.id: row for row in inbound}
    cut = [message for message in book.accepted.values() if message.cut_at]
    on_disk = sum(kept[m.receipt or ""].created_at < m.cut_at for m in cut if m.receipt in kept)
    return {
        "kills": server.kills,
        "agent kills": book.figures["agent kills"],
        "messages": len(book.accepted),
        "calls cut": book.figures["calls cut"],
        "messages cut off but on disk": on_disk,
        "sent again": book.figures["sent again"],
        "redelivered": book.figures["redelivered"],
        "late acks refused": book.figures["late acks refused"],
        "starts refused": server.refused_starts,
        "answered 503": book.figures["answered 503"],
    }


def _judge_messages(book: Book, inbound: list[Row]) -> dict[str, int]:
    """Each accepted message stands in the inbox it was sent to, once, as it was sent; nothing else stands there."""
    kept = {row.id: row for row in inbound}
    entries = Counter(_message_id(row) for row in inbound)
    lost = altered = 0
    for activity_id, message in book.accepted.items():
        row = kept.get(activity_id)
        lost += row is None
        altered += row is not None and (row.workspace_id, _text_of(row)) != (message.inbox, message.text)
    return {
        "accepted but missing": lost,
        "twice in an inbox": sum(count - 1 for count in entries.values()),
        "altered": altered,
        "never sent": sum(id_ not in book.messages for id_ in entries),
    }


def _order_broken(book: Book, inbound: list[Row]) -> int:
    """How often, in one inbox, a message stands before an earlier one of the same sender."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for row in inbound:
        message = book.messages.get(_message_id(row))
        if message is not None:
            numbers.setdefault((row.workspace_id, message.sender), []).append(message.number)
    return sum(descents(each) for each in numbers.values())


def _judge_answers(book: Book, ledger: Ledger) -> dict[str, int]:
    """Each accepted message has exactly one answer in the log of its agent."""
    texts = Counter(_text_of(row) for row in ledger.rows if row.method == "notify")
    return {
        "answers missing": sum(texts[answer_to(id_)] == 0 for id_ in book.accepted),
        "answers twice": sum(count - 1 for count in texts.values()),
    }


def _inbound_numbers(log: list[Row]) -> list[int]:
    """In the order of the log; a descent counts as a gap, since the numbers must rise together."""
    numbers = [row.inbound_no for row in log if row.inbound_no is not None]
    return numbers if descents(numbers) == 0 else [*numbers, *numbers[-1:]]


def _events_wrong(ledger: Ledger) -> int:
    told = Counter(fact.entity_id for fact in ledger.facts if fact.entity_kind == "activity")
    rows = {row.id for row in ledger.rows}
    return sum(told[id_] != 1 for id_ in rows) + len(set(told) - rows)


def _watched_wrong(book: Book, workspace_id: str, log: list[Row]) -> int:
    """From the first row it saw, a watcher saw every row of the log, once, in order."""
    seen = book.watched[workspace_id]
    first = seen[0][0] if seen else 1
    wanted = [(row.seq, row.id) for row in log if row.seq >= first]
    return len(set(wanted) ^ set(seen)) + abs(len(seen) - len(set(seen))) + descents([seq for seq, _ in seen])


def _text_of(row: Row) -> str:
    text: str = json.loads(row.request_body or "")["params"]["message"]["parts"][0]["text"]
    return text


def _message_id(row: Row) -> str:
    return _text_of(row).partition(" ")[0]


# -- the mistakes it must see ------------------------------------------------------------------------------------------

_ANYWHERE = (
    Control(
        name="a repeated messageId is not recognised",
        file="edges/messages.py",
        line="dedupe_key = sent.message_id",
        by="dedupe_key = None",
        breaks="twice in an inbox",
    ),
    Control(
        name="a repeated Idempotency-Key is not recognised",
        file="edges/messages.py",
        line="line = Line(self._parts(notice), checked_key(call, self._limits), metadata)",
        by="line = Line(self._parts(notice), None, metadata)",
        breaks="answers twice",
    ),
    Control(
        name="a claim is not noted",
        file="messages/handing.py",
        line="return WriteSet(rows, writes, told, rings, owed.then, facts=[*owed.facts])",
        by="return WriteSet(rows)",
        breaks="handed twice under one attempt",
    ),
    Control(
        name="a lease never ends",
        file="messages/queries.sql",
        line="AND (h.seq IS NULL OR (h.acked_at IS NULL AND h.lease_until <= :now))",
        by="AND h.seq IS NULL",
        breaks="unhandled at the end",
    ),
    Control(
        name="an ack is answered and not written",
        file="messages/settling.py",
        line="return WriteSet(floor.acked_seq, writes, told, (org_key(seat.org_id), *owed.rings), owed.then)",
        by="return WriteSet(floor.acked_seq)",
        breaks="handed again after its ack",
    ),
)
_OF_DELEGATIONS = (
    Control(
        name="nobody hears the answer to a delegation",
        file="server.py",
        line='follow(facts.Answered, "delegations.answered", hearing.answered)',
        by="pass",
        breaks="delegations stuck",
    ),
    Control(
        name="the key of a delegation is not looked at",
        file="delegations/beginning.py",
        line="known = self._known(asked, keyed, hashed, now) or (Delegation.of(twins[0]) if twins else None)",
        by="known = Delegation.of(twins[0]) if twins else None",
        breaks="hits with another id",
    ),
    Control(
        name="a deadline that falls due is forgotten",
        file="delegations/writer.py",
        line="if row.deadline_at <= now:",
        by="if False:",
        breaks="delegations stuck",
    ),
    Control(
        name="a result that was taken stays in the inbox",
        file="messages/results.py",
        line='return "here", (yield from self._settled(workspace, inbox, held, seq, None))',
        by='return "here", Facts([], [])',
        breaks="taken and left in the inbox",
    ),
)
_ANSWER_FIRST = "the answer leaves 20 ms before the commit"
_SQLITE_ANSWERS_FIRST = Control(
    name=_ANSWER_FIRST,
    file="store/sqlite.py",
    line="await self._to_disk()",
    by="[each.settle() for each in group], await asyncio.sleep(0.02), await self._to_disk()",
    breaks="accepted but missing",
)
_POSTGRES_ANSWERS_FIRST = Control(
    name=_ANSWER_FIRST,
    file="store/postgres.py",
    line='await connection.execute("COMMIT")',
    by='[each.settle() for each in group], await asyncio.sleep(0.02), await connection.execute("COMMIT")',
    breaks="accepted but missing",
)

PROOF = Proof(
    name="kill9",
    shows="Eight senders, eight agents on four inboxes and four watchers use a real `molecule serve` over its "
    "socket, and so do four givers of tasks, each by another entrance (HTTP with and without waiting, "
    "`message/send`, MCP), and four agents that do them, half of which are pushed to; the server is killed "
    "with SIGKILL at random moments (after the k-th accepted message, hand-over, answer, ack, begun call, or "
    "at once after a start) and started again, agents die too, and every call is repeated under its own id "
    "until it has a 2xx. Nothing that was accepted is missing, doubled, altered or out of its sender's order; "
    "each message is handed over, under each attempt once, and never again after its ack; each has one answer;"
    " log, inbox and journal count without a gap; whoever follows a cursor sees each row once. Each task that "
    "was given is one delegation under every repetition of its key, begins before all else that is told of it "
    "and ends once, completed with what its agent said, or failed by its deadline if its agent never comes; "
    "its giver has that text by one result in its inbox, or by the answer that it waited for and then not by "
    "the inbox.",
    engines=("sqlite",),
    unit="kills",
    sizes={"sqlite": 200, "postgres": 200},
    control_sizes={"sqlite": 6, "postgres": 6},
    controls={
        "sqlite": (_SQLITE_ANSWERS_FIRST, *_ANYWHERE, *_OF_DELEGATIONS),
        "postgres": (_POSTGRES_ANSWERS_FIRST, *_ANYWHERE, *_OF_DELEGATIONS),
    },
    run=run,
)
