"""Rules: which files can be shared, and which prompts can be reported. Pure."""

import re
from collections.abc import Iterable, Sequence

from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import find_hidden_character
from molecule_core.prompts.model import StoredSharedFile
from molecule_core.wire.schemas.prompts import PromptBuild, PromptSection, SharedFile

_DRIVE_LETTER = re.compile(r"[A-Za-z]:")
_FORBIDDEN_CHARACTERS = set('<>:"|?*`')


def check_path(path: str, max_length: int) -> str:
    """Check the path of a shared file: relative, forward slashes, visible characters, no `..`. Raises InvalidField."""
    if not path or len(path) > max_length:
        raise InvalidField(reason=f"the path of a shared file has 1 to {max_length} characters")
    bad = find_hidden_character(path) or next((each for each in path if each in _FORBIDDEN_CHARACTERS), None)
    if bad is not None:
        raise InvalidField(reason=f"the path of a shared file holds U+{ord(bad):04X}; remove it")
    parts = path.split("/")
    if (
        path.startswith("~")
        or "\\" in path
        or _DRIVE_LETTER.match(path)
        or any(each.strip() in ("", ".", "..") for each in parts)
    ):
        raise InvalidField(reason="the path of a shared file is relative: names with / between them, no . and no ..")
    return path


def check_files(files: Sequence[SharedFile], limits: Limits) -> Sequence[SharedFile]:
    """Check number, names and sizes of shared files. Raises InvalidField."""
    if len(files) > limits.shared_files:
        raise InvalidField(reason=f"{len(files)} files are too many; share at most {limits.shared_files}")
    seen, total = set(), 0
    for each in files:
        check_path(each.path, limits.shared_path_length)
        if each.path.casefold() in seen:
            raise InvalidField(reason="two shared files have one path; names differ in more than case")
        seen.add(each.path.casefold())
        size = len(each.content.encode())
        if size > limits.shared_file_bytes:
            raise InvalidField(reason=f"a shared file has {size} bytes; at most {limits.shared_file_bytes} are taken")
        total += size
    if total > limits.shared_context_bytes:
        raise InvalidField(
            reason=f"the shared files have {total} bytes; at most {limits.shared_context_bytes} are taken"
        )
    return files


def merge_files(old: Iterable[StoredSharedFile], new: Iterable[SharedFile], now: int) -> tuple[StoredSharedFile, ...]:
    """Return the files to store. A file with unchanged content keeps its time."""
    before = {each.path: each for each in old}
    merged = []
    for each in new:
        known = before.get(each.path)
        same = known is not None and known.content == each.content
        merged.append(known if same and known is not None else StoredSharedFile(each.path, each.content, now))
    return tuple(merged)


def check_build(build: PromptBuild, limits: Limits) -> None:
    """Check a reported prompt. Raises InvalidField."""
    if len(build.sections) > limits.prompt_sections:
        raise InvalidField(
            reason=f"the prompt has {len(build.sections)} sections; at most {limits.prompt_sections} are taken"
        )
    if len(build.warnings) > limits.prompt_sections:
        raise InvalidField(
            reason=f"there are {len(build.warnings)} warnings; at most {limits.prompt_sections} are taken"
        )
    last = 0
    for each in build.sections:
        _check_section(each, last)
        last = each.part


def _check_section(section: PromptSection, last: int) -> None:
    if section.part < last:
        raise InvalidField(reason="the sections are not in the order of their parts, from 1 to 6")
    if len(section.text.encode()) != section.bytes:
        raise InvalidField(reason="bytes of a section is not the size of its text in UTF-8")
