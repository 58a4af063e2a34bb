"""The skills of the demo agents: functions from any text to Markdown. Pure."""

from molecule_core.common.text import truncate_line
from molecule_core.demo.model import Check, Checks, DemoSkill, Estimate, Plan, Topics
from molecule_core.demo.text_analysis import count_sentences, find_topics, names_phrase, split_words, stems_of

_QUOTE_LENGTH = 60
_THINGS_IN_A_STEP = 3


def apply_skill(skill: DemoSkill, text: str) -> str:
    """Return the title and the text of a skill for a text."""
    return f"**{skill.title}**\n\n{_skill_text(skill, text)}"


def _skill_text(skill: DemoSkill, text: str) -> str:
    match skill:
        case Topics():
            return _topics_text(skill, text)
        case Checks():
            return _checks_text(skill, text)
        case Estimate():
            return _estimate_text(skill, text)
        case Plan():
            return _plan_text(skill, text)


def quote_start(text: str) -> str:
    """Return the start of a text in quotation marks."""
    return f"“{truncate_line(text, _QUOTE_LENGTH)}”"


def join_list(parts: list[str]) -> str:
    """Join items: `a`, `a and b`, `a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def count_noun(number: int, one: str) -> str:
    """Return a number with its noun: `1 word`, `2 words`."""
    return f"{number} {one}" if number == 1 else f"{number} {one}s"


def _topics_text(skill: Topics, text: str) -> str:
    things = find_topics(text, skill.most)
    lines = [f"- {thing}" for thing in things] or ["- no clear topic"]
    size = f"{count_noun(len(split_words(text)), 'word')} in {count_noun(count_sentences(text), 'sentence')}"
    return "\n".join([*lines, "", f"({size})"])


def _checks_text(skill: Checks, text: str) -> str:
    stems = stems_of(text)
    found = [f"- {item.say}" for item in skill.items if _applies(item, stems)]
    return "\n".join(found) or f"- none of my {count_noun(len(skill.items), 'rule')} applies"


def _applies(item: Check, stems: frozenset[str]) -> bool:
    is_mentioned = any(names_phrase(stems, word) for word in item.when or item.unless)
    return is_mentioned if item.when else not is_mentioned


def _estimate_text(skill: Estimate, text: str) -> str:
    stems = stems_of(text)
    found = {thing: days for thing, days in skill.days.items() if names_phrase(stems, thing)}
    if not found:
        return f"- no known item; first estimate: {_format_days(skill.otherwise)}"
    lines = [f"- {thing}: {_format_days(days)}" for thing, days in found.items()]
    return "\n".join([*lines, f"- **total: {_format_days(sum(found.values()))}**"])


def _format_days(days: float) -> str:
    return f"{days:g} {'day' if days == 1 else 'days'}"


def _plan_text(skill: Plan, text: str) -> str:
    things = find_topics(text, _THINGS_IN_A_STEP) or [quote_start(text) if text.strip() else "it"]
    steps = [step.replace("{things}", join_list(things)).replace("{thing}", things[0]) for step in skill.steps]
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))
