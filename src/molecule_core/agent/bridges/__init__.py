"""How a program that is no host of MCP takes part: a bridge keeps its seat, hands it each message, sees what it says.

    command   the bridge of `molecule bridge command`: one seat, a process for each message
    turns     one such process: started, fed, listened to, ended
    streams   one process for all messages instead, in lines of JSON
    letters   a message as such a process gets it: its standard input and its environment
    outbox    what turns ended with, on the disk until the server knows it

Above: the command line, the demo. Below: the rest of the agent's room.
"""
