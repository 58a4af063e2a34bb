"""Connects programs that are no MCP hosts: a bridge runs their workspace, passes messages in and reports results.

command         the bridge of `molecule bridge command`: one workspace, a process per message
process_runner  one such process: started, fed, read, ended
stream_runner   one process for all messages instead, in lines of JSON
program_input   a message as standard input and environment of such a process
outbox          outcomes of turns, on disk until the server has them
outcome_reporter  reports the outbox to the server

session_bridge  the core of bridges with sessions: a session per conversation, a turn per message
sessions        the protocol between this core and the drivers
session_main    the process of such a bridge
session_turn    one turn: live activity, permissions, questions, calls of our tools
claude, codex, acp  the drivers
"""
