"""The driver of Claude Code: one process per conversation, in lines of JSON on its standard streams.

driver      sessions by conversation: started, resumed, ended when idle
session     one process: requests both ways, turns, steering, permissions
turn_state  one sent message: what was received about it, and how its turn ended
lines       the lines themselves; traps of the protocol are read here
"""
