"""Run `molecule` as another user: `as_user.py NUMBER ARGUMENTS`. Only root can; others run it as themselves."""

import encodings
import importlib
import os
import pkgutil
import sys

import molecule_core
from molecule_core.cli import COMMANDS
from molecule_core.entry import main

_PACKAGES = ("access", "api", "approvals", "cli", "client", "common", "delegations", "instructions", "memory")
_MORE_PACKAGES = ("messages", "org", "prompts", "server", "store", "threads", "tools", "views", "wire")


def _import_all() -> None:
    """Import what any command may import later, when it can no longer read the interpreter's files."""
    names = ["uvloop", "httpx2", "tomllib", "uuid", "importlib.readers"]
    names += [
        each.name
        for each in pkgutil.iter_modules(encodings.__path__, "encodings.")
        if "mbcs" not in each.name and "oem" not in each.name
    ]
    for package in (*_PACKAGES, *_MORE_PACKAGES):
        path = f"{molecule_core.__path__[0]}/{package}"
        found = pkgutil.walk_packages([path], f"molecule_core.{package}.")
        names += [f"molecule_core.{package}", *(each.name for each in found)]
    for name in names:
        importlib.import_module(name)
    for _, load in COMMANDS.values():
        load()


if __name__ == "__main__":
    user = int(sys.argv.pop(1))
    sys.argv[0] = "molecule"
    if user and os.geteuid() == 0:
        _import_all()
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    sys.exit(main())
