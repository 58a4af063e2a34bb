"""The parts of the instruction layer, put together. Above: server. Below: the rest of the slice."""

from molecule_core.ground.clock import Clock
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import InstructionMeter
from molecule_core.instructions.catalogue import Catalogue
from molecule_core.instructions.checking import Checks
from molecule_core.instructions.model import Choice, Seat
from molecule_core.instructions.reader import InstructionReader, TemplateMirror, load_catalogue
from molecule_core.instructions.render import Renderer
from molecule_core.instructions.trials import Trials
from molecule_core.instructions.writer import InstructionWriter, Lives
from molecule_core.store.database import Store
from molecule_core.store.mirrors import Mirrors


class InstructionLayer:
    """One for a server. `load` it when the store is open, then let the writer `seed`."""

    def __init__(
        self,
        store: Store,
        mirrors: Mirrors,
        meter: InstructionMeter,
        lives: Lives,
        *,
        clock: Clock,
        limits: Limits,
        public_url: str,
    ) -> None:
        self._store = store
        self._meter = meter
        self._catalogue = catalogue = Catalogue()
        mirrors.keep(TemplateMirror(catalogue), *TemplateMirror.KINDS)
        self.checks = Checks(catalogue, public_url=public_url, limits=limits)
        self.reader = InstructionReader(catalogue)
        self.writer = InstructionWriter(store, catalogue, self.checks, lives, clock=clock, limits=limits)
        self.trials = Trials(store, catalogue, self.checks, clock=clock)
        self.renderer = Renderer(catalogue, public_url=public_url, limits=limits)
        self.renderer.when_failed = self._failed

    async def load(self) -> None:
        """Reads all templates into memory."""
        await load_catalogue(self._store, self._catalogue)

    def _failed(self, seat: Seat, choice: Choice, reason: str) -> None:
        self._meter.failed(choice.template_id)
        self.writer.failed(seat, choice, reason)
