"""The tests themselves: named by an outcome, with assertions, without sleeps and silent skips."""

from pathlib import Path

import pytest

from tests.architecture.guards.weak_tests import find_weak_tests
from tests.architecture.repository import TESTING, TESTS, write_tree

NAME = "test_a_person_sees_the_answer"


def find(repo: Path, text: str, path: str = "messages/test_a.py") -> list[str]:
    """Return the findings of one file of tests."""
    return find_weak_tests(write_tree(repo, {path: text}, folder="tests"))


@pytest.mark.long
def test_the_real_tests_have_a_sentence_and_an_assertion() -> None:
    assert find_weak_tests(TESTS) == []
    assert find_weak_tests(TESTING) == []


@pytest.mark.parametrize(
    "body",
    [
        "assert 1 == one",
        "with pytest.raises(ValueError): int('a')",
        "with r(ValueError): int('a')",
        "with pytest.warns(UserWarning): int('a')",
        "pytest.fail('always')",
        "check_tree(1)",
        "journey.expect_reply('hi')",
        "for x in y:\n        with z:\n            assert x",
    ],
)
def test_a_test_that_can_fail_gives_no_finding(tmp_path: Path, body: str) -> None:
    text = f"import pytest\nfrom pytest import raises as r\n\nasync def {NAME}(journey):\n    {body}\n"
    assert find(tmp_path, text) == []


@pytest.mark.parametrize(
    "body", ["pass", "run()", "assert True", "raise ValueError", "recheck_tree(1)", "'assert x'", "result = one == 1"]
)
def test_a_test_that_cannot_fail_is_the_one_finding(tmp_path: Path, body: str) -> None:
    text = f"def {NAME}():\n    {body}\n"
    assert find(tmp_path, text) == [f"tests/messages/test_a.py:1 {NAME} asserts nothing"]


@pytest.mark.parametrize("module", ["playwright.async_api", "tests.canvas.expectations"])
@pytest.mark.parametrize(
    ("body", "findings"), [("await expect(page).to_have_title('a')", 0), ("expect(page)", 1), ("page.to_have(1)", 1)]
)
def test_an_expectation_of_a_browser_is_an_assertion(tmp_path: Path, module: str, body: str, findings: int) -> None:
    text = f"from {module} import expect\n\nasync def {NAME}(page):\n    {body}\n"
    assert len(find(tmp_path, text)) == findings


@pytest.mark.parametrize("name", ["test_it", "test_three_words_only", "test_a__b__c"])
def test_a_name_that_is_no_sentence_is_the_one_finding(tmp_path: Path, name: str) -> None:
    text = f"class TestTree:\n    def {name}(self):\n        assert self\n"
    assert find(tmp_path, text) == [f"tests/messages/test_a.py:2 {name} is no sentence: test_ and at least 4 words"]


def test_helpers_and_fixtures_need_no_sentence(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.fixture\ndef test_org(): return 1\ndef load(): return 1\n"
    assert find(tmp_path, text) == []
    assert find(tmp_path, "def test_it(): return 1\n", path="other/helpers.py") == []


def test_a_helper_that_promises_to_check_must_assert(tmp_path: Path) -> None:
    text = "def check_a(a): return a\ndef expect_b(b): assert b\ndef check_c(c):\n    if c: raise OSError(c)\n"
    text += "class Fetch:\n    def check_url(self, url): ...\n"
    assert find(tmp_path, text, path="helpers.py") == ["tests/helpers.py:1 check_a asserts nothing"]


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("from asyncio import sleep as nap\nnap(1)", "asyncio.sleep"),
        ("import asyncio\nasyncio.sleep(0)", "asyncio.sleep"),
        ("import anyio\nanyio.sleep(1)", "anyio.sleep"),
    ],
)
def test_a_sleep_anywhere_in_the_tests_is_a_finding(tmp_path: Path, text: str, used: str) -> None:
    assert find(tmp_path, text, path="conftest.py") == [f"tests/conftest.py:2 sleeps with {used}"]


@pytest.mark.parametrize(
    "text",
    [
        "pytest.skip('no browser on this machine')",
        "pytest.skip(reason='no browser')",
        "pytest.xfail('known')",
        "pytest.skip(why)",
        "pytest.skip(msg='an old way')",
        "pytest.importorskip('nats', reason='an extra')",
        "X = pytest.mark.skipif(1 > 2, reason='old kernel')",
        "X = pytest.mark.skip('old kernel')",
        "X = pytest.param(1, marks=pytest.mark.xfail(reason='known'))",
    ],
)
def test_a_skip_with_a_reason_gives_no_finding(tmp_path: Path, text: str) -> None:
    assert find(tmp_path, f"import pytest\n{text}\n") == []


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("pytest.skip()", "pytest.skip"),
        ("pytest.skip('')", "pytest.skip"),
        ("pytest.xfail()", "pytest.xfail"),
        ("pytest.skip('', True)", "pytest.skip"),
        ("pytest.importorskip('nats')", "pytest.importorskip"),
        ("X = pytest.mark.skip", "pytest.mark.skip"),
        ("X = pytest.mark.skipif(1 > 2)", "pytest.mark.skipif"),
        ("X = pytest.param(1, marks=pytest.mark.xfail)", "pytest.mark.xfail"),
        ("X = pytest.mark.xfail(strict=True)", "pytest.mark.xfail"),
    ],
)
def test_a_skip_without_a_reason_is_a_finding(tmp_path: Path, text: str, used: str) -> None:
    assert find(tmp_path, f"import pytest\n{text}\n") == [f"tests/messages/test_a.py:2 {used} gives no reason"]
