"""What every refusal is made of."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Small commands load this module, and have no use for a loop.
    import asyncio


class MoleculeError(Exception):
    """Something went wrong that has no better name."""

    def __init__(self, **details: Any) -> None:
        self.details = details
        super().__init__(" ".join((type(self).__doc__ or "").split()).format(**details))

    @property
    def text(self) -> str:
        """The sentence for people."""
        return str(self)

    @property
    def extras(self) -> dict[str, Any]:
        """Members that travel beside the sentence; existing clients read some by name."""
        return {}


def refuse(future: "asyncio.Future[Any]", error: BaseException) -> None:
    """Tells who waits for it what went wrong. It may be gone, and a refusal that nobody looks at is no mistake of ours,
    as which an error would be logged."""
    future.set_exception(error)
    if isinstance(error, MoleculeError):
        future.exception()
