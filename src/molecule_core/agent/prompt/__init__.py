"""The system prompt of an agent: its files, its peers, and how it is kept current."""
