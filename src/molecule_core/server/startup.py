"""Opens a server and reports an unusable store as a setting that must be changed."""

from molecule_core.common.errors import BadSettings, StoreUnavailable
from molecule_core.common.text import truncate_line
from molecule_core.server.composition import Server

_MAX_REASON_LENGTH = 300


async def open_server(server: Server) -> None:
    """Open the store, load the registry, start the workers. Raises BadSettings."""
    try:
        await server.open()
    except StoreUnavailable as error:
        # The text of StoreUnavailable is for senders, who should retry.
        detail = truncate_line(str(error.__cause__ or error), _MAX_REASON_LENGTH)
        raise BadSettings(reason=f"the store does not open ({detail}); `molecule doctor` tells more") from None
