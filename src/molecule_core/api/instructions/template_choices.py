"""Checks the choice of a workspace's instruction template, by one rule for every route that sets it."""

from collections.abc import Iterable

from molecule_core.access.model import Caller, Role
from molecule_core.access.rules import role_includes
from molecule_core.common.errors import InsufficientRole, NotFound
from molecule_core.instructions.reader import InstructionReader
from molecule_core.instructions.writer import TEMPLATE_NOUN


class TemplateChoices:
    """Checks that a template exists, and that the caller may choose it: it speaks to agents in the server's name."""

    def __init__(self, reader: InstructionReader) -> None:
        self._reader = reader

    def check_all(self, caller: Caller, org_id: str, chosen: Iterable[str | None]) -> None:
        """Check the templates of new workspaces; None: that of the runtime. Raises InsufficientRole, NotFound."""
        for each in chosen:
            self.check(caller, org_id, each, None)

    def check(self, caller: Caller, org_id: str, chosen: str | None, current: str | None) -> None:
        """Check a template. What a workspace has already may be sent again. Raises InsufficientRole, NotFound."""
        if chosen == current:
            return
        if not role_includes(caller.role, Role.OWNER):
            raise InsufficientRole(role=caller.role.value, needed=Role.OWNER.value)
        if chosen is not None and self._reader.find_active_template(org_id, chosen) is None:
            raise NotFound(what=TEMPLATE_NOUN)
