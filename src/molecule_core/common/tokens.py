"""Format of credentials: a recognisable prefix, 256 random bits, a checksum."""

import base64
import hashlib
import zlib

from molecule_core.common.ids import Randomness

WORKSPACE_PREFIX, PERSON_PREFIX, ADMIN_PREFIX = "mol_ws_", "mol_pt_", "mol_ad_"
SESSION_PREFIX, LOGIN_PREFIX, INVITATION_PREFIX = "mol_se_", "mol_ln_", "mol_in_"
PUSH_SECRET_PREFIX, RUNNER_PREFIX = "mol_ps_", "mol_ru_"
OAUTH_ACCESS_PREFIX, OAUTH_REFRESH_PREFIX, OAUTH_CODE_PREFIX = "mol_oa_", "mol_or_", "mol_oc_"
"""The prefix lets scanners, logs and people recognise the kind. Each kind has a table of its own."""
MIN_ADMIN_TOKEN_LENGTH = 24
"""As hard to guess as a long passphrase."""
_CHECKSUM_LENGTH = 8
_SECRET_BYTES = 32
_LENGTH = 7 + 43 + _CHECKSUM_LENGTH


def new_token(prefix: str, randomness: Randomness) -> str:
    """Create a credential: prefix, 43 characters of URL-safe base64, eight hex digits of checksum."""
    body = prefix + base64.urlsafe_b64encode(randomness.secret(_SECRET_BYTES)).decode().rstrip("=")
    return body + _checksum(body)


def new_admin_token(randomness: Randomness) -> str:
    """Create a token for the server's operator."""
    return new_token(ADMIN_PREFIX, randomness)


def token_prefix(token: str) -> str | None:
    """Return the prefix of a well-formed token; None if its length or checksum is wrong.

    This detects typing errors only; credentials are verified by their hash."""
    body, checksum = token[:-_CHECKSUM_LENGTH], token[-_CHECKSUM_LENGTH:]
    well_formed = len(token) == _LENGTH and _checksum(body) == checksum
    return body[: len(WORKSPACE_PREFIX)] if well_formed else None


def hash_token(token: str) -> str:
    """Return the SHA-256 that is stored instead of a token, as hex. 256 random bits need no salt."""
    return hashlib.sha256(token.encode()).hexdigest()  # control: token-hash


def token_id_from_hash(hashed: str) -> str:
    """Return the id of a token for lists and paths: a part of its hash, which does not reveal the token."""
    return hashed[:16]


def token_hint(token: str) -> str:
    """Return the beginning of a token, so that people can recognise it in a list."""
    return token[:15]  # control: token-hint


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
