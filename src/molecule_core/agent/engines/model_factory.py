"""Opens the model that a configuration or a thread names: `provider:model`, or `scripted:file`."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from molecule_core.agent.engines.any_llm_model import AnyLlmModel
from molecule_core.agent.engines.models import SCRIPTED_PROVIDER, Model, ModelUnavailableError
from molecule_core.agent.engines.scripted_model import ScriptedModel, read_script
from molecule_core.agent.engines.settings import RunConfig
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.logs import register_secret


class OpenModel(NamedTuple):
    """A model, and its name at the provider."""

    model: Model
    name: str


class ModelFactory:
    """Factory and cache of models by name: a thread may use another one than the agent's default."""

    def __init__(self, folder: Path, environ: Mapping[str, str], config: RunConfig) -> None:
        self._folder = folder
        self._environ = environ
        self._config = config
        self._default_provider, _, _ = config.model.partition(":")
        self._models: dict[str, Model] = {}

    def open(self, full_name: str) -> OpenModel:
        """Open `provider:model`; without a provider, the default one is used. Raises ModelUnavailableError."""
        provider, colon, name = full_name.partition(":")
        if not colon:
            provider, name = self._default_provider, full_name
        if not provider or not name:
            raise ModelUnavailableError(
                f"the model {sanitize_line(full_name)!r} must have the form provider:model, for example openai:gpt-5"
            )
        cache_key = f"{provider}:{name}" if provider == SCRIPTED_PROVIDER else provider
        if cache_key not in self._models:
            self._models[cache_key] = self._create_model(provider, name)
        return OpenModel(self._models[cache_key], name)

    def _create_model(self, provider: str, name: str) -> Model:
        if provider == SCRIPTED_PROVIDER:
            return ScriptedModel(read_script(self._folder, name))
        max_output_tokens = self._config.max_output_tokens
        if provider != self._default_provider:  # the configured URL and key are only for the default provider
            return AnyLlmModel(provider, max_output_tokens=max_output_tokens)
        return AnyLlmModel(
            provider, key=self._api_key(), base_url=self._config.base_url, max_output_tokens=max_output_tokens
        )

    def _api_key(self) -> str | None:
        """Return the key of the default provider; None: the library uses the provider's own variable."""
        name = self._config.api_key_env
        if name is None:
            return None
        key = self._environ.get(name, "").strip()
        if not key:
            raise ModelUnavailableError(f"the environment variable {name} that api_key_env names is not set")
        register_secret(key)
        return key

    async def close(self) -> None:
        """Close all connections."""
        for each in self._models.values():
            await each.close()
