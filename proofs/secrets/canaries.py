"""The canaries themselves, and how they are looked for: plain and in the usual encodings."""

import base64
from collections import Counter
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

# A hint may show the beginning of one of our tokens; what stands behind it is the secret.
_HINT = 16
_OURS = "mol_"


class Canary(Struct, frozen=True):
    """One secret: its kind, whose it is, the text. `used`: somebody took it, or refused the whole that it was in."""

    kind: str
    name: str
    text: str
    used: bool = False

    def forms(self) -> Iterator[bytes]:
        """What it would look like."""
        secret = (self.text[_HINT:] if self.text.startswith(_OURS) else self.text).encode()
        yield secret
        yield secret.hex().encode()
        yield secret.hex().upper().encode()
        yield "".join(f"%{byte:02x}" for byte in secret).encode()
        yield "".join(f"%{byte:02X}" for byte in secret).encode()
        yield "".join(f"\\u{byte:04x}" for byte in secret).encode()
        for before in range(3):  # base64 of something that holds it: what does not depend on its neighbours
            inner = base64.b64encode(b"\0" * before + secret)
            core = inner[4 if before else 0 : len(inner) // 4 * 4 - 4]
            yield core
            yield core.replace(b"+", b"-").replace(b"/", b"_")


class Cage(Struct):
    """All canaries of a run."""

    canaries: dict[str, Canary] = {}

    def add(self, kind: str, name: str, text: str) -> str:
        """One more; returns its text."""
        self.canaries[text] = Canary(kind, name, text)
        return text

    def used(self, text: str) -> None:
        """It did what it is for."""
        self.canaries[text] = replace(self.canaries[text], used=True)

    @property
    def unused(self) -> list[str]:
        """Those that nobody ever took: they would prove nothing."""
        return [f"{each.kind}: {each.name}" for each in self.canaries.values() if not each.used]

    def kinds(self) -> Counter[str]:
        """How many there are of each kind."""
        return Counter(each.kind for each in self.canaries.values())

    def found_in(self, data: bytes) -> list[str]:
        """Whose secrets stand in something."""
        return [
            f"{each.kind}: {each.name}"
            for each in self.canaries.values()
            if any(form in data for form in dict.fromkeys(each.forms()))
        ]


class Place(Struct):
    """Something that is searched: all that was read of it, and what must stand in it, so that it is really it."""

    name: str
    marker: bytes
    data: list[bytes] = []

    def add(self, data: bytes) -> None:
        """More of it."""
        self.data.append(data)

    @property
    def whole(self) -> bytes:
        """All that was read."""
        return b"\n".join(self.data)
