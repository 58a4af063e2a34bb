"""Shared files of a workspace and the prompts that its agent reported."""

from msgspec import Struct


class StoredSharedFile(Struct, frozen=True):
    """A shared file. `updated_at` in microseconds: when its content last changed."""

    path: str
    content: str
    updated_at: int


class SharedFiles(Struct, frozen=True):
    """All shared files of a workspace, in their order; revision 0: it has never shared any."""

    revision: int = 0
    files: tuple[StoredSharedFile, ...] = ()


class StoredPrompt(Struct, frozen=True):
    """A reported prompt, in the order of the columns. `build` is JSON, `built_at` microseconds."""

    revision: int
    build: str
    built_at: int
