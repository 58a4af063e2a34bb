"""The committed pins: complete, hashed, of one mind, and free of addresses."""

import itertools
import re
import subprocess
import tomllib
from collections.abc import Iterator

import pytest

from tests.system.setup.support import PROCESS_S, ROOT

LOCKS = ("run", "build", "test", "bench", "docs", "release")
PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[\w.!+]+)(?: ; (?P<marker>.*))?")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def lock(name: str) -> str:
    return (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")


def entries(text: str) -> list[list[str]]:
    """Each entry as its requirement and its options."""
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", "\n--continued").splitlines()
    joined: list[list[str]] = []
    for line in filter(str.strip, lines):
        if line.startswith("--continued"):
            joined[-1].append(line.removeprefix("--continued").strip())
        else:
            joined.append([line.strip()])
    return joined


def faults(text: str) -> Iterator[str]:
    """Entries that an installer could resolve in more than one way, and lines that name a place to load from."""
    for requirement, *hashes in entries(text):
        if not PIN.fullmatch(requirement):
            yield f"not a pin: {requirement}"
        elif not hashes or not all(HASH.fullmatch(one) for one in hashes):
            yield f"not hashed: {requirement}"
    for line in text.splitlines():
        if re.search(r"://|^\s*(-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host)\b", line):
            yield f"an address: {line}"


def pins(name: str) -> dict[str, str]:
    found = [PIN.fullmatch(requirement) for requirement, *_ in entries(lock(name))]
    return {pin["name"]: pin["version"] for pin in found if pin}


def named(requirements: list[str]) -> set[str]:
    """The bare names of requirements, as the locks spell them."""
    return {re.split(r"[^\w.-]", requirement)[0].lower() for requirement in requirements}


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_with_a_hash_and_without_an_address(name: str) -> None:
    assert list(faults(lock(name))) == []
    assert pins(name)


HASHED = f"--hash=sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("click==8.5.1\n", "not hashed: click==8.5.1"),
        ("click==8.5.1 \\\n    --hash=md5:00\n", "not hashed: click==8.5.1"),
        (f"click>=8.5.1 \\\n    {HASHED}\n", "not a pin: click>=8.5.1"),
        (f"click==8.* \\\n    {HASHED}\n", "not a pin: click==8.*"),
        ("click @ file:///click.whl\n", "an address: click @ file:///click.whl"),
        ("--index-url elsewhere\n", "an address: --index-url elsewhere"),
    ],
)
def test_a_planted_fault_in_a_lock_is_found(text: str, fault: str) -> None:
    assert fault in list(faults(f"httpx2==2.16.2 \\\n    {HASHED}\n{text}"))


def test_a_package_has_one_version_in_all_locks() -> None:
    for one, other in itertools.combinations(map(pins, LOCKS), 2):
        shared = one.keys() & other.keys()
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}


def test_every_dependency_that_the_project_declares_is_locked() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    assert named(project["dependencies"] + project["optional-dependencies"]["postgres"]) <= pins("run").keys()
    assert named(declared["build-system"]["requires"]) <= pins("build").keys()
    assert named(declared["dependency-groups"]["test"]) <= pins("test").keys()
    assert named(declared["dependency-groups"]["bench"]) <= pins("bench").keys()
    assert named(declared["dependency-groups"]["docs"]) <= pins("docs").keys()
    assert named(declared["dependency-groups"]["release"]) <= pins("release").keys()


def test_what_is_measured_against_is_not_there_for_the_product_and_its_tests() -> None:
    here = pins("run").keys() | pins("build").keys() | pins("test").keys()
    assert "a2a-sdk" in pins("bench")
    assert not here & {"a2a-sdk", "sqlalchemy", "aiosqlite"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an unpacked sdist is no repository")
def test_no_lock_file_of_another_tool_is_in_the_repository() -> None:
    command = ["git", "ls-files", "*uv.lock", "*pylock*.toml", "*poetry.lock", "*Pipfile.lock"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_S, check=True)
    assert found.stdout == ""
