"""deploy/ and docs/operations.md: what they name is there, and what can be checked by its own tool is."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.inspect import StructType, type_info

from molecule_core.cli import COMMANDS
from molecule_core.common.limits import SPARE_FILES, Limits
from molecule_core.common.settings import Settings
from tests.requirements import requirement
from tests.waits import PROCESS_START_SECONDS

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PAGE = ROOT / "docs" / "operations.md"
OWN_VARIABLES = {"MOLECULE_CONFIG", "MOLECULE_ADMIN_TOKEN", "MOLECULE_UI"}


def known_variables() -> set[str]:
    """Every variable that the server reads."""
    info = type_info(Limits)
    assert isinstance(info, StructType)
    limits = {f"MOLECULE_LIMIT_{field.name.upper()}" for field in info.fields}
    return OWN_VARIABLES | limits | {f"MOLECULE_{name.upper()}" for name in Settings.__struct_fields__}


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


@requirement("O9", "O2")
@pytest.mark.parametrize("path", [*sorted(DEPLOY.iterdir()), PAGE], ids=lambda path: path.name)
def test_every_variable_that_is_named_is_read_by_the_server(path: Path) -> None:
    named = set(re.findall(r"\bMOLECULE_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert named <= known_variables()


@requirement("O9")
def test_the_page_names_every_setting_and_only_verbs_and_files_that_are_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in set(Settings.__struct_fields__) - {"limits"}:
        assert f"`MOLECULE_{name.upper()}`" in page, name
    verbs = set(re.findall(r"(?<![\w./-])molecule ([a-z-]+)(?= |`|$)", page, re.MULTILINE))
    assert {"backup", "restore", "prune", "doctor", "login-link"} <= verbs & set(COMMANDS)
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", page):
        assert (PAGE.parent / name).exists(), name
    for name in re.findall(r"deploy/[\w.-]+\w", page):
        assert (ROOT / name).exists(), name


@requirement("O9")
def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip(reason="systemd-analyze is not on this machine")
    for name in ("molecule.service", "molecule-backup.service", "molecule-backup.timer"):
        # The programs that the units name are not on the machine of the tests.
        unit = re.sub(r"/opt/molecule/bin/molecule", "/bin/true", text_of(name))
        (tmp_path / name).write_text(unit, encoding="utf-8")
    checked = subprocess.run(
        [tool, "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=PROCESS_START_SECONDS,
        check=False,
    )
    ours = [line for line in checked.stderr.splitlines() if "molecule" in line and "User" not in line]
    assert ours == []


@requirement("O9")
def test_the_unit_writes_only_its_own_folder_and_may_open_what_it_needs() -> None:
    unit = dict(re.findall(r"^(\w+)=(.*)$", text_of("molecule.service"), re.MULTILINE))
    hardened = ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectKernelModules", "ProtectHome")
    assert {unit[name] for name in hardened} == {"true"}
    assert (unit["ProtectSystem"], unit["CapabilityBoundingSet"], unit["UMask"]) == ("strict", "", "0077")
    assert int(unit["LimitNOFILE"]) >= Limits().connections + SPARE_FILES
    assert "MOLECULE_STATE_DIR=/var/lib/molecule" in text_of("molecule.service")
    assert not re.search(r"(TOKEN|PASSWORD)=\S", text_of("molecule.service"))


@requirement("O9", "P6")
def test_the_container_runs_as_nobody_from_pinned_requirements() -> None:
    lines = text_of("Containerfile").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM")] == ["python:3.12-slim"] * 2
    assert any(re.fullmatch(r"USER [1-9]\d+", line) for line in lines)
    assert sum("--require-hashes" in line for line in lines) == 1
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = [name for names in copies for name in names]
    assert all((ROOT / name).exists() for name in copied)


@requirement("O9", "M24")
@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_the_proxies_pass_streams_and_large_bodies_through(name: str) -> None:
    text = text_of(name)
    assert text.count("{") == text.count("}")
    words = {
        "nginx.conf": (
            "proxy_buffering off;",
            "proxy_request_buffering off;",
            "proxy_set_header Host $host;",
            "proxy_set_header Upgrade $http_upgrade;",
            "client_max_body_size 252m;",
            "proxy_read_timeout 330s;",
        ),
        "Caddyfile": ("flush_interval -1", "max_size 264MB", "read_timeout 330s", "reverse_proxy 127.0.0.1:8080"),
    }
    assert [each for each in words[name] if each not in text] == []
    tool = shutil.which("caddy") if name == "Caddyfile" else None
    if tool is not None:
        checked = subprocess.run(
            [tool, "validate", "--adapter", "caddyfile", "--config", str(DEPLOY / name)],
            capture_output=True,
            timeout=PROCESS_START_SECONDS,
            check=False,
        )
        assert checked.returncode == 0, checked.stderr
