"""Where texts of others stand on the page, and how they come there: by the ways that anybody has.

Above: looking.py. Below: the company that the page's own tests play (testing/canvas/company.py).
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from molecule_core.client.api import ApiError
from testing.canvas.company import Stage
from testing.running_server import Seat
from testing.thread_world import Engine, said

T = TypeVar("T")
_REFUSED = (400, 422)
# A workspace has no more open approvals than fifty, and a reason no more than 2,000 characters.
_APPROVALS_OF_A_SEAT, _REASON_LENGTH = 40, 1_900
# As much as a work view shows without being asked for more, and as many lines as a thread does.
_TASK_LENGTH, _LINES = 1_900, 90
_STEP_LENGTH = 100
_PAIRS = (("Engineering", "Backend"), ("Research", "Reader"), ("Support", "Night shift"))
_GIVEN = 100


class Sight(NamedTuple):
    """A page, and the texts that stand on it, each with a word of its own in front."""

    path: str
    texts: list[str]


class Surfaces:
    """All of them, on one server. `refused` counts the texts that the server does not take at that place."""

    def __init__(self, stage: Stage, texts: Sequence[str]) -> None:
        self._stage = stage
        self._texts = texts
        self.refused = 0

    def all(self) -> dict[str, Callable[[], Awaitable[list[Sight]]]]:
        """What each is called, and who fills it. Names come last: they stand beside everything else from then on."""
        return {
            "what an agent says": self._said,
            "what a person says": self._asked,
            "delegations in a chat": self._given,
            "delegations in full": self._worked,
            "approvals in a list": self._listed,
            "approvals in full": self._leave,
            "files": self._sent,
            "threads": self._threaded,
            "cards and tasks at hand": self._carded,
            "names of people": self._befriended,
            "names of agents": self._named,
        }

    def _as(self, letter: str) -> list[str]:
        """The texts with words that they have at this place alone."""
        return [letter + text for text in self._texts]

    async def _is_taken(self, asked: Awaitable[Any]) -> bool:
        try:
            await asked
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            self.refused += 1
            return False
        return True

    # -- chats ---------------------------------------------------------------------------------------------------------

    async def _said(self) -> list[Sight]:
        texts = self._as("g")
        for text in texts:
            await self._stage.say("Reader", text)
        return [self._chat("Reader", texts)]

    async def _asked(self) -> list[Sight]:
        texts, seat = self._as("h"), self._stage.seats["Writer"]
        for number, text in enumerate(texts):
            message = {"role": "user", "messageId": f"p-{number}", "parts": [{"kind": "text", "text": text}]}
            body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
            await self._stage.admin.post(f"/workspaces/{seat.id}/a2a", body)
        return [self._chat("Writer", texts)]

    async def _sent(self) -> list[Sight]:
        """Names of files lose their folders, so the word of each stands in front of its ending."""
        texts, seat = self._as("s"), self._stage.seats["First line"]
        for text in texts:
            word, _, rest = text.partition(" ")
            file = {"uri": "https://files.example/x", "name": f"{rest} {word}.html", "mimeType": "text/html"}
            await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "See this", "attachments": [file]})
        return [self._chat("First line", texts)]

    def _chat(self, name: str, texts: list[str]) -> Sight:
        return Sight(f"/app/chat/{self._stage.seats[name].id}", texts)

    # -- work ----------------------------------------------------------------------------------------------------------

    async def _given(self) -> list[Sight]:
        """In the chats of who gave the work, in each as many as are soon scrolled through."""
        pairs, sights = [*zip(self._as("k"), self._as("l"), strict=True)], []
        for number, some in enumerate(_pieces(pairs, _GIVEN)):
            giver, doer = _PAIRS[number % len(_PAIRS)]
            for task, result in some:
                await self._delegate(giver, doer, task, task, result)
            sights.append(self._chat(giver, [text for pair in some for text in pair]))
        return sights

    async def _worked(self) -> list[Sight]:
        tasks, results, sights = self._as("m"), self._as("n"), []
        for some in _heaps(tasks, results, most=_TASK_LENGTH):
            task, result = ("\n\n".join(texts) for texts in zip(*some, strict=True))
            id_ = await self._delegate("Lead", "Research", task, some[0][0], result)
            sights.append(Sight(f"/app/delegations/{id_}", [text for pair in some for text in pair]))
        return sights

    async def _delegate(self, source: str, target: str, task: str, step: str, result: str) -> str:
        giver, seat = self._stage.seats[source], self._stage.seats[target]
        begun = await giver.api.post(f"/workspaces/{giver.id}/delegate", {"target_id": seat.id, "task": task})
        id_ = str(begun["delegation_id"])
        await seat.api.post(f"/delegations/{id_}/status", {"current_step": step[:_STEP_LENGTH]})
        await seat.api.post(
            f"/workspaces/{seat.id}/delegations/{id_}/update", {"status": "completed", "result": result}
        )
        return id_

    # -- approvals -----------------------------------------------------------------------------------------------------

    async def _listed(self) -> list[Sight]:
        taken = []
        for number, some in enumerate(_pieces(self._as("p"), _APPROVALS_OF_A_SEAT)):
            seat = await self._stage.add(f"Asks often {number}", "Engineering")
            for text in some:
                wish = {"action": text, "reason": text[1:], "details": {text[1:]: text[1:]}}
                if await self._is_taken(seat.api.post(f"/workspaces/{seat.id}/approvals", wish)):
                    taken.append(text)
        return [Sight("/app/inbox?kind=approval&state=open", taken)]

    async def _leave(self) -> list[Sight]:
        seat, sights = self._stage.seats["Frontend"], []
        for some in _heaps(self._as("q"), self._as("r"), most=_REASON_LENGTH):
            reasons, details = zip(*some, strict=True)
            wish = {"action": "look at all of it", "reason": "\n".join(reasons), "details": dict(enumerate(details))}
            asked = await seat.api.post(f"/workspaces/{seat.id}/approvals", wish)
            path = f"/app/inbox/{asked['approval_id']}?kind=approval&state=open&of={seat.id}"
            sights.append(Sight(path, [*reasons, *details]))
        return sights

    # -- threads -------------------------------------------------------------------------------------------------------

    async def _threaded(self) -> list[Sight]:
        inputs, bases, sights = self._as("u"), self._as("v"), list[Sight]()
        seat = self._stage.seats["Second line"]
        for some in _pieces(self._as("t"), _LINES):
            begun = {"base_instructions": "\n".join(bases), "input": "\n".join(inputs)}
            thread = await seat.api.post(f"/workspaces/{seat.id}/threads", begun)
            engine = Engine(seat.api, thread)
            await engine.claim()
            await engine.begin()
            await engine.adds(*(said(text) for text in some))
            await engine.ends(final="done")
            sights.append(Sight(f"/app/threads/{engine.id}", some if sights else [*inputs, *some]))
        return [*sights, Sight(f"{sights[0].path}?show=base", bases)]

    # -- who there is --------------------------------------------------------------------------------------------------

    async def _carded(self) -> list[Sight]:
        """One agent of many skills: as many as there are texts."""
        seat, names, words = self._stage.seats["Quality"], self._as("x"), self._as("y")
        skills = [{"name": name, "description": text} for name, text in zip(names, words, strict=True)]
        card = {"name": names[0], "description": words[0], "version": names[0], "skills": skills}
        await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})
        await self._heartbeat(seat, self._as("z")[0])
        return [Sight(f"/app/org?focus={seat.id}&panel=about", [*names, *words, self._as("z")[0]])]

    async def _heartbeat(self, seat: Seat, task: str) -> None:
        beat = {"workspace_id": seat.id, "active_tasks": 1, "current_task": task}
        await seat.api.post("/registry/heartbeat", beat)

    async def _befriended(self) -> list[Sight]:
        path = f"/orgs/{(await self._stage.admin.get('/orgs'))[0]['id']}/people"
        asked = [(text, self._stage.admin.post(path, {"name": text, "role": "viewer"})) for text in self._as("o")]
        return [Sight("/app/settings", [text for text, answer in asked if await self._is_taken(answer)])]

    async def _named(self) -> list[Sight]:
        asked = [(text, self._stage.add(text, "Support", text[1:])) for text in self._as("i")]
        return [Sight("/app/org", [text for text, answer in asked if await self._is_taken(answer)])]


def _pieces(texts: list[T], count: int) -> Iterator[list[T]]:
    for start in range(0, len(texts), count):
        yield texts[start : start + count]


def _heaps(*places: list[str], most: int) -> Iterator[list[tuple[str, ...]]]:
    """Texts side by side, as many as have so many characters together at each place."""
    heap: list[tuple[str, ...]] = []
    for each in zip(*places, strict=True):
        if heap and max(sum(len(text) + 2 for text in place) for place in zip(*heap, each, strict=True)) > most:
            yield heap
            heap = []
        heap.append(each)
    yield heap
