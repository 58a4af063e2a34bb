"""The whole server on a loop whose time jumps and whose order is drawn: `prove simulate`."""
