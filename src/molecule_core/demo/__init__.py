"""The demo company: an org file, and a scripted agent for each of its seats. Above: cli. Below: client, ground.

The agents are ordinary clients of the public API, each a process of its own, and react only to what they are sent.
"""
