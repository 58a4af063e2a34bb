"""Opens the model that a configuration or a thread names: `provider:model`, or `scripted:file`.

Above: the engine. Below: the library's models and the scripted one.
"""

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
    """A model, and what it is called at its provider."""

    model: Model
    name: str


class ModelFactory:
    """Opens models by their names and keeps them: a thread may have another one than the agent's usual."""

    def __init__(self, folder: Path, environ: Mapping[str, str], config: RunConfig) -> None:
        self._folder = folder
        self._environ = environ
        self._config = config
        self._default_provider, _, _ = config.model.partition(":")
        self._models: dict[str, Model] = {}

    def open(self, full_name: str) -> OpenModel:
        """The model `provider:model`; without a provider it is one of the agent's usual provider. Raises NoModel."""
        provider, colon, name = full_name.partition(":")
        if not colon:
            provider, name = self._default_provider, full_name
        if not provider or not name:
            raise ModelUnavailableError(
                f"the model {sanitize_line(full_name)!r} is not of the form provider:model, such as openai:gpt-5"
            )
        known = f"{provider}:{name}" if provider == SCRIPTED_PROVIDER else provider
        if known not in self._models:
            self._models[known] = self._create_model(provider, name)
        return OpenModel(self._models[known], name)

    def _create_model(self, provider: str, name: str) -> Model:
        if provider == SCRIPTED_PROVIDER:
            return ScriptedModel(read_script(self._folder, name))
        max_output_tokens = self._config.max_output_tokens
        if provider != self._default_provider:  # whose address and key are for nobody else
            return AnyLlmModel(provider, max_output_tokens=max_output_tokens)
        return AnyLlmModel(
            provider, key=self._api_key(), base_url=self._config.base_url, max_output_tokens=max_output_tokens
        )

    def _api_key(self) -> str | None:
        """The key of the usual provider; None: the library finds it where the provider's own programs have it."""
        name = self._config.api_key_env
        if name is None:
            return None
        key = self._environ.get(name, "").strip()
        if not key:
            raise ModelUnavailableError(f"the environment variable {name} that api_key_env names is not set")
        register_secret(key)
        return key

    async def close(self) -> None:
        """Lets go of all connections."""
        for each in self._models.values():
            await each.close()
