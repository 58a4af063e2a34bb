"""Driver of Codex for session bridges: `codex app-server` over standard streams.

driver      sessions and turns; the only module that a bridge uses
connection  requests and responses, in lines of JSON
turns       one running turn: what its notifications add up to
approvals   requests for permissions and answers, as the bridge and as Codex write them
limits      vendor limits and errors, by the types that Codex reports
"""
