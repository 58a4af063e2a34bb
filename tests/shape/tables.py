"""Who owns which table of src/molecule_core/store/schema.sql: the one slice whose writer changes it, or the store."""

TABLES: dict[str, str] = {
    "meta": "store",
    "events": "store",
    "timers": "store",
    "changes": "store",
    "persons": "access",
    "person_tokens": "access",
    "workspace_tokens": "access",
    "logins": "access",
    "sessions": "access",
    "invitations": "access",
    "orgs": "org",
    "workspaces": "org",
    "heartbeats": "org",
    "activities": "messages",
    "inboxes": "messages",
    "handouts": "messages",
    "handovers": "messages",
    "dead_letters": "messages",
    "pushes": "messages",
    "push_targets": "messages",
    "read_marks": "messages",
    "chains": "messages",
    "files": "messages",
    "file_mentions": "messages",
    "memories": "memory",
    "memory_words": "memory",
    "memory_keys": "memory",
    "memory_versions": "memory",
}

# What processes keep in memory: a statement that changes one of these says so in its third line (store/queries.py).
MIRRORED = frozenset(("orgs", "workspaces", "heartbeats", "persons", "person_tokens", "workspace_tokens", "sessions"))
