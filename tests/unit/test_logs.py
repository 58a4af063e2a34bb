"""Logs for people and for machines; neither ever shows a credential."""

import json
import logging
import os
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.logs import JsonFormatter, TextFormatter, configure_logging, redact, register_secret
from molecule_core.common.tokens import ADMIN_PREFIX, PERSON_PREFIX, WORKSPACE_PREFIX, new_token
from testing.clocks import SeededRandomness
from testing.step_counts import examples
from tests.requirements import requirement

TOKENS = [new_token(prefix, SeededRandomness(9)) for prefix in (WORKSPACE_PREFIX, PERSON_PREFIX, ADMIN_PREFIX)]
OPAQUE = "s3cret/of.somebody=="
FORMATTERS: dict[str, logging.Formatter] = {"text": TextFormatter(), "json": JsonFormatter()}


def _record(message: str, *args: object, error: BaseException | None = None, **extra: Any) -> logging.LogRecord:
    found = (type(error), error, error.__traceback__) if error is not None else None
    record = logging.LogRecord("molecule.test", logging.WARNING, "file.py", 1, message, args, found)
    vars(record).update(extra)
    return record


def _raised(text: str) -> BaseException:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def _written(style: str, record: logging.LogRecord) -> str:
    line = FORMATTERS[style].format(record)
    if style == "json":
        assert isinstance(json.loads(line), dict), line
        assert "\n" not in line
    return line


FRAMES = [
    "%s",
    "token %s was refused",
    "Authorization: Bearer %s",
    "authorization: bearer %s, X-Workspace-ID: w",
    '{"authorization":"Bearer %s","next":"x"}',
    "headers: [('Authorization', 'Bearer %s')]",
    "BEARER\t%s",
    "Bearer\n%s",
    "url?token=%s&more=1",
    "(%s)",
    "two: %s %s",
]


@requirement("O3")
@pytest.mark.parametrize("style", FORMATTERS)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("token", TOKENS)
def test_a_token_of_ours_is_taken_out_wherever_it_stands(style: str, frame: str, token: str) -> None:
    text = frame.replace("%s", token)
    for record in (
        _record(text.replace("%", "%%")),
        _record("said %s", text),
        _record("an extra", detail=text),
        _record("failed", error=_raised(text)),
    ):
        line = _written(style, record)
        assert token not in line
        assert token[7:] not in line


@requirement("O3")
@pytest.mark.parametrize("style", FORMATTERS)
@pytest.mark.parametrize("frame", [frame for frame in FRAMES if "bearer" in frame.lower()])
def test_any_bearer_credential_is_taken_out_whatever_it_looks_like(style: str, frame: str) -> None:
    for record in (_record("said %s", frame.replace("%s", OPAQUE)), _record("x", error=_raised(frame % OPAQUE))):
        assert OPAQUE not in _written(style, record)


SECRET = "canary0f.Somebody-else+s=="


@requirement("O3")
@pytest.mark.parametrize("style", FORMATTERS)
@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Basic {SECRET}",
        f"proxy-authorization: Digest username=ada, response={SECRET}",
        f"Cookie: theme=dark; molecule_8080={SECRET}; x=1",
        f"set-cookie: __Host-molecule={SECRET}; HttpOnly",
        f"{{'cookie': 'molecule_8080={SECRET}'}}",
        f"(b'authorization', b'Basic {SECRET}')",
        f"postgresql://ada:{SECRET}@db.internal/molecule",
        f"postgresql://{SECRET}@db.internal/molecule",
        f"postgresql:///molecule?user=ada&password={SECRET}&sslmode=require",
        f"host=db user=ada password={SECRET} dbname=molecule",
        f"host=db password='{SECRET}'",
        f"https://{SECRET}@git.example/repository.git",
        f"https://ada:{SECRET}@proxy.example:3128",
    ],
)
def test_other_peoples_credentials_are_taken_out_where_they_usually_stand(style: str, text: str) -> None:
    for record in (_record("%s", text), _record("failed", error=_raised(text)), _record("x", detail=text)):
        assert SECRET not in _written(style, record)


@requirement("O3")
@examples(200)
@given(st.text(max_size=20), st.text(max_size=20), st.sampled_from(TOKENS))
def test_whatever_stands_around_a_token_the_token_is_taken_out(before: str, after: str, token: str) -> None:
    for style in FORMATTERS:
        line = _written(style, _record("%s", f"{before}{token} {after}"))
        assert token not in line
        assert token[7:] not in line


@requirement("O3")
@examples(200)
@given(st.text(max_size=40))
def test_a_text_without_a_credential_is_left_alone(text: str) -> None:
    words = ("bearer", "cookie", "authorization", "password", "passwd", "pwd", "://")
    if "mol_" not in text and not any(word in text.lower() for word in words):
        assert redact(text) == text
        assert json.loads(FORMATTERS["json"].format(_record("%s", text)))["message"] == text


@pytest.mark.parametrize(
    "text",
    [
        *("molecule_core", "mol_ws_", "the bearer", "mol_xx_0123456789", "forbearance", "no cookie was sent"),
        *("http://127.0.0.1:8080/workspaces", "the password is wrong", "ada@molecule.example", "basic authorization"),
    ],
)
def test_what_only_resembles_a_credential_is_left_alone(text: str) -> None:
    assert redact(text) == text


def test_what_stands_beside_a_credential_stays_readable() -> None:
    assert redact(f"token {TOKENS[0]} was refused") == "token [credential] was refused"
    line = json.loads(FORMATTERS["json"].format(_record("got 'Bearer %s'", OPAQUE, route="/orgs", status=401)))
    assert line["message"].startswith("got '[credential]")
    assert (line["route"], line["status"]) == ("/orgs", 401)


def test_a_line_for_machines_is_one_object_with_what_happened_when_and_where() -> None:
    record = _record("it is %s", "so", org="o-1", error=_raised("broken"))
    record.created = 1_800_000_000.25
    line = json.loads(FORMATTERS["json"].format(record))
    assert line.pop("exception").endswith("ValueError: broken")
    assert line == {
        "time": "2027-01-15T08:00:00.250000Z",
        "level": "warning",
        "logger": "molecule.test",
        "message": "it is so",
        "process": os.getpid(),
        "org": "o-1",
    }


def test_a_line_for_people_has_its_level_its_logger_and_its_message() -> None:
    assert FORMATTERS["text"].format(_record("it is %s", "so")).endswith(" WARNING molecule.test: it is so")


@pytest.mark.parametrize("style", FORMATTERS)
def test_a_text_that_cannot_be_encoded_does_not_silence_the_log(style: str) -> None:
    assert "odd" in FORMATTERS[style].format(_record("an odd %s", "\ud800"))


@pytest.mark.parametrize(("style", "formatter"), [("text", TextFormatter), ("json", JsonFormatter)])
def test_logs_go_to_standard_error_in_one_style(
    style: str, formatter: type[logging.Formatter], capsys: pytest.CaptureFixture[str]
) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        root.handlers = []
        configure_logging("warning", style)
        (handler,) = root.handlers
        assert isinstance(handler.formatter, formatter)
        assert isinstance(handler, logging.StreamHandler)
        assert handler.stream is sys.stderr
        logging.getLogger("molecule.test").info("too quiet")
        logging.getLogger("molecule.test").warning("token %s", TOKENS[0])
    finally:
        root.handlers, root.level = before, level
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "[credential]" in printed.err
    assert "too quiet" not in printed.err
    assert len(printed.err.splitlines()) == 1


@requirement("O3")
def test_numbers_of_a_json_log_are_numbers() -> None:
    record = _record(
        "x", status=200, milliseconds=1.5, cached=True, nothing=None, endless=float("inf"), token=TOKENS[0]
    )
    line = json.loads(JsonFormatter().format(record))
    assert (line["status"], line["milliseconds"], line["cached"], line["nothing"]) == (200, 1.5, True, None)
    assert line["process"] == os.getpid()
    assert (line["endless"], line["token"]) == ("inf", "[credential]")


def test_a_key_of_one_letter_leaves_the_text_readable_and_a_real_one_is_taken_out() -> None:
    register_secret("x")
    register_secret("an-operators-own-token")
    assert redact("the next box is exact") == "the next box is exact"
    assert redact("used an-operators-own-token here") == "used [credential] here"
