"""The one HTTP client of the public API. Above: agent, demo, command line, tests. Below: wire, ground, the network."""
