"""Those who send: the next message only once the last was accepted; now and then something again, under an old id.

Above: proof.py. Below: a line that is cut now and then (cutting.py), and the model.
"""

import asyncio
import json
from collections.abc import Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from proofs.harness.caller import NoAnswer, Refused
from proofs.senders.cutting import CutCaller
from proofs.senders.model import CLASH, Book, Said, Told

# Of all messages, so many are followed by a repetition of one of the same sender's.
REPEATED = 0.2
# Of the repetitions: under an old id, with other words or to another inbox.
_ALTERED = 0.15
# Of the new messages: two at once over two connections, half of these pairs with different words.
_TWINS = 0.03
_LONGEST_FILLER = 400
# So many calls in a row without an answer are no bad luck any more.
_MOST_CUTS = 50


def heard(activity_id: str) -> str:
    """What an agent that is pushed to answers."""
    return f"heard {activity_id}"


class Sender:
    """One of them, with two connections."""

    def __init__(self, name: str, port: int, token: str, inboxes: Sequence[str], book: Book, dice: Random) -> None:
        self._name = name
        self._inboxes = inboxes
        self._book = book
        self._dice = dice
        self._line, self._other = CutCaller(port, token, dice), CutCaller(port, token, dice)
        self._mine: list[Said] = []

    async def send(self, count: int) -> None:
        """So many messages, and their repetitions."""
        async with self._line, self._other:
            for number in range(count):
                await self._begin(number)
                if self._dice.random() < REPEATED:
                    await self._repeat()

    async def _begin(self, number: int) -> None:
        dice = self._dice
        id_ = f"{self._name}-{number}"
        said = Said(id_, dice.choice(self._inboxes), f"{id_} {'x' * dice.randrange(_LONGEST_FILLER)}")
        twin = self._altered(said) if dice.random() < 0.5 else said
        if dice.random() < _TWINS:
            self._book.figures["sent twice at once"] += 1
            told = await asyncio.gather(self._put(self._line, said), self._put(self._other, twin))
            pairs = sorted(zip((said, twin), told, strict=True), key=lambda pair: pair[1].status == CLASH)
        else:
            pairs = [(said, await self._put(self._line, said))]
        for what, answer in pairs:  # one that was taken first: who was refused came after it
            self._book.answered(what, answer)
        self._mine.append(self._book.kept.get(id_, said))

    async def _repeat(self) -> None:
        said = self._dice.choice(self._mine)
        if self._dice.random() < _ALTERED:
            said = self._altered(said)
            self._book.figures["sent again altered"] += 1
        else:
            self._book.figures["sent again"] += 1
        self._book.answered(said, await self._put(self._line, said))

    def _altered(self, said: Said) -> Said:
        """Other words, or the same to somebody else."""
        others = [each for each in self._inboxes if each != said.inbox]
        if others and self._dice.random() < 0.3:
            return replace(said, inbox=self._dice.choice(others))
        return replace(said, text=f"{said.text}!")

    async def _put(self, line: CutCaller, said: Said) -> Told:
        """Asks until there is an answer."""
        message = {
            "role": "user",
            "messageId": said.id,
            "parts": [{"kind": "text", "text": said.text}],
            "metadata": {"intent": "inform"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        for _ in range(_MOST_CUTS):
            try:
                return _told(await line.post(f"/workspaces/{said.inbox}/a2a", body, x_timeout="0"))
            except NoAnswer:
                self._book.figures["calls cut"] += 1
            except Refused as error:
                if error.status != CLASH:
                    self._book.fault("refused", f"{said.id}: {error}")
                return Told(error.status)
        raise RuntimeError(f"nobody answers {said.id}")


def _told(answer: dict[str, Any]) -> Told:
    """A receipt; or what the agent that was pushed to has answered meanwhile, which names the row too."""
    if "delivery_mode" in answer:  # how many wait before it changes
        return Told(202, answer["activity_id"])
    if "activity_id" in answer:
        return Told(200, answer["activity_id"], json.dumps(answer, sort_keys=True))
    words = str(answer["result"]["parts"][0]["text"])
    return Told(200, words.removeprefix(heard("")))
