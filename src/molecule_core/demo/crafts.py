"""What the agents of the company can do: small functions from a text to Markdown. Pure, and total."""

from molecule_core.demo.model import Check, Checks, Craft, Estimate, Plan, Topics
from molecule_core.demo.reading import count_sentences, names, stems_of, things_in, words_of
from molecule_core.ground.text import shorten

_QUOTE_LENGTH = 60
_THINGS_IN_A_STEP = 3


def practise(craft: Craft, text: str) -> str:
    """What a craft has to say about a text: a title, and what stands below it."""
    return f"**{craft.title}**\n\n{_body(craft, text)}"


def _body(craft: Craft, text: str) -> str:
    match craft:
        case Topics():
            return _topics(craft, text)
        case Checks():
            return _checks(craft, text)
        case Estimate():
            return _estimate(craft, text)
        case Plan():
            return _plan(craft, text)


def quoted(text: str) -> str:
    """The beginning of a text in quotation marks."""
    return f"“{shorten(text, _QUOTE_LENGTH)}”"


def joined(parts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def counted(number: int, one: str) -> str:
    """`1 word`, `2 words`."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _topics(craft: Topics, text: str) -> str:
    things = things_in(text, craft.most)
    lines = [f"- {thing}" for thing in things] or ["- nothing that I could name"]
    size = f"{counted(len(words_of(text)), 'word')} in {counted(count_sentences(text), 'sentence')}"
    return "\n".join([*lines, "", f"({size})"])


def _checks(craft: Checks, text: str) -> str:
    stems = stems_of(text)
    found = [f"- {item.say}" for item in craft.items if _applies(item, stems)]
    return "\n".join(found) or f"- none of my {counted(len(craft.items), 'rule')} speaks up"


def _applies(item: Check, stems: frozenset[str]) -> bool:
    said = any(names(stems, word) for word in item.when or item.unless)
    return said if item.when else not said


def _estimate(craft: Estimate, text: str) -> str:
    stems = stems_of(text)
    found = {thing: days for thing, days in craft.days.items() if names(stems, thing)}
    if not found:
        return f"- nothing of this is in my table: {_days(craft.otherwise)}, to begin with"
    lines = [f"- {thing}: {_days(days)}" for thing, days in found.items()]
    return "\n".join([*lines, f"- **altogether {_days(sum(found.values()))}**"])


def _days(days: float) -> str:
    return f"{days:g} {'day' if days == 1 else 'days'}"


def _plan(craft: Plan, text: str) -> str:
    things = things_in(text, _THINGS_IN_A_STEP) or [quoted(text) if text.strip() else "it"]
    steps = [step.replace("{things}", joined(things)).replace("{thing}", things[0]) for step in craft.steps]
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
