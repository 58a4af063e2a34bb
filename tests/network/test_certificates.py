"""Over https the name keeps standing for the other side, though the connection goes to an address.

hook.example.pem is a certificate of this folder, good for a hundred years, with its key: neither proves anything."""

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from molecule_core.common.errors import FetchFailed
from testing.forbidden_urls import PUBLIC
from testing.loopback_internet import OK, Internet, answer, internet
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement

PEM = Path(__file__).with_name("hook.example.pem")


def _trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(PEM))


@pytest.fixture
async def secure() -> AsyncIterator[tuple[Internet, list[str | None]]]:
    """A small internet whose honest servers prove that they are hook.example, and the names they were asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)

    async def serve(reader, writer):  # type: ignore[no-untyped-def]
        await answer(reader, writer, OK)

    async with internet(serve, context) as net:
        net.names.update({"hook.example": PUBLIC, "other.example": PUBLIC})
        yield net, names


async def _get(net: Internet, host: str, *, trust: bool = True) -> int:
    fetcher = net.fetcher(tls=_trusting if trust else None)
    return (await fetcher.get(f"https://{host}/", {}, timeout_seconds=IN_PROCESS_SECONDS, max_bytes=10)).status


@requirement("S6")
async def test_the_name_is_asked_for_and_proved_while_the_address_is_connected_to(secure) -> None:  # type: ignore[no-untyped-def]
    net, names = secure
    assert await _get(net, "hook.example") == 200
    assert (names, net.reached, net.lookups["hook.example"]) == (["hook.example"], [PUBLIC[0]], 1)


@requirement("S6")
@pytest.mark.parametrize("host", ["other.example", PUBLIC[0], f"[{PUBLIC[1]}]"])
async def test_a_certificate_of_another_name_is_refused(secure, host: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FetchFailed, match="its certificate is not valid for this name"):
        await _get(secure[0], host)


@requirement("S6")
async def test_a_certificate_that_nobody_vouches_for_is_refused(secure) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FetchFailed, match=r"its certificate is not trusted \(self-signed certificate\)"):
        await _get(secure[0], "hook.example", trust=False)


async def test_a_server_that_does_not_speak_tls_is_named(net: Internet) -> None:
    with pytest.raises(FetchFailed, match=r"TLS|it closed the connection"):
        await _get(net, "public.example")


async def test_the_machine_s_certificates_are_read_once_and_only_when_they_are_needed(
    secure: tuple[Internet, list[str | None]],
) -> None:
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        made.append(_trusting())
        return made[-1]

    net, _ = secure
    fetcher = net.fetcher("127.0.0.0/8", tls=make)
    await fetcher.get(f"http://127.0.0.1:{net.canary.port}/", {}, timeout_seconds=IN_PROCESS_SECONDS, max_bytes=10)
    assert made == []
    for _ in range(3):
        await fetcher.get("https://hook.example/", {}, timeout_seconds=IN_PROCESS_SECONDS, max_bytes=10)
    assert len(made) == 1
