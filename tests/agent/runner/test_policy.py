"""What a runner refuses: folders outside, kinds that are not its own, modes that skip prompts, and any command."""

from pathlib import Path

import pytest

from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.agent_files import AgentFiles, RunnerAgentRecord
from molecule_core.agent.runner.configuration import RunnerConfiguration, load_runner_configuration
from molecule_core.agent.runner.kinds import KINDS, bridge_arguments
from molecule_core.agent.runner.policy import AgentStart, RefusedError, check_start, find_folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The one folder that is allowed, beside one that is not."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


def _configuration(*folders: Path, allow_skipping_permissions: bool = False) -> RunnerConfiguration:
    return RunnerConfiguration(
        folders=tuple(map(str, folders)),
        kinds=("claude", "codex", "opencode"),
        allow_skipping_permissions=allow_skipping_permissions,
    )


def test_folders_that_are_allowed_and_those_below_are_used(shop: Path) -> None:
    (shop / "backend").mkdir()
    assert find_folder(str(shop), _configuration(shop)) == shop.resolve()
    assert find_folder(str(shop / "backend"), _configuration(shop)) == (shop / "backend").resolve()


def test_a_folder_of_which_only_the_last_part_is_missing_is_created(shop: Path) -> None:
    assert find_folder(str(shop / "new"), _configuration(shop)).is_dir()
    with pytest.raises(RefusedError, match="does not exist"):
        find_folder(str(shop / "one" / "two"), _configuration(shop))
    assert not (shop / "one").exists()


@pytest.mark.parametrize("path", ["../secrets", "..", "../shop-2", "new/../../secrets"])
def test_a_folder_outside_is_refused_and_not_created(shop: Path, path: str) -> None:
    with pytest.raises(RefusedError, match=r"not below a folder that runner\.toml allows"):
        find_folder(f"{shop}/{path}", _configuration(shop))
    assert sorted(each.name for each in shop.parent.iterdir()) == ["secrets", "shop"]


def test_a_link_to_a_folder_outside_is_refused(shop: Path) -> None:
    (shop / "link").symlink_to(shop.parent / "secrets")
    for path in (shop / "link", shop / "link" / "below"):
        with pytest.raises(RefusedError, match="is not below a folder"):
            find_folder(str(path), _configuration(shop))


def test_an_allowed_folder_may_be_a_link(shop: Path) -> None:
    (shop.parent / "current").symlink_to(shop)
    assert find_folder(str(shop), _configuration(shop.parent / "current")) == shop.resolve()


@pytest.mark.parametrize("path", ["shop", "", "~/shop", "./", "/srv\0/etc"])
def test_what_is_no_absolute_path_is_refused(shop: Path, path: str) -> None:
    with pytest.raises(RefusedError, match="must be an absolute path"):
        find_folder(path, _configuration(shop))


def test_a_file_is_refused_and_so_is_all_without_allowed_folders(shop: Path) -> None:
    (shop / "file").write_text("")
    with pytest.raises(RefusedError, match="does not exist"):
        find_folder(str(shop / "file"), _configuration(shop))
    with pytest.raises(RefusedError, match="it allows none"):
        find_folder(str(shop), _configuration())


@pytest.mark.parametrize("kind", ["gemini", "bash", "/bin/sh", "claude --dangerously-skip-permissions", ""])
def test_a_kind_that_is_not_allowed_is_refused(shop: Path, kind: str) -> None:
    with pytest.raises(RefusedError, match="its configuration allows claude, codex, opencode"):
        check_start(kind, str(shop), "", _configuration(shop))


def test_a_mode_that_skips_prompts_needs_the_owners_permission(shop: Path) -> None:
    with pytest.raises(RefusedError, match=r"skips permission prompts.*allow_skipping_permissions"):
        check_start("claude", str(shop), "bypassPermissions", _configuration(shop))
    accepted = _configuration(shop, allow_skipping_permissions=True)
    start = check_start("claude", str(shop), "bypassPermissions", accepted)
    arguments = bridge_arguments(KINDS["claude"], program="/bin/claude", folder=start.folder, mode=start.mode)
    assert arguments[-3:] == ("--permission-mode", "bypassPermissions", "--allow-skipping-permissions")


@pytest.mark.parametrize("mode", ["--dangerously-skip-permissions", "yolo", "manual -- sh"])
def test_an_unknown_mode_is_refused(shop: Path, mode: str) -> None:
    for kind in ("claude", "codex", "opencode"):
        with pytest.raises(RefusedError, match="cannot be started in mode"):
            check_start(kind, str(shop), mode, _configuration(shop))


def test_without_a_mode_the_agent_asks(shop: Path) -> None:
    start = check_start("claude", str(shop), "", _configuration(shop))
    assert start == AgentStart("claude", str(shop.resolve()), "manual")
    arguments = bridge_arguments(KINDS["claude"], program="/bin/claude", folder=start.folder, mode=start.mode)
    assert arguments == (
        *("bridge", "claude", "--until-eof", "--cwd", str(shop.resolve())),
        *("--program", "/bin/claude", "--permission-mode", "default"),
    )


@pytest.mark.parametrize("name", ["..", "../..", "a", "", "0197f3a2-0000-7000-8000-00000000000/"])
def test_a_workspace_id_that_is_a_path_is_refused(tmp_path: Path, name: str) -> None:
    record = RunnerAgentRecord(name, "Shop", AgentStart("claude", "/srv", "manual"))
    with pytest.raises(RefusedError, match="is not a workspace id"):
        AgentFiles(tmp_path).save(record, "token")
    assert list(tmp_path.iterdir()) == []


def test_agents_and_their_tokens_are_for_the_owner_only(tmp_path: Path) -> None:
    record = RunnerAgentRecord("0197f3a2-0000-7000-8000-000000000001", "Shop", AgentStart("claude", "/srv", "manual"))
    files = AgentFiles(tmp_path)
    files.save(record, "the token")
    assert list(files.load()) == [record]
    modes = {each.name: each.stat().st_mode & 0o777 for each in files.folder_of(record.workspace_id).iterdir()}
    assert modes == {"agent.json": 0o600, "token": 0o600}
    files.forget(record.workspace_id)
    assert list(files.load()) == []


def test_the_first_start_allows_one_folder_of_its_own_and_asks(tmp_path: Path) -> None:
    configuration = load_runner_configuration(tmp_path)
    assert configuration.folders == (str(tmp_path / "work"),)
    assert not configuration.allow_skipping_permissions
    assert load_runner_configuration(tmp_path) == configuration
    assert check_start("claude", str(tmp_path / "work" / "Shop"), "", configuration).mode == "manual"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("folders = [", "is not valid"),
        ("folder = []", "unknown field"),
        ('kinds = ["bash"]', "unknown kinds: bash"),
        ('folders = ["work"]', "absolute folders"),
    ],
)
def test_an_invalid_configuration_ends_the_start(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "runner.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=reason):
        load_runner_configuration(tmp_path)
