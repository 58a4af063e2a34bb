"""Safe network access: URL parsing, address policy, and the fetcher that checks every address."""
