"""`prove senders`: 64 senders repeat themselves over lines that are cut, and each message is in its inbox once.

Half of the senders are persons, half are workspaces; of sixteen agents eight follow a cursor, four claim (in
pairs), four are pushed to. The server is a process of its own, and everybody knows only its public API.
"""

import asyncio

from proofs.harness.caller import Caller
from proofs.harness.controls import Control
from proofs.harness.ledger import read_ledger
from proofs.harness.mutations import Always, Swap
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import START_SECONDS, Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.senders.agents import PushedTo, ways_of
from proofs.senders.judging import judge
from proofs.senders.model import Book
from proofs.senders.senders import Sender
from proofs.workload.company import Seat
from proofs.workload.shared_controls import MESSAGE_AGAIN

SENDERS, FOLLOWING, CLAIMING, PUSHED = 64, 8, 4, 4
_AT_ONCE = 8
"""So many pushes an agent takes at once."""
# Whoever waits so long for one more message waits in vain, also on a busy machine; a control's loss stays lost.
_STALL_SECONDS, _CONTROL_STALL_SECONDS = 60.0, 8.0
# A push that was cut off is tried again after a second or two.
_BREATH_SECONDS = 0.3
# Several times what a full run takes on two cores that have nothing else to do.
_MOST_SECONDS = 1_080.0


class Scene:
    """One run: who there is, and what they do."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._patience = _STALL_SECONDS if setting.package is None else _CONTROL_STALL_SECONDS
        self.book = Book()
        self.server = ServerProcess(setting)
        self._listening = PushedTo(self.book, setting.dice("pushed"))
        self._polling: list[Seat] = []
        self._pushed: list[Seat] = []
        self._tokens: list[str] = []
        self._agents: list[asyncio.Task[None]] = []

    async def play(self) -> None:
        """Everybody comes, sends and receives all, and the server ends."""
        try:
            await self.server.start()
            await self._found()
            self._begin()
            async with asyncio.timeout(_MOST_SECONDS):
                await self._send()
                await self._receive()
            await self._leave()
            if code := await self.server.stop():
                self.book.fault("unclean ends", f"exit code {code}")
        finally:
            await self.server.kill()
            await self._listening.close()

    @property
    def inboxes(self) -> list[str]:
        """The ids of all that are sent to."""
        return [seat.id for seat in (*self._polling, *self._pushed)]

    async def _found(self) -> None:
        url = {"url": await self._listening.open(), "max_concurrent_tasks": _AT_ONCE}
        async with Caller(self.server.port, ADMIN_TOKEN) as admin:
            for number in range(FOLLOWING + CLAIMING):
                self._polling.append(Seat(await admin.post("/workspaces", {"name": f"Inbox {number}"})))
            for number in range(PUSHED):
                self._pushed.append(Seat(await admin.post("/workspaces", {"name": f"Pushed {number}", **url})))
            for number in range(SENDERS // 2):
                self._tokens.append(Seat(await admin.post("/workspaces", {"name": f"Sender {number}"})).token)
            persons = f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people"
            for number in range(SENDERS - len(self._tokens)):
                person = await admin.post(persons, {"name": f"Person {number}", "role": "operator"})
                self._tokens.append(person["auth_token"])

    def _begin(self) -> None:
        for place, seat in enumerate(self._polling):
            follow, claim = ways_of(seat, self.server.port, self.book, self._setting.dice("agent", place))
            if place < FOLLOWING:
                self._agents.append(asyncio.create_task(follow()))
            else:
                self._agents += (asyncio.create_task(claim()), asyncio.create_task(self._second(place, seat)))

    async def _second(self, place: int, seat: Seat) -> None:
        """Who claims shares an inbox with another, and gets what the other has not."""
        _, claim = ways_of(seat, self.server.port, self.book, self._setting.dice("second agent", place))
        await claim()

    async def _send(self) -> None:
        inboxes, port = self.inboxes, self.server.port
        share, more = divmod(self._setting.size, SENDERS)
        async with asyncio.TaskGroup() as crowd:
            for place, token in enumerate(self._tokens):
                sender = Sender(f"s{place}", port, token, inboxes, self.book, self._setting.dice("sender", place))
                crowd.create_task(sender.send(share + (place < more)))

    async def _receive(self) -> None:
        """Until nobody has anything left to handle."""
        book = self.book
        while len(book.got) < len(book.kept):
            if not await book.progress.after("got", 1, seconds=self._patience):
                book.fault("stalls", f"{len(book.kept) - len(book.got)} messages come to nobody")
                return
        async with asyncio.TaskGroup() as crowd:
            for seat in (*self._polling, *self._pushed):
                crowd.create_task(self._handled(seat))

    async def _handled(self, seat: Seat) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        async with Caller(self.server.port, seat.token) as api:
            while (await api.get(f"/workspaces/{seat.id}/waiting"))["waiting"]:
                if loop.time() > end:
                    self.book.fault("stalls", f"{seat.id} leaves mail unhandled")
                    return
                await self.book.progress.after("handled", 1, seconds=_BREATH_SECONDS)

    async def _leave(self) -> None:
        for agent in self._agents:
            agent.cancel()
        done, late = await asyncio.wait(self._agents, timeout=START_SECONDS)
        for agent in (*done, *late):
            if not agent.done() or not agent.cancelled():
                self.book.fault("stalls", repr(agent))


async def run(setting: Setting) -> Verdict:
    """`setting.size` messages, then the judgement."""
    scene = Scene(setting)
    await scene.play()
    return judge(scene.book, await read_ledger(setting), scene.inboxes, scene.server)


_CONTROLS = (
    MESSAGE_AGAIN,
    Control(
        name="other words under an old id pass for the same",
        marker="dedupe-content-hash",
        change=Always(False),
        breaks="no 409 where one is due",
    ),
    Control(
        name="the same again is taken for something else",
        marker="dedupe-content-hash",
        change=Swap("!= $", ""),
        breaks="409 where none is due",
    ),
    Control(
        name="a repetition is given a receipt of its own",
        marker="repeated-receipt",
        change=Swap("($id,", "($id[::-1],"),
        breaks="another first answer",
    ),
    Control(
        name="a claim is not noted",
        marker="claim-kept",
        change=Swap("($rows, $...)", "($rows)"),
        breaks="handed twice under one attempt",
    ),
    Control(
        name="a cursor skips a row",
        marker="cursor-row",
        change=Swap("return $seq", "return $seq + 1"),
        breaks="never handed over",
    ),
    Control(
        name="of a large group some rows are left out",
        marker="sqlite-batch",
        change=Swap(
            "[$bind($each) for $each in $batch]", 'map($bind, $batch[: 8 if name == "insert_activity" else None])'
        ),
        breaks="accepted but missing",
    ),
    Control(
        name="a text loses its end where it is kept",
        marker="stored-text",
        change=Swap(
            '$params["metadata"] = {**$claimed, **$identity($draft.sender)}',
            '$params["message"]["parts"], $params["metadata"] = [{**each, "text": each.get("text", '
            '"")[:-1]} for each in $draft.message["parts"]], {**$claimed, **$identity($draft.sender)}',
        ),
        breaks="altered",
    ),
    Control(
        name="what came of a push is not written",
        marker="push-outcome",
        change=Swap("return $...", "return"),
        breaks="unhandled at the end",
    ),
)

PROOF = Proof(
    name="senders",
    claim="Repeated and concurrent sends of 64 senders arrive once, in order, with the first response for each id.",
    shows="64 senders (persons and workspaces) send to sixteen inboxes of a real `molecule serve` over its socket; "
    "eight agents follow a cursor, pairs of agents claim from four inboxes, four are pushed to. After a fifth of the "
    "messages their sender repeats one of its own, most as it was, some with other words or to another inbox; some new "
    "ones are sent twice at once over two connections, the same or with different words. Two of a hundred calls are "
    "cut in the middle of the request, behind it, or when the answer begins, and so are pushes. Every message that was "
    "taken is in the inbox it was sent to once, as it was sent, in its sender's order, and comes to its agent; the "
    "same under an old id has the first answer, anything else is 409, and nothing else is.",
    engines=("sqlite",),
    unit="messages",
    sizes={"sqlite": 100_000, "postgres": 10_000},
    control_sizes={"sqlite": 500, "postgres": 500},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS[:3]},
    run=run,
    demands={"sqlite": {"messages": 100_000}},
    faults=("calls cut", "pushes cut"),
)
