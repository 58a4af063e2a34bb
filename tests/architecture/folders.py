"""The Python trees beside src/ and the imports allowed between them, and the folders of tests/."""

# tree -> the other trees it may import
TREES: dict[str, tuple[str, ...]] = {
    "testing": (),
    "proofs": ("testing",),
    "benchmarks": ("testing",),
    "tests": ("testing", "proofs", "benchmarks"),
}

# Subjects: the nouns and the other packages of src/, and what is tested as a whole.
TEST_FOLDERS = {
    *("a2a_agents", "access", "approvals", "budgets", "delegations", "instructions", "live_turns", "memory"),
    *("messages", "org", "prompts", "runners", "schedules", "search", "threads", "usage", "views", "webhooks"),
    *("agent", "api", "cli", "client", "store", "tools"),
    *("architecture", "canvas", "interop", "network", "system", "unit"),
}
