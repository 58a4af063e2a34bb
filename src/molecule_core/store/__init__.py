"""The store: one database, one journal, timers, wake-ups. Above: slices, views, server. Below: wire.events, ground."""
