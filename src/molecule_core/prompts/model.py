"""What a workspace shares, and the prompts that its agent has told."""

from msgspec import Struct


class StoredSharedFile(Struct, frozen=True):
    """A shared file. `updated_at` in microseconds: when its content came."""

    path: str
    content: str
    updated_at: int


class SharedFiles(Struct, frozen=True):
    """All files of a workspace, in their order; revision 0: it has never shared any."""

    revision: int = 0
    files: tuple[StoredSharedFile, ...] = ()


class StoredPrompt(Struct, frozen=True):
    """A prompt that was told, in the order of the columns. `build` is JSON, `built_at` microseconds."""

    revision: int
    build: str
    built_at: int
