"""The instruction layer: what an agent is told with each message, so that one which has never heard of us answers.

Above: messages (which tells it), edges, server. Below: the store, the names of tools.
"""
