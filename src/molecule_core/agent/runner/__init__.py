"""The runner of a machine: starts agents there as operators request, within what its own configuration allows.

It connects out to the server. The server never sends a command: it names a kind, a folder and a mode.
"""
