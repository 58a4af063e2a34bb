"""Loads skills in the Agent Skills format: a folder with SKILL.md, whose front matter has name and description."""

import re
from pathlib import Path

from msgspec import Struct

from molecule_core.agent.prompt.safe_files import UnreadableFileError, read_safe_file
from molecule_core.agent.prompt.safe_yaml import InvalidYamlError, read_yaml
from molecule_core.agent.sanitize import sanitize_line, strip_invisible

SKILLS_FOLDER, SKILL_FILE = "skills", "SKILL.md"
MAX_SKILLS = 100
DEFAULT_SKILL_BYTES = 64 << 10
"""Size limit of one SKILL.md, if config.yaml sets no other."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_NAME, _LONGEST_DESCRIPTION = 64, 1024
_FENCE = "---"


class Skill(Struct, frozen=True, kw_only=True):
    """One skill. `folder`: path of its files below the home. `body`: its text without the front matter."""

    name: str
    description: str
    body: str
    folder: str


class InvalidSkillError(Exception):
    """A skill is skipped; the text is one line with the reason."""


def load_skill(home: Path, name: str, *, max_bytes: int = DEFAULT_SKILL_BYTES) -> Skill:
    """Load the skill of a folder below `skills/`. Raises InvalidSkillError."""
    safe_name = sanitize_line(name, _LONGEST_NAME)
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidSkillError(f"skill {safe_name!r}: the folder name must consist of a-z, 0-9 and single hyphens")
    folder = f"{SKILLS_FOLDER}/{name}"
    try:
        head, body = _split_front_matter(read_safe_file(home, f"{folder}/{SKILL_FILE}", max_bytes))
        # Scalars are text, as for other readers of the format: a skill may be named `yes`. The fence is line 1.
        fields = read_yaml(head, scalars_as_text=True, first_line=2)
    except (UnreadableFileError, InvalidYamlError) as error:
        raise InvalidSkillError(f"skill {safe_name!r}: {folder}/{SKILL_FILE}: {error}") from None
    declared_name, description = fields.get("name"), fields.get("description")
    if declared_name != name:
        raise InvalidSkillError(f"skill {safe_name!r}: name in its front matter must equal the name of its folder")
    if not isinstance(description, str) or not description.strip() or len(description) > _LONGEST_DESCRIPTION:
        raise InvalidSkillError(
            f"skill {safe_name!r}: description in its front matter must have 1 to {_LONGEST_DESCRIPTION} characters"
        )
    return Skill(
        name=name,
        description=sanitize_line(description, _LONGEST_DESCRIPTION),
        body=strip_invisible(body).strip(),
        folder=folder,
    )


def _split_front_matter(text: str) -> tuple[str, str]:
    """Split a text into front matter and body. Raises InvalidYamlError."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise InvalidYamlError(f"it must begin with a line {_FENCE} and its front matter")
    for number, each in enumerate(lines[1:], 1):
        if each.rstrip() == _FENCE:
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    raise InvalidYamlError(f"its front matter has no end: a line {_FENCE} is missing")
