"""The strict policy stands on every answer. (That no test of this folder breaks it is checked by Desk, each time.)"""

import pytest

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.views import VIEWS, fill
from tests.content_security_policy import PAGE_POLICY
from tests.requirements import requirement

DEEDS = (
    ("document.body.append(Object.assign(document.createElement('img'), { src: 'https://evil.example/' }))", "img-src"),
    ("fetch('https://evil.example/').catch(() => null)", "connect-src"),
    ("document.body.setAttribute('style', 'color: red')", "style-src"),
    ("{ document.body.innerHTML = '<p>'; }", "require-trusted-types-for"),
    ("setTimeout('window.pwned = 1')", "require-trusted-types-for"),
)


@pytest.mark.long
@requirement("C73")
async def test_every_answer_that_the_browser_sees_carries_a_strict_policy(desk: Desk) -> None:
    await fill(desk.stage)
    page = await desk.open()
    seen: dict[str, str] = {}
    page.on("response", lambda response: seen.update({response.url: response.headers["content-security-policy"]}))
    for show in VIEWS.values():
        await show(page, desk.stage)
    await page.reload()
    await page.goto(desk.stage.server.url)
    await expect(page.get_by_role("tree")).to_be_visible()
    # A browser without windows does not ask for the icon by itself.
    await page.evaluate("() => fetch(document.querySelector('link[rel~=icon]').href).then((icon) => icon.text())")
    pages = {url: policy for url, policy in seen.items() if "/app/" in url}
    strict = "; ".join(f"{name} {value}" for name, value in PAGE_POLICY.items())
    assert {url.rpartition(".")[2] for url in pages} >= {"js", "css", "svg"}
    assert set(pages.values()) == {strict}
    others = {policy for url, policy in seen.items() if url not in pages}
    assert others == {"default-src 'none'; frame-ancestors 'none'"}
    assert desk.faults == []


@requirement("C73")
async def test_a_page_that_breaks_the_policy_does_not_pass_a_test(desk: Desk) -> None:
    page = await desk.open()
    await expect(page.get_by_role("tree")).to_be_visible()
    for deed, directive in DEEDS:
        async with page.expect_console_message(lambda message: "policy broken" in message.text):
            await page.evaluate(f"() => {{ try {{ {deed} }} catch {{ return; }} }}")
        assert any(f"policy broken: {directive}" in each for each in desk.faults), deed
        await expect(page.get_by_role("tree")).to_be_visible()
        desk.faults.clear()
