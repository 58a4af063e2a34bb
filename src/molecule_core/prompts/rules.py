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
        raise InvalidField(
            reason=f"the path of a shared file cannot have {len(path)} characters. Use 1 to {max_length}."
        )
    bad = find_hidden_character(path) or next((each for each in path if each in _FORBIDDEN_CHARACTERS), None)
    if bad is not None:
        raise InvalidField(reason=f"the path of a shared file cannot have U+{ord(bad):04X}. Remove it.")
    parts = path.split("/")
    if (
        path.startswith("~")
        or "\\" in path
        or _DRIVE_LETTER.match(path)
        or any(each.strip() in ("", ".", "..") for each in parts)
    ):
        raise InvalidField(
            reason="the path of a shared file must be relative, without . and .. parts. Use names separated by /."
        )
    return path


def check_files(files: Sequence[SharedFile], limits: Limits) -> Sequence[SharedFile]:
    """Check number, names and sizes of shared files. Raises InvalidField."""
    if len(files) > limits.shared_files:
        raise InvalidField(reason=f"a workspace cannot share {len(files)} files. Share at most {limits.shared_files}.")
    seen, total = set(), 0
    for each in files:
        check_path(each.path, limits.shared_path_length)
        if each.path.casefold() in seen:
            raise InvalidField(reason="two shared files cannot have the same path, ignoring case. Rename one of them.")
        seen.add(each.path.casefold())
        size = len(each.content.encode())
        if size > limits.shared_file_bytes:
            raise InvalidField(
                reason=f"a shared file cannot have {size} bytes. Use at most {limits.shared_file_bytes}."
            )
        total += size
    if total > limits.shared_context_bytes:
        raise InvalidField(
            reason=f"the shared files cannot have {total} bytes in total. Use at most {limits.shared_context_bytes}."
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
            reason=f"the prompt cannot have {len(build.sections)} sections. Use at most {limits.prompt_sections}."
        )
    if len(build.warnings) > limits.prompt_sections:
        raise InvalidField(
            reason=f"the prompt cannot have {len(build.warnings)} warnings. Send at most {limits.prompt_sections}."
        )
    last = 0
    for each in build.sections:
        _check_section(each, last)
        last = each.part


def _check_section(section: PromptSection, last: int) -> None:
    if section.part < last:
        raise InvalidField(reason="the sections are not in the order of their parts. Sort them by part, from 1 to 6.")
    if len(section.text.encode()) != section.bytes:
        raise InvalidField(
            reason="bytes of a section differs from the size of its text. Send the size of the text in UTF-8."
        )
