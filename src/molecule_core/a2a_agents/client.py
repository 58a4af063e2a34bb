"""Calls A2A agents of others through the safe network layer: cards, operations, streams and access tokens.

Credentials are added here and nowhere else, and only for the origins that a person gave them to. They are never part of
a url, an error or a log entry."""

import base64
import hashlib
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from molecule_core.a2a_agents import card_signatures, rules
from molecule_core.a2a_agents.model import (
    A2AAgent,
    A2ACredential,
    A2ACredentialKind,
    CardKeys,
    CardSignature,
    FetchedCard,
)
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import FetchFailed, InvalidField, InvalidJson, JsonTooDeep
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher, FetchResult, FetchStream
from molecule_core.wire.protocols import strict_json
from molecule_core.wire.protocols.a2a_call import AgentCall
from molecule_core.wire.protocols.a2a_card import parse_card
from molecule_core.wire.protocols.a2a_response import get_member

_OK, _NOT_MODIFIED, _UNAUTHORIZED = 200, 304, 401
# 64 KiB: a token response has at most a few kilobytes.
_TOKEN_BYTES = 64 << 10
# 60 s before its end a token is renewed, so that it does not expire on the way.
_TOKEN_MARGIN_SECONDS = 60
_DEFAULT_TOKEN_SECONDS = 300
# 15 s for a card or a token.
_SHORT_SECONDS = 15


class _CachedToken(Struct):
    value: str
    ends_at: int


class A2AClient:
    """Client for A2A agents. `known_extensions`: those that a card may require."""

    def __init__(self, fetcher: Fetcher, *, clock: Clock, limits: Limits, known_extensions: frozenset[str]) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._limits = limits
        self._known_extensions = known_extensions
        self._tokens: dict[str, _CachedToken] = {}

    async def fetch_card(self, url: str, etag: str | None = None, keys: CardKeys | None = None) -> FetchedCard | None:
        """Fetch and parse a card; None if it is still the one with this ETag. A card with keys must be signed by one.

        Raises UnsafeUrl, FetchFailed, InvalidField."""
        headers = {"Accept": "application/json", **({} if etag is None else {"If-None-Match": etag})}
        try:
            found = await self._fetcher.get(
                url, headers, timeout_seconds=_SHORT_SECONDS, max_bytes=self._limits.card_bytes
            )
        except FetchFailed as error:
            if etag is not None and error.details["status"] == _NOT_MODIFIED:
                return None
            raise
        if found.status != _OK:
            raise FetchFailed(reason=f"HTTP {found.status}", sent=True, status=found.status)
        try:
            card = strict_json.decode(found.body, max_depth=self._limits.json_depth)
        except (InvalidJson, JsonTooDeep) as error:
            raise InvalidField(reason=f"the agent card is not usable JSON: {error.text}") from None
        signature = CardSignature.NONE
        if keys is not None:
            if not isinstance(card, dict):
                raise InvalidField(reason="the agent card is not a JSON object. Use the url of an A2A agent card.")
            card = card_signatures.verify_card(card, await self._load_keys(keys))
            signature = CardSignature.VERIFIED
        elif isinstance(card, dict) and card.get("signatures"):
            signature = CardSignature.NOT_CHECKED
        parsed = parse_card(card, known_extensions=self._known_extensions)
        await self._fetcher.check_url(parsed.interface.url)
        return FetchedCard(card, parsed, found.headers.get("etag"), signature)

    async def _load_keys(self, keys: CardKeys) -> list[Any]:
        """Return the keys that verify a card. Raises UnsafeUrl, InvalidField."""
        if not keys.jwks_url:
            return [card_signatures.parse_public_key(keys.pem)]
        try:
            found = await self._fetcher.get(
                keys.jwks_url,
                {"Accept": "application/json"},
                timeout_seconds=_SHORT_SECONDS,
                max_bytes=self._limits.card_bytes,
            )
        except FetchFailed as error:
            raise InvalidField(
                reason=f"the keys of the agent card could not be fetched: {error.details['reason']}. Check their url."
            ) from None
        if found.status != _OK:
            raise InvalidField(
                reason=f"the keys of the agent card could not be fetched: HTTP {found.status}. Check their url."
            )
        try:
            value = strict_json.decode(found.body, max_depth=self._limits.json_depth)
        except (InvalidJson, JsonTooDeep) as error:
            raise InvalidField(reason=f"the keys of the agent card are not usable JSON: {error.text}") from None
        return card_signatures.parse_key_set(value)

    async def call(self, agent: A2AAgent, call: AgentCall) -> FetchResult:
        """Call an operation. Raises UnsafeUrl, FetchFailed. An access token that is refused is renewed once."""
        result = await self._send(call, await self._credential_headers(agent, call.url))
        if result.status == _UNAUTHORIZED and self._drop_token(agent):
            result = await self._send(call, await self._credential_headers(agent, call.url))
        return result

    async def _send(self, call: AgentCall, credential_headers: dict[str, str]) -> FetchResult:
        seconds, limit = self._limits.a2a_request_seconds, self._limits.push_answer_bytes
        headers = {**call.headers, **credential_headers}
        if call.body is None:
            return await self._fetcher.get(call.url, headers, timeout_seconds=seconds, max_bytes=limit)
        return await self._fetcher.post(call.url, headers, call.body, timeout_seconds=seconds, max_bytes=limit)

    async def open_stream(self, agent: A2AAgent, call: AgentCall) -> FetchStream:
        """Open the stream of an operation. Raises UnsafeUrl, FetchFailed."""
        stream = await self._open(call, await self._credential_headers(agent, call.url))
        if stream.status == _UNAUTHORIZED and self._drop_token(agent):
            stream.close()
            stream = await self._open(call, await self._credential_headers(agent, call.url))
        return stream

    async def _open(self, call: AgentCall, credential_headers: dict[str, str]) -> FetchStream:
        return await self._fetcher.open_stream(
            call.url,
            {**call.headers, **credential_headers},
            call.body,
            idle_seconds=self._limits.a2a_idle_seconds,
            max_bytes=self._limits.push_answer_bytes,
        )

    # -- credentials ---------------------------------------------------------------------------------------------------

    async def _credential_headers(self, agent: A2AAgent, url: str) -> dict[str, str]:
        credential = agent.parsed_credential()
        if credential is None:
            return {}
        rules.check_origin(credential, url, self._limits)
        if credential.kind is A2ACredentialKind.API_KEY:
            return {credential.header: credential.prefix + credential.secret}
        is_oauth = credential.kind is A2ACredentialKind.OAUTH2
        token = await self._access_token(credential) if is_oauth else credential.secret
        return {"Authorization": f"Bearer {token}"}

    async def _access_token(self, credential: A2ACredential) -> str:
        """Return an access token from the cache or from the token endpoint. Raises UnsafeUrl, FetchFailed."""
        key, now = _token_key(credential), self._clock.now()
        cached = self._tokens.get(key)
        if cached is not None and cached.ends_at > now:
            return cached.value
        secret = base64.b64encode(f"{credential.client_id}:{credential.secret}".encode()).decode()
        form = {"grant_type": "client_credentials"}
        if credential.scopes:
            form["scope"] = " ".join(credential.scopes)
        found = await self._fetcher.post(
            credential.token_url,
            {
                "Content-Type": "application/x-www-form-urlencoded",
                "Accept": "application/json",
                "Authorization": f"Basic {secret}",
            },
            urlencode(form).encode(),
            timeout_seconds=_SHORT_SECONDS,
            max_bytes=_TOKEN_BYTES,
        )
        token, seconds = _parse_token(found)
        lifetime = max(0, seconds - _TOKEN_MARGIN_SECONDS)
        self._tokens[key] = _CachedToken(token, now + lifetime * SECOND)
        return token

    def _drop_token(self, agent: A2AAgent) -> bool:
        """Forget the access token of an agent. Return whether there was one, so that a new one may help."""
        credential = agent.parsed_credential()
        return credential is not None and self._tokens.pop(_token_key(credential), None) is not None


def _token_key(credential: A2ACredential) -> str:
    """Return the key of a credential in the cache of access tokens."""
    return hashlib.sha256(msgspec.json.encode(credential)).hexdigest()


def _parse_token(found: FetchResult) -> tuple[str, int]:
    try:
        value = msgspec.json.decode(found.body) if found.status == _OK else None
    except msgspec.DecodeError:
        value = None
    token, seconds = get_member(value, "access_token"), get_member(value, "expires_in", _DEFAULT_TOKEN_SECONDS)
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        reason = f"its token endpoint gave no access token (HTTP {found.status})"
        raise FetchFailed(reason=reason, sent=False, status=None)
    return token, seconds if isinstance(seconds, int) else _DEFAULT_TOKEN_SECONDS
