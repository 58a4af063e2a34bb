"""People are invited, get roles and are removed from the page, in force at once."""

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.requirements import requirement


@requirement("M7", "C74")
async def test_an_invited_person_comes_in_by_the_link_once_and_gets_another_role_at_once(desk: Desk) -> None:
    page = await desk.open("/app/settings")
    await page.get_by_label("Invite a person").fill("Grace")
    await page.get_by_label("Role of the invited person").select_option("viewer")
    await page.get_by_role("button", name="Create invite link").click()
    link = (await page.get_by_role("region", name="Link for Grace").text_content() or "").strip()
    await expect(page.get_by_role("list", name="Invited").get_by_role("listitem")).to_contain_text("Grace as viewer")

    theirs = await desk.enter(await desk.context(), "/app/settings", link)
    await expect(theirs.get_by_text("Logged in as Grace")).to_be_visible()
    await expect(page.get_by_role("list", name="Invited")).to_have_count(0)
    people = page.get_by_role("list", name="People of the organisation").get_by_role("listitem")
    await expect(people).to_have_count(2)
    again = await (await desk.context()).new_page()
    await again.goto(link)
    await expect(again.get_by_role("alert")).to_be_visible()

    await page.get_by_label("Role of Grace").select_option("operator")
    await theirs.reload()
    await expect(theirs.get_by_text("operator: can message and manage agents")).to_be_visible()
    grace = people.filter(has_text="Grace")
    await grace.get_by_role("button", name="Remove…").click()
    await grace.get_by_role("button", name="Remove Grace permanently").click()
    await expect(theirs.get_by_text("Your session has ended.")).to_be_visible()
    await expect(people).to_have_count(1)
