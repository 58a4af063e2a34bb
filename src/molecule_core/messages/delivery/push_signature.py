"""Signs the requests that the server posts to agents, so that an agent can check that they come from its server.

docs/explanation/delivery.md describes the headers for authors of agents."""

import hashlib
import hmac

TIMESTAMP_HEADER = "X-Molecule-Timestamp"
"""Seconds since 1970 at which the push was signed."""
SIGNATURE_HEADER = "X-Molecule-Signature"
"""One signature for each valid secret, with a space between them."""
_VERSION = "v1"


class PushSigner:
    """The valid secrets of one workspace. Not a Struct: its text form must not show them."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = secrets

    def headers(self, body: bytes, seconds: int) -> dict[str, str]:
        """Return the headers that prove the origin of a body; none without a secret."""
        if not self._secrets:
            return {}
        signed = str(seconds).encode() + b"." + body
        signatures = (hmac.new(each.encode(), signed, hashlib.sha256).hexdigest() for each in self._secrets)
        return {
            TIMESTAMP_HEADER: str(seconds),
            SIGNATURE_HEADER: " ".join(f"{_VERSION}={each}" for each in signatures),
        }


UNSIGNED = PushSigner(())
"""The signer of a workspace without a secret."""
