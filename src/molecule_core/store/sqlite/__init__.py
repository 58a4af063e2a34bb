"""The store on SQLite, and its backups."""
