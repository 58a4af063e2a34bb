"""Skip or fail tests of hosts that are not installed."""

import os

import pytest

from tests.interop.hosts import RealHost


def require(host: RealHost) -> RealHost:
    """The host, if it is installed; else the test steps aside and says what to type, or fails where it must not."""
    if host.pinned.found() is None:
        if os.environ.get("MOLECULE_INTEROP") == "required":
            pytest.fail(host.pinned.missing)
        pytest.skip(host.pinned.missing)
    return host
