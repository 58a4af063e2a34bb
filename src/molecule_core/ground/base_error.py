"""What every refusal is made of."""

from typing import Any


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
