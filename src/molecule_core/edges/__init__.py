"""Translation only: bytes -> Caller + command -> one call -> answer. Above: the network. Below: slices, views, wire."""
