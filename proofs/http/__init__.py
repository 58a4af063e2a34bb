"""A server that is asked in every wrong way one can think of, and answers as its own document promises."""
