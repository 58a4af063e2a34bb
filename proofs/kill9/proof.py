"""`prove kill9`: the server is killed at random moments under load, and nothing that it accepted suffers.

Eight senders, eight agents on four inboxes, four watchers; four givers of tasks and four agents that do them
(givers.py, doers.py). Every call is repeated under its own id until it has a 2xx.
Half of the kills are preceded by the death of an agent. At the end the store is judged against what the people saw.
"""

import asyncio

from proofs.crew.book import Book
from proofs.crew.company import Company
from proofs.crew.givers import Givers
from proofs.crew.judging import STALL_SECONDS, judge_all, patience
from proofs.crew.mistakes import KEY_AGAIN, MESSAGE_AGAIN
from proofs.harness.controls import Control
from proofs.harness.serving import ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

SENDERS, AGENTS, INBOXES = 8, 8, 4
# The kinds of progress after which a kill may come; "listening" is a kill at once after a start.
_MOMENTS = ("begun", "accepted", "handed", "answered", "acked", "listening")
_MOST_PROGRESS = 120


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
        await asyncio.gather(company.finish(STALL_SECONDS), givers.finish(patience(setting)))
        code = await server.stop()
    finally:
        await server.kill()
        await givers.doers.close()
    if code:
        book.fault("unclean ends", f"exit code {code}")
    return await judge_all(setting, book, givers, server)


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
    if kind != "listening" and not await book.progress.after(kind, count, seconds=STALL_SECONDS):
        book.fault("stalls", f"no {count} more {kind}")


# -- the mistakes it must see ------------------------------------------------------------------------------------------

_ANYWHERE = (
    MESSAGE_AGAIN,
    KEY_AGAIN,
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
    faults=("kills", "agent kills"),
)
