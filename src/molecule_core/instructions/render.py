"""From a template and the facts of a message to the words that tell an agent how to answer.

A text is parsed and compiled once for each version. What does not change from message to message (the agent's tools,
the kind, the form) is filled in once too, for each way in which the conditions come out: a skeleton. A message then
costs the look-up of its skeleton and one formatting.

Above: messages (telling) and edges, which put the words on the wire. Below: the language, the rules, the catalogue.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

from msgspec import Struct

from molecule_core.ground.limits import Limits
from molecule_core.instructions import rules, syntax
from molecule_core.instructions.catalogue import Catalogue
from molecule_core.instructions.model import Choice, Facts, Form, Rendered, Seat
from molecule_core.instructions.script import SLOTS, Scene, Script, Slot, TooMuch, Wrong, picker
from molecule_core.wire.cards import DECIDE_COMMAND, REPLY_COMMAND

_log = logging.getLogger("molecule.instructions")
# What is remembered at most. Beyond that all of it is made anew: a few microseconds each.
_MOST_SEATS, _MOST_VOICES, _MOST_SKELETONS = 100_000, 4_096, 64
# A byte of UTF-8 is at least a quarter of a character: below so many nothing has to be counted.
_WIDEST = 4

# Members of an enumeration are looked up slowly.
_FULL, _COMPACT = Form.FULL, Form.COMPACT

Failed = Callable[[Seat, Choice, str], None]
# Ids and times, which is what values are, are short of words: so many tokens in four characters.
_TOKENS_OF_FOUR = 3

# -- a template, spoken to an agent ------------------------------------------------------------------------------------


class _Skeleton:
    """Words with places for the values of a message: every other of `pieces` is such a place. Most words have one,
    between two `ends`."""

    __slots__ = ("ends", "length", "most", "pick", "pieces", "reply_via", "tokens")

    def __init__(self, scene: Scene, reply_via: str, most: int) -> None:
        self.reply_via = reply_via
        self.most = most
        self.tokens = scene.tokens
        self.pieces = _pieces(scene.out)
        names = tuple(self.pieces[1::2])
        self.length = sum(map(len, self.pieces[::2]))
        self.ends = (self.pieces[0], self.pieces[2]) if len(names) == 1 and names[0] != "attempt" else None
        pick = picker(names)
        self.pick: Callable[[Facts], Any] = pick  # a text where there are ends, else a tuple of texts
        if self.ends is not None:
            self.pick = attrgetter(names[0])
        elif "attempt" in names:
            self.pick = lambda facts: tuple(map(str, pick(facts)))

    def filled(self, facts: Facts) -> str:
        """The words for one message."""
        values = self.pick(facts)
        joined = values if self.ends is not None else "".join(values)
        if self.length + len(joined) > self.most:  # a byte is at least a character
            raise TooMuch(f"its words have more than {self.most} bytes")
        if self.ends is not None:
            before, after = self.ends
            return f"{before}{joined if joined.isprintable() else harmless(joined)}{after}"
        pieces = self.pieces.copy()
        pieces[1::2] = values if joined.isprintable() else map(harmless, values)
        return "".join(pieces)  # control: values-not-parsed


def _pieces(out: list[str]) -> list[str]:
    """What was written, so that words and places take turns, without empty lines."""
    made: list[str] = []
    since = 0
    for place, each in enumerate(out):
        if type(each) is Slot:
            made += (_words(out[since:place]), each)
            since = place + 1
    made.append(_words(out[since:]))
    made[0], made[-1] = made[0].lstrip("\n"), made[-1].rstrip()
    return made


def _words(words: list[str]) -> str:
    joined = "".join(words)
    while "\n\n" in joined:
        joined = joined.replace("\n\n", "\n")
    return joined


def harmless(value: str) -> str:
    """A value in one line, without what cannot be seen."""
    if value.isprintable():
        return value
    return " ".join("".join(each if each.isprintable() else " " for each in value).split())


class _Voice:
    """One version of a template, for agents of one runtime with the same tools in one organisation."""

    def __init__(self, script: Script, seat: Seat, public_url: str, chain: str) -> None:
        parts = script.parts
        url = parts.docs_url or ""
        self.docs_url = public_url + url if url.startswith("/") else url
        self.stdout_warning = parts.stdout_warning or ""
        self._script = script
        self._wanted = parts.reply_tool or rules.REPLY
        self._seat = seat
        self.tools = rules.available(seat.tools, (self._wanted, *parts.tools))
        spelled = tuple([rules.spelled(name, seat.runtime) for name in self.tools])
        # A template that does not know the command says to a program what it says to any agent without a tool.
        self._by_command = seat.command_line and script.knows_command
        ways = (REPLY_COMMAND,) if self._by_command else () if seat.known_tools else ("?",)
        said = (chain, self.docs_url, *spelled, *ways)
        self.facts_key = f"{rules.hash64(*said):016x}"
        self._index = {name: (place, name, spelled[place]) for place, name in enumerate(self.tools)}
        # What is written for each variable; what is another with each message is a place.
        self._said: dict[str, Any] = {**SLOTS, "docs_url": self.docs_url, "available_tools": spelled}
        # A handle is of no use to an agent that cannot give it.
        if rules.REPLY_BY_HANDLE not in self.tools and not self._by_command:
            self._said["reply_handle"] = ""
        self._replies: dict[str, tuple[str, str]] = {}
        self._full: dict[Any, _Skeleton] = {}
        self._compact: dict[Any, _Skeleton] = {}
        self._delta: dict[Any, _Skeleton] = {}

    def skeleton(self, form: Form, facts: Facts) -> _Skeleton:
        """The words for a message of this sort."""
        script = self._script
        if form is _FULL:
            known, asks = self._full, script.asks_all
        else:
            known, asks = (self._compact if form is _COMPACT else self._delta), script.asks_short
        if script.names_files and facts.attachments:  # their names stand in it
            return self.make(form, facts)
        a, b, c, d, e, f = asks.pick(facts)
        # control: render-cache-key
        key: Any = (facts.kind, facts.intent, facts.reminder, not a, not b, not c, not d, not e, not f)
        if asks.more is not None:
            key = (*key, *asks.more(facts))
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_SKELETONS:
                known.clear()
            found = known[key] = self.make(form, facts)
        return found

    def make(self, form: Form, facts: Facts) -> _Skeleton:
        """The same, not remembered."""
        bare, spoken = self._reply_tool(facts.kind)
        values = dict(zip(syntax.PER_MESSAGE, _pick_all(facts), strict=True))
        values["attempt"] = str(facts.attempt)
        said = self._said.copy()
        if said["reply_handle"] == "":
            values["reply_handle"] = ""
        if facts.attachments:
            values["attachments"] = tuple(map(harmless, facts.attachments))
        said["attachments"] = values["attachments"]
        values["kind"] = said["kind"] = facts.kind
        values["intent"] = said["intent"] = facts.intent
        values["reply_tool"], said["reply_tool"] = bare, spoken
        values["docs_url"], values["available_tools"] = self.docs_url, self.tools
        limits = self._script.limits
        scene = Scene(values, said, self._index, limits)
        for step in self._script.steps(form, reminder=facts.reminder):
            step(scene)
            scene.out.append("\n")
        return _Skeleton(scene, spoken, limits.instruction_bytes)

    def _reply_tool(self, kind: str) -> tuple[str, str]:
        """What answers this kind of message: bare, and as the runtime spells it."""
        found = self._replies.get(kind)
        if found is None:
            seat = self._seat
            found = (REPLY_COMMAND, DECIDE_COMMAND if kind == rules.ASKS else REPLY_COMMAND)
            if not self._by_command:
                bare = rules.reply_tool(self._wanted, kind, seat.tools, known=seat.known_tools)
                found = (bare, rules.spelled(bare, seat.runtime) if bare else "")
            if len(self._replies) < _MOST_SKELETONS:
                self._replies[kind] = found
        return found


_pick_all = picker(syntax.PER_MESSAGE)


# -- the renderer ------------------------------------------------------------------------------------------------------


@lru_cache(_MOST_SEATS)
def seat_of(workspace_id: str, org_id: str, runtime: str, template_id: str | None, card: str | None) -> Seat:
    """The agent of a workspace, by what is known of it; `card`: JSON. While nothing of that changes it is one object,
    which the renderer finds fastest."""
    return Seat(workspace_id, org_id, runtime, template_id, *rules.told_by(card))


class Renderer:
    """Renders for everybody. `failed`: how often a template could not be rendered; `when_failed` is told of each."""

    def __init__(self, catalogue: Catalogue, *, public_url: str, limits: Limits) -> None:
        self._catalogue = catalogue
        self._public_url = public_url.rstrip("/")
        self._limits = limits
        self._roomy = limits.instruction_bytes // _WIDEST
        self._seen = -1
        self._decided: dict[Seat, _Decided] = {}
        self._of_seat: dict[tuple[Seat, Choice], _Voice] = {}
        self._voices: dict[Any, _Voice] = {}
        self._scripts: dict[tuple[str, str, Choice], tuple[Script, str] | Wrong] = {}
        self.failed = 0
        self.when_failed: Failed = lambda _seat, _choice, _reason: None

    def choose(self, seat: Seat, activity_id: str, number: int | None = None) -> Choice:
        """The version that a message's agent is told with: always the same for the same message. `number`: the
        message's in its inbox."""
        self._look()
        decided = self._decided.get(seat)
        if decided is None:
            if len(self._decided) >= _MOST_SEATS:
                self._decided.clear()
            decided = self._decided[seat] = self._decide(seat)
        if decided.canary is None:
            return decided.base
        tried = rules.falls_to_canary(decided.percent, decided.place, number, activity_id)
        return decided.canary if tried else decided.base

    def facts_key(self, seat: Seat, choice: Choice) -> str:
        """What an agent has been told that does not change from message to message; another text: something of it is
        other now, and a delta says what."""
        return self._voice(seat, choice).facts_key

    def render(self, seat: Seat, choice: Choice, form: Form, facts: Facts) -> Rendered | None:
        """The words for one message; None: there are none, and whoever counts failures was told."""
        try:
            voice = self._of_seat.get((seat, choice)) if self._seen == self._catalogue.changes else None
            if voice is None:
                voice = self._voice(seat, choice)
            skeleton = voice.skeleton(form, facts)
            text = skeleton.filled(facts)
        except Exception as error:
            self.broke(seat, choice, error)
            return None
        if len(text) > self._roomy and self._too_long(text):  # control: text-length
            self._fail(seat, choice, f"its words have more than {self._limits.instruction_bytes} bytes")
            return None
        return Rendered(
            choice,
            form,
            text,
            skeleton.reply_via,
            voice.docs_url,
            voice.stdout_warning,
            voice.tools,
            skeleton.tokens + (len(text) - skeleton.length) * _TOKENS_OF_FOUR // 4,
        )

    def anew(self, seat: Seat, choice: Choice, form: Form, facts: Facts) -> str:
        """The same words, put together as if no message had come before."""
        return self._voice(seat, choice).make(form, facts).filled(facts)

    def forget(self) -> None:
        """All that is remembered is made anew."""
        self._decided.clear()
        self._of_seat.clear()
        self._voices.clear()
        self._scripts.clear()

    def _look(self) -> None:
        if self._seen != self._catalogue.changes:
            self._seen = self._catalogue.changes
            self.forget()

    def _too_long(self, text: str) -> bool:
        return len(text.encode("utf-8", "surrogatepass")) > self._limits.instruction_bytes

    def broke(self, seat: Seat, choice: Choice | None, error: Exception) -> None:
        """Nothing can be said with a message. `choice`: None where none could be made."""
        wanted = choice or Choice(seat.template_id or rules.default_of(seat.runtime), 0, seat.org_id)
        self._fail(seat, wanted, str(error) if isinstance(error, TooMuch) else f"{type(error).__name__}: {error}")

    def _fail(self, seat: Seat, choice: Choice, reason: str) -> None:
        self.failed += 1
        try:
            self.when_failed(seat, choice, reason)
        except Exception:  # whoever is told of failures must not make another one of them
            _log.exception("that the template %s failed could not be told", choice.name)

    def _decide(self, seat: Seat) -> "_Decided":
        for template_id in (seat.template_id, rules.default_of(seat.runtime), rules.GENERIC):
            choice = self._catalogue.choice(seat.org_id, template_id) if template_id else None
            base = None if choice is None else self._catalogue.version(choice.org_id, choice.id, choice.version)
            if choice is None or base is None:
                continue
            tried = self._catalogue.version(choice.org_id, choice.id, choice.canary) if choice.canary else None
            place = rules.hash64(seat.workspace_id, choice.id, str(choice.canary))
            return _Decided(base.choice, tried.choice if tried else None, choice.percent, place)
        raise LookupError("there is no template at all")

    def _voice(self, seat: Seat, choice: Choice) -> _Voice:
        self._look()
        found = self._of_seat.get((seat, choice))
        if found is None:
            if len(self._of_seat) >= _MOST_SEATS:
                self._of_seat.clear()
            found = self._of_seat[seat, choice] = self._shared_voice(seat, choice)
        return found

    def _shared_voice(self, seat: Seat, choice: Choice) -> _Voice:
        key = (seat.org_id, choice, seat.runtime, seat.tools, seat.known_tools, seat.command_line)
        found = self._voices.get(key)
        if found is None:
            if len(self._voices) >= _MOST_VOICES:
                self._voices.clear()
            script, chain = self._script(seat, choice)
            found = self._voices[key] = _Voice(script, seat, self._public_url, chain)
        return found

    def _script(self, seat: Seat, choice: Choice) -> tuple[Script, str]:
        """What a version says with those it extends, and their names."""
        org_id, default_id = seat.org_id, rules.default_of(seat.runtime)
        found = self._scripts.get((org_id, default_id, choice))
        if found is None:
            leaf = self._catalogue.exactly(choice)
            if leaf is None:
                raise LookupError(f"{choice.name} is not there any more")
            templates, _ = rules.chain(leaf, lambda id_: self._catalogue.find(org_id, id_), default_id=default_id)
            told = " ".join(f"{each.org_id}/{each.choice.name}" for each in templates)
            try:
                found = (Script(rules.merged(templates), self._limits), told)
            except Wrong as wrong:  # found once, not with each message anew
                found = wrong
            self._scripts[org_id, default_id, choice] = found
        if isinstance(found, Wrong):
            raise found.with_traceback(None)
        return found


class _Decided(Struct, frozen=True):
    """Which versions an agent is told with."""

    base: Choice
    canary: Choice | None
    percent: int
    place: int
