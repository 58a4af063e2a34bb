"""Threads: one log each, what is made of it, and who may add to it. The file `hands` makes all of it for the server.

Above: server, the edges. Below: org, store, wire, ground.
"""
