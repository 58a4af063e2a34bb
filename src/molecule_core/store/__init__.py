"""The store: one database, one journal, timers, wake-ups.

Called by the packages of the nouns, by views and server; calls wire.schemas.events and common.
"""
