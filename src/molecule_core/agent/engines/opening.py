"""Opens the model that a configuration or a thread names: `provider:model`, or `scripted:file`.

Above: the engine. Below: the library's models and the scripted one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from molecule_core.agent.engines.library import LibraryModel
from molecule_core.agent.engines.models import SCRIPTED, Model, NoModel
from molecule_core.agent.engines.scripted import ScriptedModel, read_script
from molecule_core.agent.engines.settings import RunConfig
from molecule_core.agent.neutral import line
from molecule_core.ground.logs import hide


class Opened(NamedTuple):
    """A model, and what it is called at its provider."""

    model: Model
    name: str


class Opener:
    """Opens models by their names and keeps them: a thread may have another one than the agent's usual."""

    def __init__(self, folder: Path, environ: Mapping[str, str], config: RunConfig) -> None:
        self._folder = folder
        self._environ = environ
        self._config = config
        self._own, _, _ = config.model.partition(":")
        self._open: dict[str, Model] = {}

    def open(self, whole: str) -> Opened:
        """The model `provider:model`; without a provider it is one of the agent's usual provider. Raises NoModel."""
        provider, colon, name = whole.partition(":")
        if not colon:
            provider, name = self._own, whole
        if not provider or not name:
            raise NoModel(f"the model {line(whole)!r} is not of the form provider:model, such as openai:gpt-5")
        known = f"{provider}:{name}" if provider == SCRIPTED else provider
        if known not in self._open:
            self._open[known] = self._made(provider, name)
        return Opened(self._open[known], name)

    def _made(self, provider: str, name: str) -> Model:
        if provider == SCRIPTED:
            return ScriptedModel(read_script(self._folder, name))
        most = self._config.max_output_tokens
        if provider != self._own:  # whose address and key are for nobody else
            return LibraryModel(provider, max_output_tokens=most)
        return LibraryModel(provider, key=self._key(), base_url=self._config.base_url, max_output_tokens=most)

    def _key(self) -> str | None:
        """The key of the usual provider; None: the library finds it where the provider's own programs have it."""
        name = self._config.api_key_env
        if name is None:
            return None
        key = self._environ.get(name, "").strip()
        if not key:
            raise NoModel(f"the environment variable {name} that api_key_env names is not set")
        hide(key)
        return key

    async def close(self) -> None:
        """Lets go of all connections."""
        for each in self._open.values():
            await each.close()
