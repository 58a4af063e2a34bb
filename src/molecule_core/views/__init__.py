"""Reads that cross nouns. Above: the edges. Below: the slices' readers, store, wire, ground."""
