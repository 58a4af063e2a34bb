"""Driver of agents that speak the Agent Client Protocol (ACP) for session bridges, over standard streams.

driver       sessions and turns; the only module that a bridge uses
connection   requests and updates; the one module that loads the library of the extra `acp`
programs     what differs between programs that speak it
turns        one running turn: what its updates add up to
permissions  requests for permissions, as the bridge and as the protocol write them
outcomes     reasons of stops, and errors: which are a vendor's limit
tool_server  the platform's tools as an MCP server of a session, in the bridge's own process
tool_relay   the program that such a server is to the agent: it passes lines on
"""
