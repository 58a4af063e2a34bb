"""What a page of another origin tries at the server of somebody who is logged in, and names that are not the server's.

The other page comes from another port of the same machine: to a browser that is the same site, so cookies go along.
"""

import socket
from collections.abc import Callable
from typing import Any

from playwright.async_api import Browser

from testing.canvas.company import Stage
from testing.canvas.foreign_page import FORM, POST, SOCKET, message, serving
from testing.raw_http import ask

CROSSED, HOSTS = "ways in from another origin", "foreign host names let in"
Fault = Callable[[str, object], None]
_LOADS = """
([tag, attribute, url]) => new Promise((done) => {
  const made = document.createElement(tag);
  made.onload = () => done("loaded");
  made.onerror = () => done("refused");
  made.setAttribute(attribute, url);
  if (tag === "link") made.setAttribute("rel", "stylesheet");
  document.body.append(made);
  setTimeout(() => done("silent"), 1500);
})
"""
_EVENTS = """
(url) => new Promise((done) => {
  const source = new EventSource(url, { withCredentials: true });
  source.onopen = () => done("open");
  source.onmessage = () => done("told");
  source.onerror = () => { source.close(); done("refused"); };
})
"""
_READ = """
([url, options]) => fetch(url, { credentials: "include", ...options }).then(
  async (response) => `${response.type}:${(await response.text()).length}`,
  () => "refused",
)
"""
_BEACON = "([url, body]) => { navigator.sendBeacon(url, body); }"
_BLIND = {"mode": "no-cors"}
_JSON = {"headers": {"Content-Type": "application/json"}}
_OURS = {"headers": {"Content-Type": "application/json", "X-Molecule-Client": "canvas"}}
_NAMES = (
    *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "0", "0.0.0.0", "127.1"),
    *("2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::]", "127.0.0.1:80:80", "*", "null"),
    *("127.0.0.1@evil.example", "evil.example#127.0.0.1", "localhost,evil.example", "xn--lcalhost-54a", "//localhost"),
    *("l\u00f6calhost", "localhost%00.evil.example", "user@localhost", "file://", "localhost/evil.example", "a b"),
    *("localhost\\evil.example", "evil.example?localhost", "127.0.0.1%2eevil.example", "localhost;evil.example"),
)


async def cross(browser: Browser, stage: Stage, fault: Fault) -> int:
    """Everything that a page can try, from next door: nothing is read, nothing is written. How many ways it tried."""
    context = await browser.new_context()
    own, other = await context.new_page(), await context.new_page()
    await own.goto(await stage.link())
    await own.get_by_role("tree").wait_for()
    before = await stage.heard_by("Lead")
    url = stage.server.url
    inbox, live = f"{url}/workspaces/{stage.seats['Lead'].id}/a2a", url.replace("http:", "ws:") + "/ws"
    blind, shut = ("refused", "opaque"), ("refused",)
    ways: tuple[tuple[str, str, Any, tuple[str, ...]], ...] = (
        ("a plain post", POST, [inbox, message("a"), _BLIND], blind),
        ("a post of JSON", POST, [inbox, message("b"), _JSON], shut),
        ("a post in disguise", POST, [inbox, message("c"), _OURS], shut),
        ("a post that outlives its page", POST, [inbox, message("d"), {**_BLIND, "keepalive": True}], blind),
        ("a log-out", POST, [f"{url}/logout", "{}", _BLIND], blind),
        ("a live channel", SOCKET, live, ("refused", "closed")),
        ("an event stream", _EVENTS, f"{url}/events/stream", shut),
        ("a read", _READ, [f"{url}/workspaces", {}], shut),
        ("a read without a look", _READ, [f"{url}/workspaces", _BLIND], ("opaque:0", "refused")),
        ("a script", _LOADS, ["script", "src", f"{url}/workspaces"], ("refused", "silent")),
        ("a picture", _LOADS, ["img", "src", f"{url}/session"], ("refused", "silent")),
        ("a style", _LOADS, ["link", "href", f"{url}/app/"], ("refused", "silent")),
    )
    async with serving() as elsewhere:
        await other.goto(elsewhere)
        for name, how, given, fine in ways:
            came = str(await other.evaluate(how, given))
            if came not in fine:
                fault(CROSSED, f"{name}: {came}")
        await other.evaluate(_BEACON, [inbox, message("e")])
        async with other.expect_navigation() as gone:
            await other.evaluate(FORM, [inbox, message("f")[:-1] + ',"pad":"', '"}'])
        answer = await gone.value
        if answer.status != 403:
            fault(CROSSED, f"a form: {answer.status}")
    if (heard := await stage.heard_by("Lead")) != before:
        fault(CROSSED, f"an agent has heard {heard}")
    if await own.evaluate("() => fetch('/session').then((response) => response.status)") != 200:
        fault(CROSSED, "logged out")
    await context.close()
    return len(ways) + 2


async def knock(stage: Stage, fault: Fault) -> int:
    """Spellings of a host that is not ours, on a page and on a route. How many."""
    names = [*_NAMES, f"{socket.gethostname()}.evil.example"]
    for name in names:
        for path in ("/app/", "/session"):
            reply = await ask(stage.server.port, "GET", path, headers={"Host": name})
            if reply.status not in (400, 421):
                fault(HOSTS, f"{name} {path}: {reply.status}")
    return len(names)
