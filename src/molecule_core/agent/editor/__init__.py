"""The ACP agent that an editor starts: a person's conversations with workspaces, on standard input and output.

It acts for a person, not for a workspace. All that it does are requests of the public API that the page makes too.
"""
