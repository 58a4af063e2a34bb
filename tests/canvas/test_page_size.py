"""The page's scripts are small: what the first view needs comes first, everything else when it is needed."""

import gzip
import re
import zlib

import pytest

from molecule_core.common.package_resources import PACKAGE_FOLDER
from tests.requirements import requirement

FIRST_KB = 130
LATER_KB = 80
WHEEL_MB = 0.8
ASSETS = PACKAGE_FOLDER / "canvas_assets"


def weights() -> tuple[dict[str, float], set[str]]:
    """The scripts in kB as they travel gzipped, and those that the page names."""
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    first = set(re.findall(r'(?:src|href)="/app/assets/([^"]+\.js)"', page))
    files = {path.name: path for path in (ASSETS / "assets").glob("*.js")}
    return {name: len(gzip.compress(path.read_bytes())) / 1000 for name, path in files.items()}, first


@requirement("C83")
def test_the_first_script_and_each_later_one_are_within_their_budgets() -> None:
    if not (ASSETS / "index.html").exists():
        pytest.skip("the canvas has not been built here")
    sizes, first = weights()
    assert first <= set(sizes)
    assert first
    weight = sum(sizes[name] for name in first)
    assert weight <= FIRST_KB, f"{weight:.1f} kB come first: load what the first view does not need by a lazyPart"
    later = {name: size for name, size in sizes.items() if name not in first and size > LATER_KB}
    assert later == {}


@requirement("C83")
def test_the_page_adds_less_than_its_budget_to_the_wheel() -> None:
    if not (ASSETS / "index.html").exists():
        pytest.skip("the canvas has not been built here")
    files = [path for path in ASSETS.rglob("*") if path.is_file()]
    assert {path.suffix for path in files}.isdisjoint({".gz", ".map"})
    weight = sum(len(zlib.compress(path.read_bytes())) for path in files) / 1e6
    assert weight <= WHEEL_MB, f"the page adds {weight:.2f} MB to the wheel"
