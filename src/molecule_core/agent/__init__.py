"""Code that runs beside an agent: one process, any number of workspaces.

Called by the command line and the demo; calls client, tools, wire and common. No module here may load the HTTP client
before the host's `initialize` is answered: hosts give up on slow starters.
"""
