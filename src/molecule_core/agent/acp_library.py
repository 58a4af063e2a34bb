"""The library `agent-client-protocol` (optional extra `acp`), for both sides of the Agent Client Protocol."""

from typing import Any


def load_acp_library() -> Any:
    """Load the library. Raises ImportError."""
    import acp
    import acp.connection

    return acp
