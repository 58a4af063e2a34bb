"""The address at which the hooks of a host reach the agent's process of the same session.

Both are started by the host, so its process id names the address. Called by client/host_hook.py, which must import
little, and by the agent.
"""

import os
import stat
import zlib

_FOLDER = "~/.molecule-workspace"
# Not TMPDIR, which a host may set for one of the two. The owner of the folder is checked.
_SHARED_FOLDER = "/tmp/molecule-{user}"
# Bytes of an address that every system accepts (macOS: 104).
_MAX_ADDRESS = 100


def host_socket_path(host_pid: int) -> str:
    """Return the address for the session of a host: in the person's home, if that name is short enough."""
    folder = os.path.expanduser(_FOLDER)  # noqa: PTH111 - pathlib costs a third of the start of a hook
    path = f"{folder}/host-{host_pid}.sock"
    if len(os.fsencode(path)) <= _MAX_ADDRESS:
        return path
    home = zlib.crc32(os.fsencode(folder))
    return f"{_SHARED_FOLDER.format(user=os.getuid())}/{home:08x}-{host_pid}.sock"


def is_own_folder(path: str) -> bool:
    """Return whether the folder of an address exists and is this user's: in another one, anyone could answer."""
    try:
        found = os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120 - see above
    except OSError:
        return False
    return found.st_uid == os.getuid() and stat.S_ISDIR(found.st_mode)
