"""No view keeps anybody out, as far as a program can tell: axe-core finds nothing."""

from typing import Literal

import pytest

from testing.canvas.page_user import Desk
from tests.canvas.axe import find_barriers
from tests.canvas.views import NARROW, OUTSIDE, VIEWS, WIDE, fill, open_outside
from tests.requirements import requirement

SIZES = [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow", marks=pytest.mark.exhaustive)]
# Without motion, for halfway from one scheme to the other nothing has its contrast.
SCHEMES: list[Literal["light", "dark"]] = ["light", "dark"]


@requirement("C64")
@pytest.mark.parametrize("size", SIZES)
async def test_no_view_of_a_company_keeps_anybody_out(desk: Desk, size: dict[str, int]) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=size, reduced_motion="reduce")
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            found += [f"{name}, {scheme}: {each}" for each in await find_barriers(page, only_colours=scheme == "dark")]
    assert found == [], "\n".join(found)


@requirement("C64")
@pytest.mark.parametrize("size", SIZES)
async def test_no_view_of_somebody_outside_keeps_anybody_out(desk: Desk, size: dict[str, int]) -> None:
    found = []
    for name, show in OUTSIDE.items():
        page = await open_outside(desk, show, viewport=size, reduced_motion="reduce")
        for scheme in SCHEMES:
            await page.emulate_media(color_scheme=scheme)
            found += [f"{name}, {scheme}: {each}" for each in await find_barriers(page, only_colours=scheme == "dark")]
    assert found == [], "\n".join(found)


@requirement("C64", "C57")
@pytest.mark.parametrize("size", SIZES)
async def test_the_first_view_of_an_empty_organisation_keeps_nobody_out(empty_desk: Desk, size: dict[str, int]) -> None:
    page = await empty_desk.open(viewport=size, reduced_motion="reduce")
    await page.get_by_role("heading", name="No agents yet").wait_for()
    found = []
    for scheme in SCHEMES:
        await page.emulate_media(color_scheme=scheme)
        found += await find_barriers(page, only_colours=scheme == "dark")
    assert found == [], "\n".join(found)
