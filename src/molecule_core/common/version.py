"""The version as a constant, because reading it from the installed package would delay the start of an agent.

A test compares it with the package.
"""

VERSION = "0.1.0"
