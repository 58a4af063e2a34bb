"""The address of this machine in its local network."""

import socket

# Reserved for documentation (RFC 5737): connecting a datagram socket sends nothing, it only chooses a route.
_OUTSIDE = ("192.0.2.1", 9)


def find_lan_address() -> str | None:
    """Return the address from which this machine reaches other machines; None without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_OUTSIDE)
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith(("127.", "0.")) else address
