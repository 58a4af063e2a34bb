"""HTTP server and application: connections, routing, authentication, rate limits, errors, OpenAPI."""
