"""Server as an ASGI application, for standard ASGI servers and for mounting in another application.

    uvicorn --factory molecule_core.server.asgi:create_app

Settings come from the environment (`MOLECULE_*`), as for `molecule serve`. docs/how-to/asgi-server.md has the examples.
"""

import logging

from molecule_core.api.asgi.application import AsgiApplication
from molecule_core.api.routing import Request
from molecule_core.common.logs import configure_logging
from molecule_core.common.settings import Settings, environment, load_settings
from molecule_core.server.composition import Server
from molecule_core.server.startup import open_server
from molecule_core.server.state_folder import prepare_state_folder, server_admin_token


class ServerLifespan:
    """Opens and closes the store and the workers of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def open(self) -> None:
        """Open the server. Raises BadSettings."""
        await open_server(self._server)

    def begin_shutdown(self) -> None:
        """End long-polls and other waits."""
        self._server.wakeups.close()

    async def close(self) -> None:
        """Close the server."""
        await self._server.close()


def create_app(settings: Settings | None = None, *, admin_token: str | None = None) -> AsgiApplication[Request]:
    """Create the ASGI application of a new server.

    `settings`: default from the environment. `admin_token`: default from the environment, else the one in the state
    folder, created if missing. Logs to standard error unless the process has configured logging. Raises BadSettings."""
    settings = settings or load_settings(environment(), {})
    if not logging.getLogger().handlers:
        configure_logging(settings.log_level, settings.log_format)
    prepare_state_folder(settings)
    return asgi_application(Server(settings, admin_token=admin_token or server_admin_token(settings)))


def asgi_application(server: Server) -> AsgiApplication[Request]:
    """Return the ASGI application of a server that is not open yet."""
    return AsgiApplication(server.app, ServerLifespan(server), server.settings.limits)
