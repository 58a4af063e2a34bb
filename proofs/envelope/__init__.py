"""Nothing that somebody writes forges an envelope."""
