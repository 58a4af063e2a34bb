"""What config.yaml says of an agent of our own, the example among them, and whose key goes where."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.engines.any_llm_model import AnyLlmModel
from molecule_core.agent.engines.model_factory import ModelFactory
from molecule_core.agent.engines.models import ModelUnavailableError
from molecule_core.agent.engines.settings import RunConfig, read_run_config
from molecule_core.agent.prompt.home import read_home
from molecule_core.cli import molecule
from tests.requirements import requirement

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "agent-run"


@requirement("AR8")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: Ops", "model"),
        ("model: openai:x\ntools: [no_such_tool]", "tool 'no_such_tool' not found"),
        ("model: openai:x\nbudget: {turns: 5}", "turns"),
        ("model: openai:x\napproval_rules: [{pattern: x}]", "action"),
        ("model: openai:x\nsamplings: 0", "samplings"),
        ("model: openai:x\nexamples: [a, b, c, d, e, f]", "length <= 5"),
        ("model: openai:x\nexamples: ['']", "length >= 1"),
        ("model: [", "config.yaml"),
    ],
)
def test_a_mistake_in_the_configuration_ends_the_start_with_a_line_that_names_it(
    tmp_path: Path, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_run_config(tmp_path)
    for name, value in (
        ("WORKSPACE_ID", "w1"),
        ("MOLECULE_WORKSPACE_TOKEN", "token-of-a-test"),
        ("PLATFORM_URL", "http://127.0.0.1:9"),
    ):
        monkeypatch.setenv(name, value)
    run = CliRunner().invoke(molecule, ["agent", "run", str(tmp_path)])
    assert run.exit_code != 0 and said in str(run.exception)


@requirement("AR7", "AR8")
def test_the_example_can_be_read_and_its_script_opened() -> None:
    config = read_run_config(EXAMPLE)
    ModelFactory(EXAMPLE, {}, config).open(config.model)
    home = read_home(EXAMPLE)
    assert home.has_tools and not home.warnings and config.approval_rules[0].action == "call:broadcast_message"


@requirement("AR8")
def test_neither_the_library_nor_the_web_framework_is_loaded_before_a_model_is_opened() -> None:
    heavy = "('any_llm', 'openai', 'anthropic', 'pydantic', 'starlette', 'uvicorn')"
    look = f"import sys, molecule_core.cli.agent; print([each for each in {heavy} if each in sys.modules])"
    run = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == "[]"


@requirement("AR1")
def test_the_key_of_the_usual_provider_is_given_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[str, str | None, str | None]] = []

    def opened(self: AnyLlmModel, provider: str, **more: str | None) -> None:
        given.append((provider, more.get("key"), more.get("base_url")))

    monkeypatch.setattr(AnyLlmModel, "__init__", opened)
    config = RunConfig(model="openai:a", base_url="http://127.0.0.1:1", api_key_env="OURS")
    opener = ModelFactory(Path(), {"OURS": "secret-of-ours"}, config)
    assert opener.open("openai:a").name == "a" and opener.open("b").name == "b"
    opener.open("anthropic:c")
    assert given == [("openai", "secret-of-ours", "http://127.0.0.1:1"), ("anthropic", None, None)]
    with pytest.raises(ModelUnavailableError, match="OURS"):
        ModelFactory(Path(), {}, config).open("openai:a")
    with pytest.raises(ModelUnavailableError, match="provider:model"):
        opener.open("openai:")
    for text in ("rules: [{do: []}]", "rules: [{do: [{}]}]", "rules: [{matches: '(', do: [{say: x}]}]"):
        with pytest.raises(ModelUnavailableError, match="script"):
            _scripted(text)


def _scripted(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rules.yaml").write_text(text)
        ModelFactory(Path(folder), {}, RunConfig(model="scripted:rules.yaml")).open("scripted:rules.yaml")
