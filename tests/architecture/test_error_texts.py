"""Error texts: a reason with a full stop, then one sentence of advice."""

from pathlib import Path

import pytest

from tests.architecture.guards.error_texts import find_formless_errors
from tests.architecture.repository import SOURCES, write_tree

ERRORS = "common/errors.py"


def findings(repo: Path, text: str, path: str = "org/rules.py") -> list[str]:
    """What the guard says of a tree of one module, without its place."""
    found = find_formless_errors(write_tree(repo, {path: text}), verbs=["Use", "Ask"])
    return [each.split(" ", maxsplit=1)[1] for each in found]


def test_every_real_error_text_has_its_form() -> None:
    assert find_formless_errors(SOURCES) == []


@pytest.mark.parametrize(
    "raised",
    [
        'InvalidField(reason="name cannot be empty. Use a character.")',
        'InvalidField(reason=f"name cannot be {name!r}. Use at most {limit}.")',
        "InvalidField(reason=f\"state has no such value. Use one of: {', '.join(STATES)}.\")",
        'InvalidField(reason=f"the chain is not valid: {error.text}")',
        'InvalidField(reason="the name is taken. "\n    "Use another.")',
        "InvalidField(reason=reason)",
        'NotFound(what="org")',
        'McpRejection(400, INVALID, "the id is not valid. Use text.", id_)',
        'TemplateSyntaxError(1, "the tag is not closed. Use another.")',
        'ValueError("two routes")',
    ],
)
def test_a_reason_with_its_advice_gives_no_finding(tmp_path: Path, raised: str) -> None:
    assert findings(tmp_path, f"raise {raised}\n") == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("name cannot be empty. Use a character", "does not end with a full stop"),
        ("name cannot be empty.", "has no advice after its reason"),
        ("name cannot be empty; use a character.", "has no advice after its reason"),
        ("name cannot be empty. Characters help.", "does not end with an advice"),
        ("Use a character. The name is empty.", "does not end with an advice"),
        ("nobody has this name. Use another.", "has the banned word 'nobody'"),
        ("at most 5 are taken. Use fewer.", "has the banned word 'are taken'"),
    ],
)
@pytest.mark.parametrize(
    "raised",
    [
        'raise InvalidField(reason="{}")',
        'raise errors.InvalidField(reason="{}") from None',
        'return BadSettings(reason=f"{}")',
        'raise self.syntax_error("{}")',
        'raise McpRejection(400, INVALID, "{}", id_)',
    ],
)
def test_a_text_without_the_form_is_found_where_it_is_written(
    tmp_path: Path, raised: str, text: str, finding: str
) -> None:
    found = findings(tmp_path, raised.replace("{}", text) + "\n")
    assert f"{finding}: {text}" in found


def test_packages_with_texts_of_their_own_form_are_not_read(tmp_path: Path) -> None:
    assert (
        findings(tmp_path, 'raise CommandFailed(reason="no")\nraise InvalidField(reason="it is no")\n', "cli/up.py")
        == []
    )


def test_an_error_class_with_reason_and_advice_gives_no_finding(tmp_path: Path) -> None:
    text = '''
        class MoleculeError(Exception):
            """the request failed"""

        class OrgExists(MoleculeError):
            """an organisation named {name!r} exists."""

            advice = "Use another name."

        class Limit(_Details, MoleculeError):
            """the limit of {most} is reached."""

            advice = "{remedy}"

        class InvalidField(ReasonError):
            """invalid: {reason}"""

        class RateLimited(WireTextError):
            """rate limit exceeded"""

            advice = "Use it less."
    '''
    assert findings(tmp_path, text, ERRORS) == []


@pytest.mark.parametrize(
    ("base", "doc", "advice", "finding"),
    [
        ("MoleculeError", "it exists.", "", "OrgExists has no advice"),
        ("WireTextError", "gone", "", "OrgExists has no advice"),
        ("MoleculeError", "it exists", "Use another.", "OrgExists has a reason without a full stop"),
        ("MoleculeError", "it exists.", "Use another", "OrgExists has an advice without an imperative or a full stop"),
        ("MoleculeError", "it exists.", "Names vary.", "OrgExists has an advice without an imperative or a full stop"),
        ("ReasonError", "it exists.", "", "OrgExists does not end with the reason of the raise site"),
        ("ReasonError", "{reason}", "Use another.", "OrgExists does not end with the reason of the raise site"),
        ("MoleculeError", "it lies here.", "Use another.", "OrgExists has the banned word 'lies'"),
        ("MoleculeError", "it exists.", "Ask somebody.", "OrgExists has the banned word 'somebody'"),
    ],
)
def test_an_error_class_without_the_form_is_found(
    tmp_path: Path, base: str, doc: str, advice: str, finding: str
) -> None:
    text = f'class OrgExists({base}):\n    """{doc}"""\n\n' + (
        f'    advice = "{advice}"\n' if advice else "    x = 1\n"
    )
    [found] = findings(tmp_path, text, ERRORS)
    assert found.startswith(finding)
