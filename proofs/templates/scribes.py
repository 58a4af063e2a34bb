"""What `prove templates` tries: a corpus that must be refused, and templates as chance writes them."""

import random
import time
from collections import Counter
from typing import Any

from msgspec.structs import replace

from molecule_core.common.errors import InvalidTemplate
from molecule_core.common.limits import Limits
from molecule_core.instructions.builtin_templates import builtin_catalogue
from molecule_core.instructions.language import ast, parser
from molecule_core.instructions.model import (
    ActiveVersion,
    AgentProfile,
    MessageContext,
    RenderedText,
    Template,
    TemplateContent,
    TemplateVersionRef,
    Verbosity,
)
from molecule_core.instructions.render import Renderer
from molecule_core.instructions.validation import TemplateValidator
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from testing.templates import BOMBS, BOMBS_OF_MANY_TEXTS, ESCAPES, MISTAKES

_LIMITS = Limits()
_MOST_SECONDS = 0.1
_EXAMPLES = 5
_RUNTIMES = ("claude-code", "codex", "generic-mcp", "gemini-cli")
_SCALARS = tuple(name for name in ast.VARIABLES if name not in ast.LIST_VARIABLES)
# What values hold: pieces of templates, of formats, of other lines.
_VALUES = (
    "",
    "",
    "",
    "{{ kind }}",
    "{% if kind %}x{% endif %}",
    "%s %(kind)s %%",
    "{0} {kind}",
    "reply",
    "x",
    "a\nb",
    "é" * 40,
    "\ud800",
    "r" * 500,
    "</instructions>",
)
# Two values of one length and one sort: whatever a template does with the one it does with the other.
_TRICKY, _PLAIN = "{{ kind }}", "zqzqzqzqzq"
_TEXTS = tuple(name for name in MessageContext.__struct_fields__ if isinstance(getattr(MessageContext(), name), str))
_CHOICE = TemplateVersionRef("t", 1, "org")
_BROKEN = ("{{", "}}", "{%", "%}", "{#", "|", "==", "(", '"', "endif", "not", "\x00", "for", ".", "[0]", "{% endfor %}")


class _Scribe:
    """Writes templates by chance: of the language, with a mistake now and then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def text(self) -> str:
        """A whole one."""
        made = "".join(self._piece(depth=0, loop="") for _ in range(self._chance.randrange(1, 12)))
        while self._chance.random() < 0.35:
            place = self._chance.randrange(len(made) + 1)
            cut = place + (self._chance.randrange(4) if self._chance.random() < 0.5 else 0)
            made = made[:place] + self._chance.choice(_BROKEN) + made[cut:]
        return made

    def _piece(self, *, depth: int, loop: str) -> str:
        pick = self._chance.random()
        if pick < 0.4 or depth > 4:
            return self._words()
        if pick < 0.6:
            return f"{{{{ {self._scalar(loop)} }}}}"
        if pick < 0.67:
            return f'{{{{ {self._chance.choice(ast.LIST_VARIABLES)} | join("{self._words()[:3]}") }}}}'
        if pick < 0.9:
            return self._if(depth, loop)
        name = self._chance.choice(("tool", "file", "kind", "x"))
        inner = "".join(self._piece(depth=depth + 1, loop=name) for _ in range(self._chance.randrange(1, 4)))
        return f"{{% for {name} in {self._chance.choice(ast.LIST_VARIABLES)} %}}{inner}{{% endfor %}}"

    def _if(self, depth: int, loop: str) -> str:
        made = f"{{% if {self._condition(loop)} %}}{self._piece(depth=depth + 1, loop=loop)}"
        while self._chance.random() < 0.3:
            made += f"{{% elif {self._condition(loop)} %}}{self._piece(depth=depth + 1, loop=loop)}"
        if self._chance.random() < 0.4:
            made += f"{{% else %}}\n{self._piece(depth=depth + 1, loop=loop)}\n"
        return made + "{% endif %}"

    def _condition(self, loop: str) -> str:
        made = " not" * self._chance.choice((0, 0, 0, 1, 2)) + " " + self._scalar(loop)
        if self._chance.random() < 0.5:
            other = self._chance.choice(('"reply"', "'x'", "2", self._scalar(loop)))
            made += f" == {other}"
        if self._chance.random() < 0.3:
            made += f" {self._chance.choice(('and', 'or'))}{self._condition(loop)}"
        return made.strip()

    def _scalar(self, loop: str) -> str:
        if loop and self._chance.random() < 0.4:
            return loop
        return self._chance.choice(_SCALARS)

    def _words(self) -> str:
        if self._chance.random() < 0.06:
            return "w" * self._chance.randrange(500, 3000)
        return self._chance.choice(("a ", "é", "\n", "100% ", "{kind}", "Docs: ", "  ", "<b>", "{", "%"))


class _Reader:
    """Looks at what becomes of them."""

    def __init__(self, setting: Setting) -> None:
        self._chance = setting.dice("messages")
        self._scribe = _Scribe(setting.dice("templates"))
        self._size = setting.size
        self.slowest = 0.0
        self.longest = 0
        self.figures: Counter[str] = Counter()
        self.zeros: Counter[str] = Counter()
        self.notes: list[str] = []

    def verdict(self) -> Verdict:
        """All of it, one after the other."""
        for text in (*ESCAPES, *BOMBS, *MISTAKES):
            if self._tree(text) is not None:
                self._note("known bombs and escapes accepted", text)
        for parts in BOMBS_OF_MANY_TEXTS:
            self._too_much(parts)
        self.figures.clear()
        for _ in range(self._size):
            text = self._scribe.text()
            tree = self._tree(text)
            if tree is not None:
                self._render(text)
        figures: dict[str, Figure] = {
            **self.figures,
            "slowest ms of CPU": round(self.slowest * 1000),
            "longest words in bytes": self.longest,
        }
        names = (
            "known bombs and escapes accepted",
            "refused without line or reason",
            "broke down",
            "words over the bound",
            "over 100 ms of CPU",
            "values read as templates",
            "words that differ from those made anew",
        )
        zeros = {name: self.zeros[name] for name in names}
        return Verdict(figures, zeros, self.notes)

    def _note(self, what: str, text: str) -> None:
        self.zeros[what] += 1
        if len(self.notes) < _EXAMPLES:
            self.notes.append(f"{what}: {text[:200]!a}")

    def _too_much(self, parts: TemplateContent) -> None:
        """Each of its texts may be taken, all of them may not; and if it stood in the store, it would do no harm."""
        template = Template("org", "t", 1, "", None, parts, None, 0, "scribe")
        try:
            TemplateValidator(builtin_catalogue(), public_url="", limits=_LIMITS).validate_template(template)
        except InvalidTemplate:
            pass
        else:
            self._note("known bombs and escapes accepted", repr(parts))
        catalogue = builtin_catalogue()
        catalogue.put_versions([template], [ActiveVersion("org", "t", 1, None, 0, 0)])
        tools = (*ALL_TOOL_NAMES, *parts.tools)
        facts = replace(MessageContext(), kind="canvas_user", peer_role="é" * 500, attachments=("f" * 255,) * 10)
        began = time.process_time()
        made = Renderer(catalogue, public_url="", limits=_LIMITS).render(
            AgentProfile("w", "org", "claude-code", "t", tools, has_tool_list=True), _CHOICE, Verbosity.FULL, facts
        )
        if time.process_time() - began > _MOST_SECONDS:
            self._note("over 100 ms of CPU", repr(parts))
        if made is not None:
            self._judge(repr(parts), made)

    def _tree(self, text: str) -> ast.Body | None:
        try:
            parsed = parser.parse(text, max_bytes=_LIMITS.template_bytes, max_nodes=_LIMITS.template_nodes)
        except parser.TemplateSyntaxError as refused:
            self.figures["refused"] += 1
            if not 1 <= refused.line <= text.count("\n") + 1 or not refused.reason:
                self._note("refused without line or reason", text)
            return None
        except Exception as error:
            self._note("broke down", f"{error!r}: {text}")
            return None
        self.figures["accepted"] += 1
        return parsed.body

    def _render(self, text: str) -> None:
        renderer = self._renderer(text)
        seat, form = self._seat(), self._chance.choice(list(Verbosity))
        first = self._facts()
        # Of the same sort, so that only what is asked of single messages tells them apart.
        second = replace(self._facts(), kind=first.kind, intent=first.intent)
        for facts in (first, second, first, second):  # at last both are remembered
            self._look(text, renderer, (seat, _CHOICE, form, facts))
        for facts in (first, second):
            anew = self._renderer(text).render(seat, _CHOICE, form, facts)
            if renderer.render(seat, _CHOICE, form, facts) != anew:
                self._note("words that differ from those made anew", text)
        tricky, plain = (self._said(renderer, seat, form, value) for value in (_TRICKY, _PLAIN))
        if tricky != (None if plain is None else plain.replace(_PLAIN, _TRICKY)):
            self._note("values read as templates", text)

    def _said(self, renderer: Renderer, seat: AgentProfile, form: Verbosity, value: str) -> str | None:
        """The words for a message all of whose values are one text."""
        named = dict.fromkeys(_TEXTS, value)
        facts = replace(
            MessageContext(), **{**named, "kind": "canvas_user", "intent": "request", "attachments": (value,)}
        )
        made = renderer.render(seat, _CHOICE, form, facts)
        return None if made is None else made.text

    def _renderer(self, text: str) -> Renderer:
        parts = TemplateContent(lines=(text,), blocks={"reply": "r", "compact": text})
        catalogue = builtin_catalogue()
        template = Template("org", "t", 1, "", None, parts, None, 0, "scribe")
        catalogue.put_versions([template], [ActiveVersion("org", "t", 1, None, 0, 0)])
        return Renderer(catalogue, public_url="", limits=_LIMITS)

    def _look(
        self, text: str, renderer: Renderer, wish: tuple[AgentProfile, TemplateVersionRef, Verbosity, MessageContext]
    ) -> None:
        failures: list[str] = []
        renderer.on_failure = lambda _seat, _choice, reason: failures.append(reason)
        began = time.process_time()
        made = renderer.render(*wish)
        seconds = time.process_time() - began
        self.slowest = max(self.slowest, seconds)
        self.figures["rendered" if made is not None else "too long to be said"] += 1
        if seconds > _MOST_SECONDS:
            self._note("over 100 ms of CPU", text)
        if made is None:
            if not failures or "larger than" not in failures[0]:
                self._note("broke down", f"{failures}: {text}")
            return
        self._judge(text, made)

    def _judge(self, text: str, made: RenderedText) -> None:
        size = len(made.text.encode("utf-8", "surrogatepass"))
        self.longest = max(self.longest, size)
        if size > _LIMITS.instruction_bytes:
            self._note("words over the bound", text)

    def _seat(self) -> AgentProfile:
        tools = tuple(self._chance.sample(ALL_TOOL_NAMES, self._chance.randrange(len(ALL_TOOL_NAMES) + 1)))
        return AgentProfile(
            "w", "org", self._chance.choice(_RUNTIMES), "t", tools, self._chance.random() < 0.8, not tools
        )

    def _facts(self) -> MessageContext:
        pick = self._chance.choice
        values: dict[str, Any] = {name: pick(_VALUES) for name in _TEXTS}
        files = tuple(pick(_VALUES) for _ in range(self._chance.choice((0, 0, 1, 10))))
        more = {"kind": pick(tuple(MessageKind)), "intent": pick(("request", "inform"))}
        return replace(
            MessageContext(), **{**values, **more, "attempt": self._chance.randrange(3), "attachments": files}
        )


async def run(setting: Setting) -> Verdict:
    """Nothing of it waits."""
    return _Reader(setting).verdict()


if __name__ == "__main__":
    as_a_child(run)
