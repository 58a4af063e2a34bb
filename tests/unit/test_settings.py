"""Settings: defaults < file < environment < flags, and every mistake is named."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.errors import BadSettings
from molecule_core.common.limits import Limits
from molecule_core.common.settings import Settings, configured_admin_token, load_settings
from molecule_core.common.tracing import traces_url
from tests.requirements import requirement


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The settings file."""
    return tmp_path / "molecule.toml"


def _with_file(file: Path, text: str, **environ: str) -> dict[str, str]:
    file.write_text(text, encoding="utf-8")
    return {"MOLECULE_CONFIG": str(file), **environ}


def test_without_anything_the_defaults_are_in_force() -> None:
    assert load_settings({}, {}) == Settings()
    assert load_settings({"PATH": "/bin", "MOLECULE_PORT": "", "MOLECULE_CONFIG": ""}, {"port": None}) == Settings()
    assert (Settings().host, Settings().port) == ("127.0.0.1", 8080)


@requirement("O2")
def test_the_file_beats_the_default_the_environment_the_file_and_a_flag_all(file: Path) -> None:
    text = 'port = 1001\nhost = "file"\npublic_url = "http://file"\n[limits]\nparts = 11\ntext_bytes = 12\n'
    environ = _with_file(file, text, MOLECULE_PORT="1002", MOLECULE_HOST="environment", MOLECULE_LIMIT_PARTS="21")
    found = load_settings(environ, {"port": 1003, "host": None})
    assert (found.port, found.host, found.public_url) == (1003, "environment", "http://file")
    assert (found.limits.parts, found.limits.text_bytes) == (21, 12)
    assert found.limits.body_bytes == Limits().body_bytes
    assert load_settings(_with_file(file, text), {}).port == 1001


@requirement("O1")
def test_what_a_verb_has_instead_of_the_default_is_beaten_by_whatever_somebody_chose(file: Path) -> None:
    usual = {"log_level": "warning"}
    assert load_settings({}, {"log_level": None}, usual).log_level == "warning"
    assert load_settings(_with_file(file, 'log_level = "info"'), {}, usual).log_level == "info"
    assert load_settings({"MOLECULE_LOG_LEVEL": "debug"}, {}, usual).log_level == "debug"
    assert load_settings({}, {"log_level": "error"}, usual).log_level == "error"


@requirement("I4")
def test_the_instruction_layer_is_on_unless_it_is_switched_off_by_either_name() -> None:
    assert load_settings({}, {}).push_instructions_enabled
    assert not load_settings({"PUSH_INSTRUCTIONS_ENABLED": "false"}, {}).push_instructions_enabled
    assert not load_settings({"MOLECULE_PUSH_INSTRUCTIONS_ENABLED": "0"}, {}).push_instructions_enabled
    usual = {"push_instructions_enabled": False}
    assert load_settings({"PUSH_INSTRUCTIONS_ENABLED": "true"}, {}, usual).push_instructions_enabled
    with pytest.raises(BadSettings, match="push_instructions_enabled"):
        load_settings({"PUSH_INSTRUCTIONS_ENABLED": "perhaps"}, {})


@requirement("O2")
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("MOLECULE_PUBLIC_ULR", "MOLECULE_PUBLIC_URL"),
        ("MOLECULE_ALLOWED_HOST", "MOLECULE_ALLOWED_HOSTS"),
        ("MOLECULE_LOGLEVEL", "MOLECULE_LOG_LEVEL"),
        ("MOLECULE_HOSTS", "MOLECULE_HOST"),
    ],
)
def test_a_mistyped_setting_is_refused_and_the_one_that_is_meant_is_named(name: str, meant: str) -> None:
    with pytest.raises(BadSettings, match=f"{name} is not a known setting. Use {meant}"):
        load_settings({name: "x"}, {})


@requirement("O2")
@pytest.mark.parametrize(
    "name",
    [
        *("MOLECULE_URL", "MOLECULE_TOKEN", "MOLECULE_WORKSPACE_TOKEN", "MOLECULE_MCP_LEASE_SECONDS", "MOLECULE_UI"),
        *("MOLECULE_FILE", "MOLECULE_STATE_FILE", "MOLECULE_PROJECT_DIRECTORY", "MOLECULE_SCENARIO_NAME"),  # Ansible's
    ],
)
def test_a_variable_of_another_program_or_command_is_no_mistyped_setting(name: str) -> None:
    assert load_settings({name: "x"}, {}) == Settings()


@requirement("O7")
@pytest.mark.parametrize(
    ("endpoint", "posts_to"),
    [
        ("http://host:4318", "http://host:4318/v1/traces"),
        ("http://host:4318/", "http://host:4318/v1/traces"),
        ("http://host:4318/v1/traces", "http://host:4318/v1/traces"),
        ("https://host/otlp/spans", "https://host/otlp/spans"),
    ],
)
def test_the_base_address_of_a_collector_gets_the_path_of_the_standard(endpoint: str, posts_to: str) -> None:
    assert traces_url(endpoint) == posts_to


@requirement("D18")
def test_the_table_for_analysis_is_off_unless_it_is_switched_on_by_either_name() -> None:
    assert not load_settings({}, {}).delegation_ledger_write
    assert load_settings({"DELEGATION_LEDGER_WRITE": "true"}, {}).delegation_ledger_write
    assert load_settings({"MOLECULE_DELEGATION_LEDGER_WRITE": "1"}, {}).delegation_ledger_write
    with pytest.raises(BadSettings, match="delegation_ledger_write"):
        load_settings({"DELEGATION_LEDGER_WRITE": "perhaps"}, {})


VALUES: dict[str, tuple[str, Any]] = {
    "host": ("0.0.0.0", "0.0.0.0"),
    "port": ("9000", 9000),
    "state_dir": ("/var/lib/molecule", "/var/lib/molecule"),
    "database": ("postgresql://db", "postgresql://db"),
    "files_dir": ("/srv/files", "/srv/files"),
    "nats": ("nats://queue:4222", "nats://queue:4222"),
    "public_url": ("https://m.example", "https://m.example"),
    "allowed_hosts": ("a.example,b.example", ("a.example", "b.example")),
    "push_networks": ("10.0.0.0/8, fd00::/8", ("10.0.0.0/8", "fd00::/8")),
    "metrics_token": ("a-token-of-24-characters", "a-token-of-24-characters"),
    "otel_endpoint": ("http://collector:4318/v1/traces", "http://collector:4318/v1/traces"),
    "a2a_root_workspace": ("Front desk", "Front desk"),
    "a2a_legacy_cards": ("false", False),
    "a2a_card_key": ("/etc/molecule/card.pem", "/etc/molecule/card.pem"),
    "oauth_client_documents": ("false", False),
    "oauth_dynamic_registration": ("true", True),
    "trusted_proxies": ("10.0.0.1, fd00::/8", ("10.0.0.1", "fd00::/8")),
    "push_instructions_enabled": ("false", False),
    "instruction_shape": ("xml", "xml"),
    "instruction_adaptive": ("true", True),
    "delegation_ledger_write": ("true", True),
    "access_log": ("true", True),
    "log_level": ("debug", "debug"),
    "log_format": ("json", "json"),
}


@pytest.mark.parametrize("name", [name for name in Settings.__struct_fields__ if name != "limits"])
def test_every_setting_can_be_set_from_the_environment(name: str) -> None:
    text, value = VALUES[name]
    found = load_settings({f"MOLECULE_{name.upper()}": text}, {})
    assert getattr(found, name) == value != getattr(Settings(), name)


@requirement("O2")
@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_every_limit_can_be_set_from_the_environment_and_the_file(name: str, file: Path) -> None:
    value = getattr(Limits(), name) + 1
    from_environment = load_settings({f"MOLECULE_LIMIT_{name.upper()}": str(value)}, {}).limits
    from_file = load_settings(_with_file(file, f"[limits]\n{name} = {value}\n"), {}).limits
    for found in (from_environment, from_file):
        assert getattr(found, name) == value
        assert {each for each in Limits.__struct_fields__ if getattr(found, each) != getattr(Limits(), each)} == {name}


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", " "])
def test_a_limit_that_is_no_whole_number_above_zero_is_refused_and_named(name: str, value: str) -> None:
    if name in ("retention_days", "usage_record_days") and value == "0":  # for ever
        assert getattr(load_settings({f"MOLECULE_LIMIT_{name.upper()}": "0"}, {}).limits, name) == 0
        return
    with pytest.raises(BadSettings, match=rf"invalid setting: limits\.{name} cannot be .*\. Use a"):
        load_settings({f"MOLECULE_LIMIT_{name.upper()}": value}, {})


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"MOLECULE_PORT": "eighty"}, "port"),
        ({"MOLECULE_PORT": "-1"}, "port"),
        ({"MOLECULE_PORT": "65536"}, "port"),
        ({"MOLECULE_LOG_LEVEL": "loud"}, "log_level"),
        ({"MOLECULE_LOG_FORMAT": "xml"}, "log_format"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_and_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        load_settings(environ, {})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 8080\n", "prot is not a known setting"),
        ("[limits]\nbody_byte = 1\n", r"limits\.body_byte is not a known setting"),
        ("[server]\nport = 1\n", "server is not a known setting"),
        ('port = "x"\n', "port cannot be text. Use a whole number."),
        ("host = 7\n", "host cannot be a whole number. Use text."),
        ("[limits]\nparts = 0\n", r"limits\.parts cannot be 0. Use a number of at least 1."),
        ("port = \n", "is not TOML"),
        ("port = 1\nport = 2\n", "is not TOML"),
        ("limits = 5\n", "limits"),
        ('limits = "many"\n', "limits"),
        ("limits = [1]\n", "limits"),
    ],
)
def test_a_mistake_in_the_file_is_refused_and_named(file: Path, text: str, named: str) -> None:
    with pytest.raises(BadSettings, match=named):
        load_settings(_with_file(file, text), {})


def test_a_file_that_is_missing_or_unreadable_is_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(BadSettings, match=r"nowhere\.toml cannot be read: No such file"):
        load_settings({"MOLECULE_CONFIG": str(tmp_path / "nowhere.toml")}, {})
    with pytest.raises(BadSettings, match="cannot be read: Is a directory"):
        load_settings({"MOLECULE_CONFIG": str(tmp_path)}, {})
    file.write_bytes(b'host = "\xff"\n')
    with pytest.raises(BadSettings, match=r"molecule\.toml"):
        load_settings({"MOLECULE_CONFIG": str(file)}, {})


def test_a_mistyped_limit_in_the_environment_is_refused_and_named() -> None:
    """Or somebody believes to be protected by a limit that was never set."""
    with pytest.raises(BadSettings, match="MOLECULE_LIMIT_BODY_BYTE is not a known limit"):
        load_settings({"MOLECULE_LIMIT_BODY_BYTE": "5"}, {})


@pytest.mark.parametrize("networks", [("everywhere",), ("10.0.0.1/8",), ("10.0.0.0/8", "0.0.0.0/0")])
def test_a_push_network_that_is_none_or_too_wide_is_refused_and_named(networks: tuple[str, ...]) -> None:
    with pytest.raises(BadSettings, match=f"push_networks: .*{networks[-1]}"):
        load_settings({}, {"push_networks": networks})
    with pytest.raises(BadSettings, match=f"push_networks: .*{networks[-1]}"):
        load_settings({"MOLECULE_PUSH_NETWORKS": ", ".join(networks)}, {})


def test_several_allowed_hosts_are_separated_by_commas() -> None:
    assert load_settings({"MOLECULE_ALLOWED_HOSTS": "a.example,b.example"}, {}).allowed_hosts == (
        "a.example",
        "b.example",
    )
    assert load_settings({"MOLECULE_ALLOWED_HOSTS": "a.example, b.example,"}, {}).allowed_hosts == (
        "a.example",
        "b.example",
    )
    assert load_settings({"MOLECULE_ALLOWED_HOSTS": "a"}, {"allowed_hosts": ("b", "c")}).allowed_hosts == ("b", "c")


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        (Settings(), "http://127.0.0.1:8080"),
        (Settings(host="::1", port=9), "http://[::1]:9"),
        (Settings(public_url="https://m.example/"), "https://m.example"),
        (Settings(public_url="https://m.example/base"), "https://m.example/base"),
    ],
)
def test_agents_and_people_are_told_an_address_that_works(settings: Settings, url: str) -> None:
    assert settings.url == url


def test_the_state_folder_may_be_in_the_home_of_its_owner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings().state_folder == tmp_path / ".molecule"
    assert Settings(state_dir="/srv/m").state_folder == Path("/srv/m")


def test_an_admin_token_of_ones_own_comes_from_the_environment() -> None:
    assert configured_admin_token({}) == ""
    assert configured_admin_token({"ADMIN_TOKEN": "b"}) == "b"
    assert configured_admin_token({"ADMIN_TOKEN": "b", "MOLECULE_ADMIN_TOKEN": "a"}) == "a"
