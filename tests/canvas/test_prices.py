"""Prices of models and reservations of turns, edited on the page."""

from testing.canvas.page_user import Desk
from tests.canvas.axe import find_barriers
from tests.canvas.expectations import expect
from tests.requirements import requirement

_REFUSED = "Failed to load resource: the server responded with a status of 422"


@requirement("US5")
async def test_an_operator_sets_changes_and_deletes_prices_and_sees_why_one_is_refused(desk: Desk) -> None:
    org_id = (await desk.stage.admin.get("/orgs"))[0]["id"]
    page = await desk.open("/app/usage")
    model = page.get_by_label("Set the price of a model")
    save = page.get_by_role("button", name="Save price")
    for name, price in (("gpt-5*", "1.25"), ("<i>x</i>", "0")):
        await model.fill(name)
        await page.get_by_label("Input").fill(price)
        await page.get_by_label("Output").fill("10")
        await save.click()
        await expect(page.get_by_role("row", name=name)).to_contain_text("US$10.00")
    assert await find_barriers(page) == []

    await page.get_by_role("button", name="Change… price of gpt-5*").click()
    await page.get_by_label("Cached").fill("0.125")
    await save.click()
    await expect(page.get_by_role("row", name="gpt-5*")).to_contain_text("US$0.125")
    await page.get_by_role("button", name="Delete price of <i>x</i>").click()
    await expect(page.get_by_role("row", name="<i>x</i>")).to_have_count(0)
    (kept,) = (await desk.stage.admin.get(f"/orgs/{org_id}/usage/prices"))["prices"]
    assert kept == {"model": "gpt-5*", "input_micros": 1_250_000, "cached_micros": 125_000, "output_micros": 10_000_000}

    desk.forgiven.append(_REFUSED)
    await model.fill("*")
    await page.get_by_label("Input").fill("99999999")
    await page.get_by_label("Output").fill("1")
    await save.click()
    await expect(page.get_by_role("alert")).to_contain_text("input_micros")
    await page.set_viewport_size({"width": 320, "height": 640})
    assert await page.evaluate("document.documentElement.scrollWidth") == 320


@requirement("US5", "B4")
async def test_a_viewer_reads_prices_and_reservations_and_changes_nothing(desk: Desk) -> None:
    org_id = (await desk.stage.admin.get("/orgs"))[0]["id"]
    price = {"model": "m", "input_micros": 1, "output_micros": 2}
    await desk.stage.admin.call("PUT", f"/orgs/{org_id}/usage/prices", body={"prices": [price]})
    context = await desk.context()
    page = await desk.enter(context, "/app/usage", await desk.stage.link_for("viewer"))
    await expect(page.get_by_role("row", name="m US$0.00")).to_be_visible()
    await expect(page.get_by_role("button", name="Save price")).to_have_count(0)
    page = await desk.tab(context, f"/app/org?focus={desk.stage.seats['Reader'].id}&panel=about")
    await expect(page.get_by_text("Before a turn it reserves")).to_be_visible()
    await expect(page.get_by_role("button", name="Change reservation…")).to_have_count(0)


@requirement("B4")
async def test_an_operator_sees_what_limits_an_agent_and_changes_what_its_turns_reserve(desk: Desk) -> None:
    seat = desk.stage.seats["Backend"]
    org_id = (await desk.stage.admin.get("/orgs"))[0]["id"]
    team = {"scope": "subtree", "target_id": desk.stage.seats["Engineering"].id, "unit": "money", "period": "day"}
    await desk.stage.admin.post(f"/orgs/{org_id}/budgets", {**team, "limit": 20_000_000})
    page = await desk.open(f"/app/org?focus={seat.id}&panel=about")
    await expect(page.get_by_text("Engineering and its team: 0.00 spent of 20.00 per day")).to_be_visible()
    await page.get_by_role("button", name="Change reservation…").click()
    await page.get_by_label("Money").fill("0.25")
    await page.get_by_role("button", name="Save reservation").click()
    await expect(page.get_by_text("Before a turn it reserves 0.25")).to_be_visible()
    assert (await desk.stage.admin.get(f"/workspaces/{seat.id}/budgets"))["turn_lease"]["money"] == 250_000
