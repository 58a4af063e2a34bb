"""The store on PostgreSQL, its backups, and LISTEN/NOTIFY wake-ups."""
