"""Webhooks of tasks: addresses to which the server posts the changes of a task (A2A push notifications)."""
