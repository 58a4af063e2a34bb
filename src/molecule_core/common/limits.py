"""Every limit, in one place; docs/limits.md is generated from here (`scripts/docs`).

Each is a setting: environment `MOLECULE_LIMIT_<NAME>`, or `[limits]` in the settings file.
"""

from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1)]
MAX_REPLY_SECONDS = 30 * 86_400
"""The longest time that a workspace may give its agent for an answer."""
SPARE_FILES = 256
"""Beside its connections, a server opens so many files at most: the store's, the logs, the libraries'."""


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of what one caller may make the server hold, read or wait for. Sizes in bytes, times in seconds."""

    body_bytes: Annotated[Count, Meta(description="one request body")] = 1 << 20
    header_bytes: Annotated[Count, Meta(description="all headers of one request")] = 64 << 10
    header_seconds: Annotated[Count, Meta(description="until a request's headers are complete")] = 10
    body_seconds: Annotated[Count, Meta(description="until a request's body is complete")] = 30
    refused_bytes: Annotated[Count, Meta(description="read on behind a refusal, then cut")] = 8 << 20
    json_depth: Annotated[Count, Meta(description="levels of nesting in a JSON body")] = 32
    text_bytes: Annotated[Count, Meta(description="text of one message, UTF-8")] = 256 << 10
    parts: Annotated[Count, Meta(description="parts of one message")] = 64
    attachments: Annotated[Count, Meta(description="file parts of one message")] = 10
    attachment_bytes: Annotated[Count, Meta(description="one file")] = 25 << 20
    upload_bytes: Annotated[Count, Meta(description="one request that brings files, with its wrapping")] = 10 * (
        25 << 20
    ) + (1 << 20)
    upload_hours: Annotated[Count, Meta(description="hours that a file is kept which no message mentions")] = 24
    disk_reserve_bytes: Annotated[Count, Meta(description="room on the disk that files leave to everything else")] = (
        256 << 20
    )
    file_name_bytes: Annotated[Count, Meta(description="the name of a file, UTF-8; cut, its ending is kept")] = 255
    id_length: Annotated[Count, Meta(description="an id that a client chooses, of A-Z a-z 0-9 . _ : -")] = 128
    name_length: Annotated[Count, Meta(description="a name of a workspace, person or organisation, characters")] = 120
    short_text_length: Annotated[Count, Meta(description="role, runtime and other one-line fields, characters")] = 500
    error_detail_length: Annotated[Count, Meta(description="what a report says of an error, characters; cut")] = 4096
    card_bytes: Annotated[Count, Meta(description="an agent card as JSON")] = 64 << 10
    inbox_unhandled: Annotated[Count, Meta(description="messages waiting in one inbox, then 429")] = 10_000
    removal_named: Annotated[
        Count, Meta(description="messages that one note about a removal names, and workspaces, the newest")
    ] = 10
    chain_hops: Annotated[
        Count, Meta(description="messages that one message may cause behind each other, then frozen")
    ] = 24
    chain_messages: Annotated[Count, Meta(description="messages that one message may cause in all, then frozen")] = 1000
    cause_seconds: Annotated[
        Count, Meta(description="a handled message counts as the cause of what its agent sends")
    ] = 600
    pingpong: Annotated[Count, Meta(description="messages without content back and forth, then frozen")] = 6
    broadcast_most: Annotated[Count, Meta(description="workspaces that one broadcast may go to")] = 500
    requests_per_minute: Annotated[Count, Meta(description="requests of one caller, then 429")] = 3000
    sends_per_minute: Annotated[Count, Meta(description="messages that one workspace sends, then 429")] = 600
    org_sends_per_minute: Annotated[
        Count, Meta(description="messages that all workspaces of one organisation send")
    ] = 6000
    anonymous_per_minute: Annotated[Count, Meta(description="requests of one address without a known credential")] = 300
    logins_per_minute: Annotated[Count, Meta(description="tries to log in from one address, then 429")] = 10
    tree_depth: Annotated[Count, Meta(description="levels of workspaces below each other")] = 32
    expand_most: Annotated[Count, Meta(description="workspaces that one expand makes")] = 100
    page_rows: Annotated[Count, Meta(description="rows in one page of activity")] = 500
    page_bytes: Annotated[
        Count, Meta(description="bodies, drafts and lines of logs in one page; it ends early and has at least one row")
    ] = 4 << 20
    history_rows: Annotated[Count, Meta(description="messages in one page of chat history")] = 1000
    wait_seconds: Annotated[Count, Meta(description="a long-poll is held at most so long")] = 25
    lease_seconds: Annotated[Count, Meta(description="a claim's lease at most")] = 3600
    since_seconds: Annotated[Count, Meta(description="how far back since_secs may look")] = 30 * 86_400
    waiting_commands: Annotated[Count, Meta(description="writes waiting for the store, then 503")] = 10_000
    group_commands: Annotated[Count, Meta(description="writes that share one commit")] = 512
    silence_seconds: Annotated[Count, Meta(description="without a heartbeat, then offline")] = 90
    sweep_seconds: Annotated[Count, Meta(description="between two looks for silent workspaces")] = 15
    person_token_days: Annotated[Count, Meta(description="life of a person's token")] = 90
    live_tokens: Annotated[Count, Meta(description="live tokens of one workspace or person")] = 50
    grace_seconds: Annotated[Count, Meta(description="how long a rotated token may still be good")] = 3600
    invitation_hours: Annotated[Count, Meta(description="an invitation into an organisation is good for")] = 72
    login_seconds: Annotated[Count, Meta(description="a one-time login link is good for")] = 900
    session_days: Annotated[Count, Meta(description="life of a login in a browser")] = 30
    idle_seconds: Annotated[Count, Meta(description="a connection without a request is kept")] = 75
    unread_seconds: Annotated[Count, Meta(description="between looks at an unread answer; the third cuts it")] = 30
    subscriber_bytes: Annotated[Count, Meta(description="events one live reader may leave unread, then it is cut")] = (
        1 << 20
    )
    resume_events: Annotated[Count, Meta(description="events a live reader may catch up on; beyond it a snapshot")] = (
        5000
    )
    live_seconds: Annotated[Count, Meta(description="between two signs of life on a quiet live channel")] = 15
    frame_bytes: Annotated[Count, Meta(description="what a live reader may send at once")] = 4096
    reply_seconds: Annotated[
        Count,
        Meta(description="an answer is due so long after hand-over; overdue as long again"),
    ] = 120
    reply_work_seconds: Annotated[
        Count, Meta(description="an agent that says it is at work is not reminded so long after hand-over")
    ] = 3600
    template_bytes: Annotated[
        Count, Meta(description="all texts of an instruction template, UTF-8; with those it extends twice as many")
    ] = 12 << 10
    template_nodes: Annotated[
        Count, Meta(description="parts that these texts are made of, as they are parsed; with extended ones twice")
    ] = 600
    template_steps: Annotated[
        Count, Meta(description="parts that the loops of a template may go through for one message")
    ] = 10_000
    instruction_bytes: Annotated[Count, Meta(description="instructions with one message, UTF-8; else it has none")] = (
        16 << 10
    )
    templates: Annotated[Count, Meta(description="instruction templates of one organisation, then 409")] = 200
    template_versions: Annotated[Count, Meta(description="versions of one instruction template, then 409")] = 1000
    canary_outcomes: Annotated[
        Count, Meta(description="outcomes that a canary version must have before it may be rolled back")
    ] = 3
    delegation_depth: Annotated[Count, Meta(description="levels of delegations below each other, then 429")] = 8
    delegation_children: Annotated[Count, Meta(description="open delegations below one, then 429")] = 32
    delegations_per_root: Annotated[Count, Meta(description="delegations of one tree, then 429")] = 256
    delegation_attempts: Annotated[
        Count, Meta(description="sends of a delegation to a push agent; that it is busy does not count")
    ] = 2
    delegation_retry_seconds: Annotated[Count, Meta(description="pause before the second of them")] = 8
    delegation_seconds: Annotated[Count, Meta(description="a delegation ends as failed, if nobody says when")] = 21_600
    delegation_most_seconds: Annotated[Count, Meta(description="the same if somebody does, at most")] = 30 * 86_400
    delegation_stuck_seconds: Annotated[
        Count, Meta(description="without a sign of life of a delegation's work, then it is shown as stuck")
    ] = 600
    delegation_unknown_seconds: Annotated[
        Count, Meta(description="a delegation was sent and no answer came, then it has failed")
    ] = 900
    delegation_key_hours: Annotated[Count, Meta(description="hours that an idempotency key is kept")] = 24
    delegation_rows: Annotated[Count, Meta(description="delegations in one page of a list")] = 500
    delegation_lines: Annotated[Count, Meta(description="lines of one time line that are shown, the newest")] = 200
    delegations_in_snapshot: Annotated[Count, Meta(description="open delegations in a snapshot, the newest")] = 5000
    refusals_in_snapshot: Annotated[
        Count, Meta(description="delegations that a limit stopped within a day, in a snapshot, the newest")
    ] = 50
    delegation_history_days: Annotated[Count, Meta(description="days that a row of delegation_history is kept")] = 90
    approval_seconds: Annotated[Count, Meta(description="an approval expires, if nobody says when")] = 3600
    approval_most_seconds: Annotated[Count, Meta(description="the same if somebody does, at most")] = 7 * 86_400
    approval_level_seconds: Annotated[
        Count, Meta(description="a workspace has so long to decide, then the next one is asked")
    ] = 120
    approval_use_seconds: Annotated[Count, Meta(description="an approved action may be done so long after")] = 86_400
    approval_bytes: Annotated[Count, Meta(description="the details of one approval, canonical JSON")] = 8 << 10
    approval_text_length: Annotated[
        Count, Meta(description="a reason, a note or an answer of an approval, characters; cut")
    ] = 2000
    approval_questions: Annotated[Count, Meta(description="questions about one approval, then 409")] = 10
    approvals_open: Annotated[Count, Meta(description="open approvals of one workspace, then 409")] = 50
    approval_rows: Annotated[Count, Meta(description="approvals in one page of a list")] = 100
    approvals_in_snapshot: Annotated[
        Count, Meta(description="open approvals in a snapshot, the oldest; and ended ones, the newest")
    ] = 500
    approval_shown_seconds: Annotated[Count, Meta(description="an ended approval stays in snapshots")] = 3600
    approval_rules: Annotated[Count, Meta(description="approval rules of one workspace, and grants, then 422")] = 100
    thread_depth: Annotated[Count, Meta(description="levels of agents below a thread, then 429")] = 4
    thread_live: Annotated[Count, Meta(description="agents of one tree that are at work, then 429")] = 16
    thread_lifetime: Annotated[Count, Meta(description="agents of one tree in all, then 429")] = 256
    thread_spawns_per_minute: Annotated[Count, Meta(description="agents that one workspace spawns, then 429")] = 120
    turn_tokens: Annotated[Count, Meta(description="tokens of one turn, then it is stopped")] = 5_000_000
    thread_tokens: Annotated[Count, Meta(description="tokens of one thread, then 429")] = 50_000_000
    thread_tree_tokens: Annotated[Count, Meta(description="tokens of one tree of threads, then 429")] = 200_000_000
    thread_input_bytes: Annotated[Count, Meta(description="input of one turn, and one letter between agents")] = (
        256 << 10
    )
    thread_entry_bytes: Annotated[Count, Meta(description="one line of a thread's log, as JSON")] = 1 << 20
    thread_event_bytes: Annotated[Count, Meta(description="one such line in an event; a larger one is read apart")] = (
        16 << 10
    )
    thread_entries: Annotated[Count, Meta(description="lines that an engine adds to a log at once")] = 100
    thread_queue: Annotated[Count, Meta(description="turns of one thread that wait, then 429")] = 100
    thread_lease_seconds: Annotated[
        Count, Meta(description="an engine that is not heard of so long loses its thread to another")
    ] = 60
    thread_engine_seconds: Annotated[
        Count, Meta(description="an engine that has not asked for work so long is not counted on to run threads")
    ] = 90
    thread_wait_seconds: Annotated[Count, Meta(description="an agent waits for others, if it does not say")] = 30
    thread_wait_most_seconds: Annotated[Count, Meta(description="the same if it does, at most")] = 3600
    thread_targets: Annotated[Count, Meta(description="agents that one wait may name")] = 64
    thread_rows: Annotated[Count, Meta(description="threads in one page of a list, and lines of a log")] = 200
    appserver_requests: Annotated[
        Count, Meta(description="requests of one app-server client that wait, then refused")
    ] = 64
    appserver_trees: Annotated[Count, Meta(description="trees of threads that one app-server client follows")] = 1000
    options: Annotated[Count, Meta(description="options that one question may offer")] = 10
    option_length: Annotated[Count, Meta(description="one such option, characters")] = 120
    shared_files: Annotated[Count, Meta(description="files that one workspace shares with its children")] = 32
    shared_file_bytes: Annotated[Count, Meta(description="one of them, UTF-8")] = 64 << 10
    shared_context_bytes: Annotated[Count, Meta(description="all of them together, UTF-8")] = 256 << 10
    shared_path_length: Annotated[Count, Meta(description="the name of a shared file, characters")] = 200
    prompt_sections: Annotated[Count, Meta(description="sections of one system prompt that is told")] = 20_000
    prompt_bytes: Annotated[Count, Meta(description="one system prompt that is told, as it is kept")] = 1 << 20
    prompt_builds: Annotated[Count, Meta(description="system prompts of one workspace that are kept")] = 10
    prompt_diff_lines: Annotated[Count, Meta(description="lines of a difference between two of them")] = 2000
    memory_bytes: Annotated[Count, Meta(description="one memory, UTF-8")] = 16 << 10
    memories: Annotated[Count, Meta(description="memories of one workspace, then 409")] = 10_000
    memory_recall: Annotated[Count, Meta(description="memories that one recall gives")] = 50
    memory_query_words: Annotated[
        Count, Meta(description="words of a search that count; those behind them are passed over")
    ] = 32
    memory_namespace_length: Annotated[Count, Meta(description="a namespace of memories, characters")] = 50
    memory_keys: Annotated[Count, Meta(description="keys of one workspace, then 409")] = 1000
    memory_key_length: Annotated[Count, Meta(description="a key of a workspace's memory, characters")] = 200
    memory_value_bytes: Annotated[Count, Meta(description="a value under a key, as JSON")] = 64 << 10
    memory_ttl_seconds: Annotated[Count, Meta(description="life that may be given to a key, at most")] = 366 * 86_400
    untaken_seconds: Annotated[
        Count, Meta(description="a message that wants an answer waits and nobody takes it, then it is shown")
    ] = 600
    untaken_rows: Annotated[
        Count, Meta(description="workspaces in the list of those whose mail nobody takes, the longest waiting")
    ] = 100
    retention_days: Annotated[int, Meta(ge=0, description="what is old and handled is kept, days; 0: for ever")] = 7
    retention_batch: Annotated[Count, Meta(description="rows that retention deletes at once")] = 500
    prune_seconds: Annotated[Count, Meta(description="between two rounds of retention")] = 3600
    unread_count: Annotated[Count, Meta(description="unread messages of one chat are counted up to")] = 100
    look_again_seconds: Annotated[
        Count, Meta(description="with several processes: who waits looks again, should a wake-up get lost")
    ] = 5
    push_seconds: Annotated[Count, Meta(description="until an agent has answered a push")] = 300
    push_concurrency: Annotated[Count, Meta(description="pushes under way at once")] = 64
    push_answer_bytes: Annotated[Count, Meta(description="an agent's answer to a push")] = 10 << 20
    delivery_attempts: Annotated[Count, Meta(description="failed pushes of one message, then it is a dead letter")] = 12
    refused_attempts: Annotated[Count, Meta(description="the same if the agent refuses it (4xx)")] = 3
    circuit_failures: Annotated[Count, Meta(description="failed pushes to one agent in a row, then a pause")] = 5
    circuit_seconds: Annotated[Count, Meta(description="length of that pause; one push then probes the agent")] = 60
    patience_seconds: Annotated[Count, Meta(description="a sender waits for a push agent's answer")] = 20
    patience_most_seconds: Annotated[Count, Meta(description="the same with X-Timeout, at most")] = 300
    expires_seconds: Annotated[Count, Meta(description="life that a sender may give a message, at most")] = 30 * 86_400
    connections: Annotated[Count, Meta(description="open connections, then 503")] = 20_000
    url_length: Annotated[Count, Meta(description="a url that the server may be asked to call, characters")] = 2048
    resolve_seconds: Annotated[Count, Meta(description="a name is looked up while its url is registered")] = 5
    answer_header_bytes: Annotated[Count, Meta(description="status and headers of an answer to the server")] = 32 << 10
    mcp_sessions: Annotated[Count, Meta(description="MCP sessions of one workspace that a process keeps")] = 32
    mcp_idle_seconds: Annotated[
        Count, Meta(description="an unused MCP session is kept so long; it can be taken up later too")
    ] = 1800
    mcp_calls: Annotated[
        Count, Meta(description="tools that one MCP session, or one workspace without sessions, runs at once")
    ] = 32
    mcp_batch: Annotated[Count, Meta(description="messages in one MCP request")] = 50
    mcp_lease_seconds: Annotated[
        Count, Meta(description="a message that an MCP tool has given to its agent is held for it, then it comes again")
    ] = 600
