"""`prove kill9`: the server is killed at random moments under load, and nothing that it accepted suffers.

Eight senders, eight agents on four inboxes, four watchers; four givers of tasks and four agents that do them
(givers.py, doers.py); those who remember, ask for leave, speak to threads, and send files (nouns.py); three agents
behind real processes of `molecule mcp` (hosts.py). Every call is repeated under its own id until it has a 2xx. Half of
the kills are preceded by the death of clients, and each second one comes with the kill of an agent's process. At the
end the store is judged against what the people saw.
"""

import asyncio

from msgspec.structs import replace

from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.serving import ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.kill9.mistakes import OF_AGENTS, OF_APPROVALS, OF_FILES, OF_MEMORY, OF_THREADS
from proofs.workload.company import Company
from proofs.workload.delegators import Givers
from proofs.workload.judge import STALL_SECONDS, judge_all, patience
from proofs.workload.mcp_hosts import Hosts
from proofs.workload.noun_users import LIMITS, Nouns
from proofs.workload.observations import Book
from proofs.workload.shared_controls import KEY_AGAIN, MESSAGE_AGAIN, POSTGRES_ANSWERS_FIRST, STALE_ACK

SENDERS, AGENTS, INBOXES = 8, 8, 4
# The kinds of progress after which a kill may come; "listening" is a kill at once after a start.
_MOMENTS = ("begun", "accepted", "handed", "answered", "acked", "listening")
_MOST_PROGRESS = 120


async def run(setting: Setting) -> Verdict:
    """`setting.size` kills, then the judgement."""
    server, book = ServerProcess(setting, LIMITS), Book()
    company = Company(setting, server, book)
    givers = Givers(setting, server, company, book)
    nouns, hosts = Nouns(setting, server, book), Hosts(setting, server, book)
    try:
        await server.start()
        await company.found(inboxes=INBOXES, senders=SENDERS)
        await givers.found()
        await nouns.found()
        await hosts.found()
        company.begin(agents=AGENTS)
        givers.begin()
        nouns.begin()
        await hosts.begin()
        await _disturb(setting, server, company, givers, nouns, hosts, book)
        seconds = patience(setting)
        await asyncio.gather(company.finish(STALL_SECONDS), *(each.finish(seconds) for each in (givers, nouns, hosts)))
        code = await server.stop()
    finally:
        await hosts.close()
        await server.kill()
        await givers.doers.close()
    if code:
        book.fault("unclean ends", f"exit code {code}")
    return await judge_all(setting, book, givers, server, nouns, hosts)


async def _disturb(
    setting: Setting, server: ServerProcess, company: Company, givers: Givers, nouns: Nouns, hosts: Hosts, book: Book
) -> None:
    """Kills and starts the server, each time after a random amount of random progress; at each second time a process
    of an agent too, before it or while there is no server."""
    dice = setting.dice("kills")
    deaths = set(dice.sample(range(setting.size), setting.size // 2))
    for number in range(setting.size):
        if number in deaths:
            await _moment(book, "begun", dice.randint(1, _MOST_PROGRESS))
            await company.kill_agent(dice.randrange(AGENTS), number + 1)
            await givers.kill_doer(dice.randrange(1 << 16))
            await nouns.kill_one(dice.randrange(1 << 16))
        turn = number // 2 if number % 2 else None
        if turn is not None and not _is_alone(turn):
            await hosts.at_work(turn)
            await hosts.kill_one(turn)
        await _moment(book, dice.choice(_MOMENTS), dice.randint(1, _MOST_PROGRESS))
        if turn is None or not _is_alone(turn):
            await server.kill()
        else:
            await hosts.at_work(turn)
            await server.kill()
            await hosts.kill_one(turn)
        await server.start()


def _is_alone(turn: int) -> bool:
    """Whether the agent whose turn it is dies while there is no server: each of them does so at some of its turns."""
    return (turn + turn // 4) % 2 == 0


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
        marker="claim-kept",
        change=Swap("($rows, $...)", "($rows)"),
        breaks="handed twice under one attempt",
    ),
    Control(
        name="a lease never ends",
        marker="claimable",
        change=Swap("(h.seq IS NULL OR (h.acked_at IS NULL AND h.lease_until <= :now))", "h.seq IS NULL"),
        breaks="unhandled at the end",
    ),
    Control(
        name="an ack is answered and not written",
        marker="ack-kept",
        change=Swap("($seq, $...)", "($seq)"),
        breaks="handed again after its ack",
    ),
)
_OF_DELEGATIONS = (
    Control(
        name="nobody hears the answer to a delegation",
        marker="answer-closes-delegation",
        change=Remove(),
        breaks="delegations stuck",
    ),
    Control(
        name="the key of a delegation is not looked at",
        marker="delegation-key",
        change=Swap("$($...) or (", "("),
        breaks="hits with another id",
    ),
    Control(
        name="a deadline that falls due is forgotten",
        marker="deadline-due",
        change=Always(False),
        breaks="delegations stuck",
    ),
    Control(
        name="a result that was taken stays in the inbox",
        marker="taken-result",
        change=Swap('$("here")', 'WriteSet("here")'),
        breaks="taken and left in the inbox",
    ),
)
# Where the store is slower, a cut push comes again before anybody looks into the inboxes for the last time.
_ON_POSTGRES = (*_OF_DELEGATIONS[:-1], replace(_OF_DELEGATIONS[-1], breaks="taken and handed out too"))
# What goes wrong above the store goes wrong on both engines: of each noun one mistake is enough on the slower one.
_OF_NOUNS = (*OF_MEMORY, *OF_FILES, *OF_APPROVALS, *OF_THREADS)
_OF_EACH_NOUN = (OF_MEMORY[0], OF_APPROVALS[0], OF_THREADS[0])
_SQLITE_ANSWERS_FIRST = Control(
    name=POSTGRES_ANSWERS_FIRST.name,
    marker="sqlite-settle-last",
    change=Swap("await", "[each.resolve() for each in group], await asyncio.sleep(0.02), await"),
    breaks="accepted but missing",
)

PROOF = Proof(
    name="kill9",
    claim="No accepted message, task, approval, memory, file or thread entry is lost, duplicated, altered or "
    "reordered when server, clients and `molecule mcp` processes are killed with SIGKILL.",
    shows="Eight senders, eight agents on four inboxes and four watchers use a real `molecule serve` over its "
    "socket, and so do four givers of tasks, each by another entrance (HTTP with and without waiting, "
    "`message/send`, MCP), and four agents that do them, half of which are pushed to; the server is killed "
    "with SIGKILL at random moments (after the k-th accepted message, hand-over, answer, ack, begun call, or "
    "at once after a start) and started again, clients die too, and every call is repeated under its own id "
    "until it has a 2xx. Nothing that was accepted is missing, doubled, altered or out of its sender's order; "
    "each message is handed over, under each attempt once, and never again after its ack; whoever is handed one "
    "again sends the ack of the attempt before first, which is refused; each has one answer; log, inbox and "
    "journal count without a gap; whoever follows a cursor sees each row once. Each task that "
    "was given is one delegation under every repetition of its key, begins before all else that is told of it "
    "and ends once, completed with what its agent said, or failed by its deadline if its agent never comes; "
    "its giver has that text by one result in its inbox, or by the answer that it waited for and then not by "
    "the inbox. Beside them agents that share the keys of a workspace write only over the version that they have "
    "seen, and note, recall and forget memories; agents ask for leave, those above them and persons decide, or "
    "pass it on, or come too late, some is taken back or left to expire, and what was approved is used, now and "
    "then by two hands at once; persons and agents start threads, speak to them and close some, and engines run "
    "them, spawn agents, write letters and die; and agents send files and read them again. Each file that was taken is "
    "there as it was sent, and none is known whose bytes are not there. Each version is one value, put over the one "
    "that its writer had seen; the last one stands, versions count without a gap, each memory is there once. Each "
    "request is one approval, ends once and by whoever was told so, is used once at most; each change of it is told "
    "once, and each letter about it is there once. What was said to a thread stands in its log once and in its "
    "speaker's order; base instructions are those that were given; each turn ends once, as its engine was told; lines "
    "of engines, calls and letters between threads are there once. And three agents sit in four workspaces behind real "
    "processes of `molecule mcp`: one answers each message as it comes, one acknowledges each and answers later, one "
    "is pushed to by a channel. At each second kill of the server such a process is killed with SIGKILL too, in turn "
    "while the server is up and while there is none, and started again on the folder that it left, now and then only "
    "to be killed once more while it begins. Each message to them that was accepted is shown to its model; again only "
    "in a later life of the process and never after it was handled, and in all not more often than processes were "
    "killed; each is in its inbox once, is handled in the end, and has one answer.",
    engines=("sqlite",),
    unit="kills",
    sizes={"sqlite": 200, "postgres": 200},
    control_sizes={"sqlite": 6, "postgres": 6},
    controls={
        "sqlite": (_SQLITE_ANSWERS_FIRST, *_ANYWHERE, STALE_ACK, *_OF_DELEGATIONS, *_OF_NOUNS, *OF_AGENTS),
        "postgres": (POSTGRES_ANSWERS_FIRST, *_ANYWHERE, *_ON_POSTGRES, *_OF_EACH_NOUN, OF_AGENTS[0]),
    },
    run=run,
    faults=("kills", "agent kills", "clients that died"),
)
