"""`prove routing`: one process of `molecule mcp` sits in fifty workspaces, and whatever its model calls, nothing goes
astray: an answer goes to who asked, from the seat that was asked, or nowhere.

The model is played by calls over standard input, four at a time. Peers and persons ask, each seat is asked by many.
"""

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from proofs.harness.caller import Caller
from proofs.harness.controls import Control
from proofs.harness.ledger import Ledger, Row, read_ledger
from proofs.harness.mutations import Always, Swap
from proofs.harness.progress import Progress
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import START_SECONDS, Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.workload.company import Seat
from testing.mcp_host import Agent, agent

_SEATS, _PEERS, _PERSONS = 50, 8, 2
_HANDS = 4
# So often the agent's process is started; each but the last is killed in the middle of its work.
_LIVES = 4
# So many questions are open at once: among them are always several conversations.
_OPEN = 32
# Of all questions: before it is answered, the model calls in a way that cannot be right.
_HOSTILE = 0.4
# What was on its way to an agent that died comes after its lease; what it held, the next one gives back at once.
_LEASE_SECONDS, _AT_ONCE_SECONDS = 20, 12.0
_PATIENCE_SECONDS, _CONTROL_PATIENCE_SECONDS = 60.0, 25.0
_MOST_NOTES = 12
_VAGUE, _OTHER_SEAT, _OTHER_PEER, _STRANGER = "vague", "another seat", "another peer", "a stranger's seat"
_WRONG = (_VAGUE, _OTHER_SEAT, _OTHER_PEER, _STRANGER)
ASTRAY, TAKEN, NEVER, TWICE = (
    "answers that went astray",
    "wrong calls that were taken",
    "never answered",
    "answered twice",
)
AGAIN, ELSEWHERE = "questions shown twice", "questions shown at another seat"
LATE = "held by an agent that died, and not there at once"
ZEROS = (ASTRAY, TAKEN, NEVER, TWICE, AGAIN, ELSEWHERE, LATE, "unhandled at the end")
_ASKED, _ANSWERED = re.compile(r"^q-(\d+)$"), re.compile(r"^re q-(\d+)$")


class Question(Struct):
    """Who asks whom. `peer_id`: empty for a person."""

    number: int
    seat: Seat
    peer_id: str


class Scene:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server = ServerProcess(setting)
        self._patience = _PATIENCE_SECONDS if setting.package is None else _CONTROL_PATIENCE_SECONDS
        self._dice = setting.dice("model")
        self._questions: dict[int, Question] = {}
        self._shown: set[int] = set()
        self._left = asyncio.Semaphore(_OPEN)
        self._speaking = asyncio.Lock()
        """Held while something is said: what waits stays the same meanwhile, but for what comes."""
        self._open: Counter[tuple[str, str]] = Counter()
        """Conversations that wait in the agent and were shown: seat and peer."""
        self._progress = Progress()
        self._began = 0.0
        self._held: set[int] = set()
        """What the process before had shown when it was killed, and nobody has answered."""
        self._answered: set[int] = set()
        self.figures: Counter[str] = Counter()
        self.zeros = dict.fromkeys(ZEROS, 0)
        self.notes: list[str] = []

    async def play(self) -> Verdict:
        """Everything is asked, and answered."""
        try:
            await self._server.start()
            await self._found()
            state = self._setting.folder / "agent"
            state.mkdir(mode=0o700)
            asking = [asyncio.create_task(self._ask(n)) for n in range(len(self._askers))]
            for life in range(_LIVES):
                await self._live(state, asking, upto=self._setting.size * (life + 1) // _LIVES)
            for error in await _ended(asking):
                self._fault(NEVER, f"an asker left: {error!r}")
            await self._server.stop()
        finally:
            await self._server.kill()
        self._judge(await read_ledger(self._setting))
        figures = {"questions": len(self._questions), "of persons": self.figures["of persons"], "seats": _SEATS}
        figures |= {f"calls that name {name}": self.figures[name] for name in _WRONG}
        figures["shared beginnings of ids"] = _SEATS - len({seat.id[:1] for seat in self._seats})
        return Verdict({**figures}, self.zeros, self.notes)

    @property
    def _url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    async def _found(self) -> None:
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Seat {n}"})) for n in range(_SEATS)]
            self._peers = [Seat(await admin.post("/workspaces", {"name": f"Peer {n}"})) for n in range(_PEERS)]
            path = f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people"
            persons = [await admin.post(path, {"name": f"P {n}", "role": "operator"}) for n in range(_PERSONS)]
        self._askers = [(peer.token, peer.id) for peer in self._peers] + [(p["auth_token"], "") for p in persons]

    def _fault(self, what: str, note: str) -> None:
        self.zeros[what] += 1
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(f"{what}: {note[:300]}")

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _live(self, state: Path, asking: "list[asyncio.Task[None]]", *, upto: int) -> None:
        """One life of the agent's process, until so much is answered in all, or nothing is any more; then it is killed.
        What it has shown and not answered, the next one has to show again."""
        entries = [{"id": seat.id, "token": seat.token, "platform_url": self._url} for seat in self._seats]
        env = {"MOLECULE_WORKSPACES": json.dumps(entries), "PYTHONPATH": self._setting.python_path()}
        self._held, self._open = self._shown - self._answered, Counter()
        self._shown = {*self._answered}
        async with agent(state, MOLECULE_MCP_LEASE_SECONDS=str(_LEASE_SECONDS), **env) as model:
            await model.greet()
            self._began = asyncio.get_running_loop().time()
            hands = [asyncio.create_task(self._answer(model)) for _ in range(_HANDS)]
            while len(self._answered) < upto and await self._progress.after("answered", 1, seconds=self._patience):
                if any(_error(task) for task in (*hands, *asking)):
                    break
            async with self._speaking:  # nothing is half said when it dies
                await model.kill()
                for error in await _ended(hands):
                    self._fault(NEVER, f"a hand of the model left: {error!r}")

    async def _ask(self, place: int) -> None:
        dice = self._setting.dice("asker", place)
        token, peer_id = self._askers[place]
        async with Caller(self._server.port, token) as api:
            for number in range(place, self._setting.size, len(self._askers)):
                await self._left.acquire()
                question = Question(number, dice.choice(self._seats), peer_id)
                self._questions[question.number] = question
                self.figures["of persons"] += not peer_id
                words = f"q-{question.number}"
                message = {"role": "user", "messageId": words, "parts": [{"kind": "text", "text": words}]}
                body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
                await api.post(f"/workspaces/{question.seat.id}/a2a", body, x_timeout="0")

    # -- the model -----------------------------------------------------------------------------------------------------

    async def _answer(self, model: Agent) -> None:
        while True:
            message = (await model.call("wait_for_message", timeout_secs=20))["message"]
            if message is None:
                continue
            asked = _ASKED.match(message["text"])
            if asked is None:
                self._fault(ASTRAY, f"strange: {message}")
                continue
            question = self._questions[int(asked[1])]
            if question.number in self._shown:
                self._fault(AGAIN, str(message))
                continue
            self._shown.add(question.number)
            is_late = asyncio.get_running_loop().time() - self._began > _AT_ONCE_SECONDS
            if is_late and question.number in self._held:
                self._fault(LATE, str(question))
            if (message["arrival_workspace_id"], message["peer_id"]) != (question.seat.id, question.peer_id):
                self._fault(ELSEWHERE, f"{question}: {message}")
            self._open[question.seat.id, question.peer_id] += 1
            if self._dice.random() < _HOSTILE:
                async with self._speaking:
                    await self._go_wrong(model, message, question)
            words = {"text": f"re q-{question.number}", "activity_id": message["activity_id"]}
            async with self._speaking:
                await model.call("reply_to_workspace", **words, **self._named(message))
                self._open[question.seat.id, question.peer_id] -= 1
                self._answered.add(question.number)
            self._progress.note("answered")
            self._left.release()

    def _named(self, message: dict[str, Any]) -> dict[str, str]:
        """What a right call may name besides: nothing, or what is so."""
        if self._dice.random() < 0.5:
            return {}
        return {"workspace_id": message["arrival_workspace_id"], "peer_id": message["peer_id"]}

    async def _go_wrong(self, model: Agent, message: dict[str, Any], question: Question) -> None:
        """A call that must be refused, with nothing sent."""
        kind = self._dice.choice(_WRONG)
        words: dict[str, Any] = {"text": f"wrong re q-{question.number}"}
        if kind == _OTHER_SEAT:
            other = self._dice.choice([seat for seat in self._seats if seat.id != question.seat.id])
            words |= {"activity_id": message["activity_id"], "workspace_id": other.id}
        elif kind == _OTHER_PEER:
            other = self._dice.choice([peer for peer in self._peers if peer.id != question.peer_id])
            words |= {"activity_id": message["activity_id"], "peer_id": other.id}
        elif kind == _STRANGER:
            words |= {"activity_id": message["activity_id"], "workspace_id": self._dice.choice(self._peers).id}
        elif len(+self._open) < 2:
            return  # only one can be meant: that is no wrong call
        self.figures[kind] += 1
        result = await model.request("tools/call", {"name": "reply_to_workspace", "arguments": words})
        if not result["isError"]:
            self._fault(TAKEN, f"{kind}: {words}: {result}")

    # -- the judgement -------------------------------------------------------------------------------------------------

    def _judge(self, ledger: Ledger) -> None:
        """Where each answer stands, and whose it is."""
        seats = {seat.id for seat in self._seats}
        answered: Counter[int] = Counter()
        for row in ledger.rows:
            words = _text_of(row)
            if words.startswith("wrong"):
                self._fault(TAKEN, f"{words} stands in the log of {row.workspace_id}")
            elif (found := _ANSWERED.match(words)) is not None:
                question = self._questions[int(found[1])]
                if question.peer_id and row.workspace_id == question.seat.id and row.inbound_no is None:
                    continue  # the copy in the log of who said it
                answered[question.number] += 1
                if not _is_in_place(question, row):
                    self._fault(ASTRAY, f"{question}: {row}")
        self.zeros[NEVER] += self._setting.size - len(answered)
        self.zeros[TWICE] += sum(count - 1 for count in answered.values())
        self.zeros["unhandled at the end"] = sum(
            not ledger.is_handled(row)
            for row in ledger.rows
            if row.workspace_id in seats and row.inbound_no is not None
        )


async def _ended(tasks: "list[asyncio.Task[None]]") -> list[BaseException]:
    """Ends tasks; the errors that some had ended with before."""
    for task in tasks:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return [error for error in found if isinstance(error, Exception)]


def _error(task: "asyncio.Task[None]") -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def _is_in_place(question: Question, row: Row) -> bool:
    """Whether an answer stands at who asked, from the seat that was asked: a person is told in the seat's own log."""
    if question.peer_id:
        return (row.workspace_id, row.source_id) == (question.peer_id, question.seat.id) and row.inbound_no is not None
    return row.workspace_id == question.seat.id and row.method == "notify"


def _text_of(row: Row) -> str:
    try:
        body: Any = json.loads(row.request_body or "{}")
        text: str = body["params"]["message"]["parts"][0]["text"]
    except (KeyError, IndexError, TypeError):
        return ""
    return text


async def run(setting: Setting) -> Verdict:
    """`setting.size` questions."""
    async with asyncio.timeout(START_SECONDS * 10):
        return await Scene(setting).play()


_CONTROLS = (
    Control(
        name="who is meant is guessed",
        marker="single-origin",
        change=Swap("len($) == 1 and ", ""),
        breaks=TAKEN,
    ),
    Control(
        name="a named seat need not be the one that was asked",
        marker="named-seat-asked",
        change=Always(True),
        breaks=TAKEN,
    ),
    Control(
        name="one seat speaks for all",
        marker="requests-of-seat",
        change=Swap("= $seat.$requests", "= next(iter(self._memberships)).$requests"),
        breaks=NEVER,
    ),
    Control(
        name="the file of a seat is named by the beginning of its id",
        marker="own-file",
        change=Swap('{$workspace}"', '{$workspace[:1]}"'),
        breaks=LATE,
    ),
    Control(
        name="answers leave by the first seat, and name no message",
        marker="answer-by-its-seat",
        change=Swap(
            "$given = $completed($asked, $seat, $target, $)",
            "$seat = next(iter(self._memberships)); $given = replace($completed($asked, $seat, $target, "
            'None), activity_id="", reply_handle="")',
        ),
        breaks=ASTRAY,
    ),
    Control(
        name="answers to peers go to one of them, whoever asked",
        marker="send-target",
        change=Swap(
            "($id, $draft)", '(vars(self).setdefault("peer", $id) if $draft.text.startswith("re ") else $id, $draft)'
        ),
        breaks=ASTRAY,
    ),
    Control(
        name="all mail is said to have come to one seat",
        marker="receiving-seat",
        change=Swap("($row, $id)", '($row, vars(self._inbox).setdefault("seat", $id))'),
        breaks=ELSEWHERE,
    ),
)

PROOF = Proof(
    name="routing",
    claim="One process in fifty workspaces answers each question once, from the right workspace.",
    shows="One process of `molecule mcp` sits in fifty workspaces of a real `molecule serve`; their ids have their "
    "first eight characters in common. Peers and persons ask, many at once, and the model answers four at a time; "
    "three times the process is killed and started again; and now and then the model calls as none should: it "
    "names nobody while several wait, another seat, another peer, a seat that is not its own. Each question is "
    "shown once, as one of the seat that was asked; what a dead process held is there again at once; each answer "
    "stands at who asked, from that seat, once; and what cannot be right is refused, with nothing sent.",
    engines=("sqlite",),
    unit="questions",
    sizes={"sqlite": 20_000, "postgres": 4_000},
    control_sizes={"sqlite": 200, "postgres": 200},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=tuple(f"calls that name {name}" for name in _WRONG),
)
