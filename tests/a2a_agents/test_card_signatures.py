"""Signatures of the cards of A2A agents: verified with the keys that a person names, refused without one of them."""

import base64
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from molecule_core.a2a_agents.card_signatures import parse_public_key, verify_card
from molecule_core.api.a2a.card_signatures import canonical_card
from molecule_core.client.api import ApiError
from molecule_core.common.errors import InvalidField
from testing.a2a_agents import V0_3, V1, StubAgent, completed
from testing.running_server import Seat
from testing.waits import eventually
from tests.a2a_agents.conftest import A2AWorld

JWKS = "https://keys.example/jwks.json"
KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


PRIVATE_PEM = KEY.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()


def pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    """The public key as PEM."""
    public = key.public_key()
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


def jwk_of(key: ec.EllipticCurvePrivateKey, key_id: str) -> dict[str, Any]:
    """The public key as a member of a key set."""
    members = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**members, "kid": key_id, "alg": "ES256", "use": "sig"}


def signed(card: dict[str, Any], key: Any = KEY, *, algorithm: str = "ES256", **header: Any) -> dict[str, Any]:
    """A card with the signature of a key over its canonical text."""
    text = json.dumps(card, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    token = jwt.api_jws.encode(text, key, algorithm=algorithm, headers={"typ": "JOSE", **header})
    protected, _, signature = token.split(".")
    return {**card, "signatures": [{"protected": protected, "signature": signature}]}


def content_of(agent: StubAgent) -> dict[str, Any]:
    """What of a card is signed: no member is empty."""
    return {name: value for name, value in agent.card.items() if value not in ([], False)} | {
        "capabilities": {"pushNotifications": True}
    }


def serve(a2a: A2AWorld, agent: StubAgent, card: dict[str, Any]) -> None:
    """Let an agent serve this card."""
    a2a.net.cards[agent.card_url] = card


async def shown(a2a: A2AWorld, seat: Seat) -> dict[str, Any]:
    """The A2A agent of a workspace."""
    found: dict[str, Any] = await a2a.world.person.get(f"/workspaces/{seat.id}/a2a-agent")
    return found


@pytest.mark.parametrize("line", [V1, V0_3])
@pytest.mark.parametrize("by", ["pem", "jwks"])
async def test_a_card_with_the_signature_of_the_named_key_is_verified(a2a: A2AWorld, by: str, line: str) -> None:
    agent = StubAgent(line=line, script=completed())
    serve(a2a, agent, signed(content_of(agent), kid="two"))
    a2a.net.keys[JWKS] = {"keys": [jwk_of(OTHER, "one"), {"kty": "unknown"}, jwk_of(KEY, "two")]}
    keys = {"pem": pem_of(KEY)} if by == "pem" else {"jwks_url": JWKS}
    ops = await a2a.hire(agent, a2a_card_keys=keys)
    row = await a2a.until(await a2a.delegate(ops), "completed")
    found = await shown(a2a, ops)
    assert (row.result, found["signature"]) == ("done", "verified")
    assert found["card_keys"] == ("pem" if by == "pem" else JWKS)


WRONG: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "another key": lambda card: signed(card, OTHER),
    "changed": lambda card: {**signed(card), "name": "Changed"},
    "added": lambda card: {**signed(card), "documentationUrl": "https://evil.example"},
    "no signature": lambda card: card,
    "empty": lambda card: {**card, "signatures": []},
    "no text": lambda card: {**card, "signatures": [{"protected": 1, "signature": None}, 3]},
    "none": lambda card: signed(card, None, algorithm="none"),
    "shared secret": lambda card: signed(card, "x" * 32, algorithm="HS256"),
    "critical": lambda card: signed(card, crit=["x"], x=1),
}


@pytest.mark.parametrize("how", list(WRONG))
async def test_a_card_without_the_signature_of_the_named_key_is_refused(a2a: A2AWorld, how: str) -> None:
    agent = StubAgent()
    serve(a2a, agent, WRONG[how](content_of(agent)))
    with pytest.raises(ApiError) as refused:
        await a2a.hire(agent, a2a_card_keys={"pem": pem_of(KEY)})
    expected = "not signed" if how in ("no signature", "empty") else "not that of the named key"
    assert (refused.value.status, expected in str(refused.value)) == (422, True)


async def test_an_address_of_keys_in_the_signature_is_not_followed(a2a: A2AWorld) -> None:
    agent, asked = StubAgent(), "https://evil.example/jwks.json"
    serve(a2a, agent, signed(content_of(agent), OTHER, jku=asked, kid="evil"))
    a2a.net.keys[asked] = {"keys": [jwk_of(OTHER, "evil")]}
    a2a.net.keys[JWKS] = {"keys": [jwk_of(KEY, "good")]}
    with pytest.raises(ApiError):
        await a2a.hire(agent, a2a_card_keys={"jwks_url": JWKS})
    assert asked not in a2a.net.key_gets


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"jwks_url": JWKS}, "could not be fetched"),
        ({"jwks_url": "https://empty.example/jwks"}, "no usable key"),
        ({"pem": "no key"}, "not a public key"),
        ({"pem": PRIVATE_PEM}, "private key"),
        ({"pem": "a", "jwks_url": JWKS}, "pem or jwks_url"),
        ({}, "pem or jwks_url"),
    ],
)
async def test_unusable_keys_are_refused_with_their_reason(a2a: A2AWorld, keys: dict[str, str], expected: str) -> None:
    agent = StubAgent()
    serve(a2a, agent, signed(content_of(agent)))
    a2a.net.keys["https://empty.example/jwks"] = {"keys": []}
    with pytest.raises(ApiError) as refused:
        await a2a.hire(agent, a2a_card_keys=keys)
    assert (refused.value.status, expected in str(refused.value)) == (422, True)


async def test_a_key_set_at_a_forbidden_address_is_not_fetched(a2a: A2AWorld) -> None:
    agent = StubAgent()
    serve(a2a, agent, signed(content_of(agent)))
    a2a.net.forbidden = {"keys.example"}
    with pytest.raises(ApiError) as refused:
        await a2a.hire(agent, a2a_card_keys={"jwks_url": JWKS})
    assert (refused.value.status, "is not public" in str(refused.value)) == (400, True)


async def test_without_a_key_a_signature_is_shown_as_not_checked(a2a: A2AWorld) -> None:
    agent, plain = StubAgent(), StubAgent("plain.example")
    serve(a2a, agent, signed(content_of(agent), OTHER))
    found = [await shown(a2a, await a2a.hire(each, each.host)) for each in (agent, plain)]
    assert [each["signature"] for each in found] == ["not_checked", "none"]


async def test_a_card_that_loses_its_signature_later_is_not_used(a2a: A2AWorld) -> None:
    agent = StubAgent(script=completed())
    card = content_of(agent)
    serve(a2a, agent, signed(card))
    ops = await a2a.hire(agent, a2a_card_keys={"pem": pem_of(KEY)})
    await a2a.world.rest()
    moved = {**card["supportedInterfaces"][0], "url": "https://evil.example/rpc"}
    serve(a2a, agent, {**signed(card), "supportedInterfaces": [moved]})

    async def error() -> str:
        await a2a.later(31)
        await a2a.world.rest()
        return str((await shown(a2a, ops))["error"])

    assert "not that of the named key" in await eventually(error, lambda found: found != "None")
    assert (await shown(a2a, ops))["interface_url"] == agent.url


async def test_keys_stay_with_a_new_address_until_a_person_removes_them(a2a: A2AWorld) -> None:
    agent, unsigned = StubAgent(script=completed()), StubAgent("plain.example", script=completed())
    serve(a2a, agent, signed(content_of(agent)))
    a2a.net.add(unsigned)
    secret = {"kind": "bearer", "secret": "hidden"}
    ops = await a2a.hire(agent, a2a_card_keys={"pem": pem_of(KEY)}, a2a_credential=secret)
    path = f"/workspaces/{ops.id}"
    with pytest.raises(ApiError) as refused:
        await a2a.world.person.call("PATCH", path, body={"a2a_card_url": unsigned.card_url})
    await a2a.world.person.call("PATCH", path, body={"a2a_card_keys": None})
    found = await shown(a2a, ops)
    await a2a.world.person.call("PATCH", path, body={"a2a_card_url": unsigned.card_url})
    moved = await shown(a2a, ops)
    assert "not signed" in str(refused.value)
    assert (found["signature"], found["card_keys"], found["credential"]) == ("not_checked", None, "bearer")
    assert (moved["card_url"], moved["credential"]) == (unsigned.card_url, None)


def test_members_that_an_sdk_adds_after_signing_are_left_out_of_the_card() -> None:
    interface = {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    scheme = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    card: dict[str, Any] = {"name": "Übersetzer", "supportedInterfaces": [interface]}
    card |= {"securitySchemes": {"one": scheme}, "capabilities": {"streaming": False, "extensions": [{"uri": "x"}]}}
    dual = signed(card) | {"url": "https://evil.example", "protocolVersion": "0.3.0"}
    dual["securitySchemes"] = {"one": {"type": "http", **scheme}}
    dual["capabilities"] = {"streaming": False, "extensions": [{"uri": "x", "required": False}]}
    verified = verify_card(dual, [parse_public_key(pem_of(KEY))])
    assert verified.keys() == {*card, "signatures"}
    assert verified["securitySchemes"] == {"one": scheme}


@pytest.mark.parametrize("escapes", [False, True])
def test_defaults_that_an_sdk_does_not_sign_may_be_in_the_card(escapes: bool) -> None:
    content = {"name": "Übersetzer", "url": "https://a.example", "capabilities": {"streaming": False}}
    served: dict[str, Any] = content | {
        "protocolVersion": "0.3.0",
        "preferredTransport": "JSONRPC",
        "skills": [],
        "provider": None,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=escapes).encode()
    protected, _, signature = jwt.api_jws.encode(text, KEY, algorithm="ES256").split(".")
    served["signatures"] = [{"protected": protected, "signature": signature}]
    assert verify_card(served, [parse_public_key(pem_of(KEY))])["name"] == "Übersetzer"
    with pytest.raises(InvalidField):
        verify_card({**served, "preferredTransport": "GRPC"}, [parse_public_key(pem_of(KEY))])


def test_a_card_signed_by_this_server_is_verified() -> None:
    card: dict[str, Any] = {
        "name": "Ops",
        "capabilities": {"streaming": True, "extensions": [{"uri": "x", "required": False}]},
    }
    token = jwt.api_jws.encode(canonical_card(card), KEY, algorithm="ES256")
    protected, _, signature = token.split(".")
    assert base64.urlsafe_b64decode(signature + "==")
    card["signatures"] = [{"protected": protected, "signature": signature}]
    assert verify_card(card, [parse_public_key(pem_of(KEY))])["name"] == "Ops"
