"""Builds the instruction layer."""

from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import InstructionMeter
from molecule_core.instructions.canaries import CanaryWriter
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.model import AgentProfile, TemplateVersionRef
from molecule_core.instructions.reader import InstructionReader, TemplateCacheSync, load_catalogue
from molecule_core.instructions.render import Renderer
from molecule_core.instructions.validation import TemplateValidator
from molecule_core.instructions.writer import InstructionWriter, WorkspaceExists
from molecule_core.store.cache_sync import CacheSync
from molecule_core.store.database import Store


class InstructionServices:
    """The services of the instruction layer. After the store is open, call `load`, then seed with the writer."""

    def __init__(
        self,
        store: Store,
        cache_sync: CacheSync,
        meter: InstructionMeter,
        workspace_exists: WorkspaceExists,
        *,
        clock: Clock,
        limits: Limits,
        public_url: str,
    ) -> None:
        self._store = store
        self.meter = meter
        self._catalogue = catalogue = TemplateCatalogue()
        cache_sync.register(TemplateCacheSync(catalogue), *TemplateCacheSync.KINDS)
        self.validator = TemplateValidator(catalogue, public_url=public_url, limits=limits)
        self.reader = InstructionReader(catalogue)
        self.writer = InstructionWriter(store, catalogue, self.validator, workspace_exists, clock=clock, limits=limits)
        self.canaries = CanaryWriter(store, catalogue, self.validator, clock=clock)
        self.renderer = Renderer(catalogue, public_url=public_url, limits=limits)
        self.renderer.on_failure = self._record_failure

    async def load(self) -> None:
        """Load all templates into memory."""
        await load_catalogue(self._store, self._catalogue)

    def _record_failure(self, profile: AgentProfile, ref: TemplateVersionRef, reason: str) -> None:
        self.meter.count_failure(ref.template_id)
        self.writer.record_failure(profile, ref, reason)
