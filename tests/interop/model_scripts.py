"""A model of our own for a host of somebody else's: what it is asked, in one form for every dialect, and what it does.

A script is a row of steps. Which one is due follows from what the request holds, not from how often somebody asked: a
host that asks again is answered the same.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Result(NamedTuple):
    """What a tool gave, as the model is shown it."""

    tool: str
    text: str
    refused: bool = False

    @property
    def value(self) -> dict[str, Any]:
        """The first JSON object in the text: some hosts put words of their own before it."""
        start = self.text.find("{")
        assert start >= 0, f"{self.tool} gave no JSON: {self.text[:2000]}"
        found, _ = json.JSONDecoder().raw_decode(self.text[start:])
        return dict(found)


class Asked(NamedTuple):
    """A request to the model. `tools` are those that it may call at once, by the names that the host gives them;
    `said` is all text that is no tool's: instructions of every kind, and the prompt."""

    tools: tuple[str, ...]
    results: tuple[Result, ...]
    said: str

    @property
    def last(self) -> dict[str, Any]:
        """What the tool called last gave."""
        return self.results[-1].value


class Call(NamedTuple):
    """The model calls a tool: in a script by its bare name if it is ours, afterwards as the host names it."""

    tool: str
    arguments: dict[str, Any]


Act = Call | str
"""A call, or words that end the turn."""
Step = Callable[[Asked], Act]


class Mind:
    """Plays a script, and calls only what is offered. `prefix`: what a host puts before the names of our tools."""

    def __init__(self, prefix: str, steps: Sequence[Step]) -> None:
        self.prefix = prefix
        self._steps = steps
        self.asked: list[Asked] = []
        self.acts: list[Act] = []
        self.faults: list[str] = []

    def answer(self, asked: Asked) -> Act:
        """What to do now. A script that does not fit the request ends the turn and leaves a fault."""
        self.asked.append(asked)
        self.acts.append(self._due(asked))
        return self.acts[-1]

    def _due(self, asked: Asked) -> Act:
        if len(asked.results) >= len(self._steps):
            return "Done."
        try:
            act = self._steps[len(asked.results)](asked)
        except (AssertionError, LookupError, ValueError) as error:
            self.faults.append(f"step {len(asked.results)} does not fit: {error!r}; it was shown {asked.results}")
            return "I am lost."
        if isinstance(act, str) or act.tool in asked.tools:
            return act
        call = act._replace(tool=self.prefix + act.tool)
        if call.tool not in asked.tools:
            self.faults.append(f"{call.tool} is not offered, only {', '.join(asked.tools)}")
            return "I am lost."
        return call
