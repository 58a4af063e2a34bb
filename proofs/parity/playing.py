"""Plays a script in an organisation of its own, through one entrance, in a time that it moves.

Above: twins.py, which compares two. Below: tasks.py, letters.py, memories.py, leave.py and talks.py, each of
which knows the moves about one noun.
"""

from collections.abc import Awaitable, Callable

from molecule_core.client.api import ApiError
from molecule_core.common.clock import SECOND
from proofs.parity.leave import LEAVES
from proofs.parity.letters import LETTERS
from proofs.parity.memories import MEMORIES
from proofs.parity.moves import Move
from proofs.parity.servers import TICK
from proofs.parity.sides import Side
from proofs.parity.talks import TALKS
from proofs.parity.tasks import TASKS, told_of
from testing.waits import bounded

_HOW: dict[str, Callable[[Side, Move], Awaitable[str]]] = {**TASKS, **LETTERS, **MEMORIES, **LEAVES, **TALKS}


async def play(side: Side, script: list[Move]) -> None:
    """All moves, each with all that comes of it."""
    for move in [*script, Move(verb="clock", seconds=31)]:
        await side.world.clock.advance(TICK / SECOND)
        await side.rest()
        try:
            said_of_it = await _HOW[move.verb](side, move)
        except ApiError as error:
            said_of_it = f"refused: {error.code}"
        side.said.append(f"{move.verb}: {said_of_it}")
        await side.rest()
    for number, call in side.calls:
        side.said.append(f"{number}: {told_of(side, await bounded(call))}")
