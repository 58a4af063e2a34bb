"""Optional packages that are not installed, and a standard input that has nothing: one line, and an end."""

import re
import sys
from pathlib import Path

import pytest

from testing.ports import free_port
from testing.processes import environment, started
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]
_WITHOUT = """
import sys
sys.modules[{package!r}] = None
from molecule_core.entry import main
sys.argv = ["molecule", *{args!r}]
sys.exit(main())
"""


async def run_without(package: str, folder: Path, *args: str) -> tuple[int, list[str]]:
    """Run `molecule` as if a package were not installed; its exit code, and its lines on standard error."""
    program = _WITHOUT.format(package=package, args=args)
    async with started(sys.executable, "-c", program, env=environment(folder, free_port()), cwd=folder) as process:
        code = await process.ended()
        return code, process.said.strip().splitlines()


@requirement("O1")
@pytest.mark.parametrize("verb", [("serve",), ("backup", "copy"), ("doctor",)], ids=lambda verb: verb[0])
async def test_a_missing_driver_is_one_line_that_says_what_to_install(tmp_path: Path, verb: tuple[str, ...]) -> None:
    database = ("--database", "postgresql://127.0.0.1:1/molecule", "--state-dir", str(tmp_path))
    code, lines = await run_without("asyncpg", tmp_path, *verb, *database)
    assert (code, [*tmp_path.glob("copy*")]) == (2, [])
    assert lines == [
        "molecule: the package asyncpg is not installed. In a clone, run pip install '.[postgres]'; "
        "with a wheel, run pip install 'PATH_OF_THE_WHEEL[postgres]'."
    ]


@requirement("O1")
async def test_a_missing_langchain_is_named_with_its_extra(tmp_path: Path) -> None:
    program = "import sys; sys.modules['langchain_core'] = None; import molecule_core.langchain"
    async with started(sys.executable, "-c", program, env=environment(tmp_path, 0)) as process:
        assert await process.ended() == 1
        assert process.said.strip().splitlines()[-1].endswith("pip install 'PATH_OF_THE_WHEEL[langchain]'.")


@requirement("M16")
async def test_an_agent_without_a_standard_input_ends(tmp_path: Path) -> None:
    variables = environment(tmp_path, 0)
    variables |= {
        "WORKSPACE_ID": "00000000-0000-4000-8000-000000000000",
        "MOLECULE_WORKSPACE_TOKEN": "mol_ws_" + "x" * 51,
        "PLATFORM_URL": f"http://127.0.0.1:{free_port()}",
        "CONFIGS_DIR": str(tmp_path),
    }
    async with started(sys.executable, "-m", "molecule_core", "mcp", env=variables) as process:
        code = await process.ended()  # the standard input is /dev/null
    assert code == 0
    assert "Traceback" not in process.said


@requirement("O1")
def test_no_text_and_no_page_installs_the_bare_name() -> None:
    """The name is on no package index: what an index has under it one day may be another's."""
    bare = re.compile(r"(?:install|uvx|uv tool run|pipx run)\s+(?:-\S+\s+)*['\"]?molecule-core(?![\w.*-]*\.whl)")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    examples = [each for each in (ROOT / "examples").rglob("*.*") if each.suffix != ".pyc"]
    texts = [*pages, *(ROOT / "src" / "molecule_core").rglob("*.py"), *examples]
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in texts
        if path.parent.name != "decisions"
        for line in path.read_text().splitlines()
        if bare.search(line)
    }
    assert found == set()
