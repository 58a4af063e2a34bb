"""Skills in the Agent Skills format: a folder with SKILL.md, whose front matter names and describes it, and what it
needs beside it.

Above: home. Below: own_files, plain_yaml.
"""

import re
from pathlib import Path

from msgspec import Struct

from molecule_core.agent.neutral import line, visible
from molecule_core.agent.own_files import Unreadable, read_own
from molecule_core.agent.plain_yaml import BadYaml, read_yaml

FOLDER, FILE = "skills", "SKILL.md"
MOST_SKILLS = 100
MOST_BYTES = 64 << 10
"""One SKILL.md."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024
_FENCE = "---"


class Skill(Struct, frozen=True, kw_only=True):
    """One skill. `folder`: where its files are, below the home; `body`: what it teaches, without the front matter."""

    name: str
    description: str
    body: str
    folder: str


class BadSkill(Exception):
    """A skill is left out; the text is one line that says why."""


def load_skill(home: Path, name: str) -> Skill:
    """The skill of a folder below `skills/`. Raises BadSkill."""
    shown = line(name, _LONGEST_NAME)
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise BadSkill(f"skill {shown!r}: a skill's folder is named with a-z, 0-9 and single hyphens")
    folder = f"{FOLDER}/{name}"
    try:
        head, body = _split(read_own(home, f"{folder}/{FILE}", MOST_BYTES))
        fields = read_yaml(head)
    except (Unreadable, BadYaml) as error:
        raise BadSkill(f"skill {shown!r}: {folder}/{FILE}: {error}") from None
    given, description = fields.get("name"), fields.get("description")
    if given != name:
        raise BadSkill(f"skill {shown!r}: name in its front matter is not that of its folder")
    if not isinstance(description, str) or not description.strip() or len(description) > _LONGEST_DESCRIPTION:
        raise BadSkill(f"skill {shown!r}: description in its front matter has 1 to {_LONGEST_DESCRIPTION} characters")
    return Skill(
        name=name, description=line(description, _LONGEST_DESCRIPTION), body=visible(body).strip(), folder=folder
    )


def _split(text: str) -> tuple[str, str]:
    """Front matter and body. Raises BadYaml."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise BadYaml(f"it does not begin with a line {_FENCE} and its front matter")
    for number, each in enumerate(lines[1:], 1):
        if each.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise BadYaml(f"its front matter has no end: a line {_FENCE}")
