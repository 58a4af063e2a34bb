"""All limits in one place; docs/reference/limits.md is generated from here (`scripts/docs`).

Each is a setting: environment `MOLECULE_LIMIT_<NAME>`, or `[limits]` in the settings file.
"""

from typing import Annotated

from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=1)]
MAX_REPLY_SECONDS = 30 * 86_400
"""Maximum time that a workspace may give its agent for an answer."""
SPARE_FILES = 256
"""Files that a server opens at most besides its connections: store, logs, libraries."""


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of what one caller can make the server store, read or wait for. Sizes in bytes, times in seconds."""

    body_bytes: Annotated[Count, Meta(description="one request body")] = 1 << 20
    header_bytes: Annotated[Count, Meta(description="all headers of one request")] = 64 << 10
    header_seconds: Annotated[Count, Meta(description="until a request's headers are complete")] = 10
    body_seconds: Annotated[Count, Meta(description="until a request's body is complete")] = 30
    refused_bytes: Annotated[
        Count, Meta(description="read after a request was rejected, then the connection is cut")
    ] = 8 << 20
    json_depth: Annotated[Count, Meta(description="levels of nesting in a JSON body")] = 32
    text_bytes: Annotated[Count, Meta(description="text of one message, UTF-8")] = 256 << 10
    parts: Annotated[Count, Meta(description="parts of one message")] = 64
    attachments: Annotated[Count, Meta(description="file parts of one message")] = 10
    attachment_bytes: Annotated[Count, Meta(description="one file")] = 25 << 20
    upload_bytes: Annotated[Count, Meta(description="one upload request, with its multipart encoding")] = 10 * (
        25 << 20
    ) + (1 << 20)
    upload_hours: Annotated[Count, Meta(description="hours that a file without a message is kept")] = 24
    disk_reserve_bytes: Annotated[Count, Meta(description="disk space that files leave free")] = 256 << 20
    file_name_bytes: Annotated[Count, Meta(description="the name of a file, UTF-8; cut, its extension is kept")] = 255
    id_length: Annotated[Count, Meta(description="an id chosen by a client, of A-Z a-z 0-9 . _ : -")] = 128
    name_length: Annotated[Count, Meta(description="a name of a workspace, person or organisation, characters")] = 120
    short_text_length: Annotated[Count, Meta(description="role, runtime and other one-line fields, characters")] = 500
    error_detail_length: Annotated[Count, Meta(description="error text of a report, characters; cut")] = 4096
    card_bytes: Annotated[Count, Meta(description="an agent card as JSON")] = 64 << 10
    inbox_unhandled: Annotated[Count, Meta(description="unhandled messages in one inbox, then 429")] = 10_000
    workspace_body_bytes: Annotated[
        Count, Meta(description="stored messages and log rows of one workspace, each with 512 bytes besides, then 507")
    ] = 4 << 30
    org_body_bytes: Annotated[Count, Meta(description="the same of one organisation, then 507")] = 32 << 30
    workspace_file_bytes: Annotated[Count, Meta(description="stored files of one workspace, then 507")] = 10 << 30
    org_file_bytes: Annotated[Count, Meta(description="stored files of one organisation, then 507")] = 50 << 30
    removal_named: Annotated[
        Count, Meta(description="messages and workspaces that one removal notice names, the newest")
    ] = 10
    chain_hops: Annotated[Count, Meta(description="messages in a row that one message may cause, then frozen")] = 24
    chain_messages: Annotated[Count, Meta(description="messages in all that one message may cause, then frozen")] = 1000
    cause_seconds: Annotated[
        Count, Meta(description="a handled message counts as the cause of what its agent sends for this long")
    ] = 600
    pingpong: Annotated[
        Count, Meta(description="consecutive messages without content between two agents, then frozen")
    ] = 6
    broadcast_most: Annotated[Count, Meta(description="recipients of one broadcast")] = 500
    requests_per_minute: Annotated[Count, Meta(description="requests of one caller, then 429")] = 3000
    sends_per_minute: Annotated[Count, Meta(description="messages that one workspace sends, then 429")] = 600
    org_sends_per_minute: Annotated[
        Count, Meta(description="messages that all workspaces of one organisation send")
    ] = 6000
    anonymous_per_minute: Annotated[Count, Meta(description="requests from one address without a known credential")] = (
        300
    )
    logins_per_minute: Annotated[Count, Meta(description="login attempts from one address, then 429")] = 10
    tree_depth: Annotated[Count, Meta(description="levels of workspaces in an org tree")] = 32
    expand_most: Annotated[Count, Meta(description="workspaces created by one expand")] = 100
    page_rows: Annotated[Count, Meta(description="rows in one page of activity")] = 500
    page_bytes: Annotated[
        Count, Meta(description="bodies, drafts and log entries in one page; it ends early and has at least one row")
    ] = 4 << 20
    history_rows: Annotated[Count, Meta(description="messages in one page of chat history")] = 1000
    wait_seconds: Annotated[Count, Meta(description="longest wait of a long-poll")] = 25
    lease_seconds: Annotated[Count, Meta(description="longest lease of a claim")] = 3600
    since_seconds: Annotated[Count, Meta(description="maximum of since_secs")] = 30 * 86_400
    waiting_commands: Annotated[Count, Meta(description="writes queued for the store, then 503")] = 10_000
    group_commands: Annotated[Count, Meta(description="writes that share one commit")] = 512
    silence_seconds: Annotated[Count, Meta(description="without a heartbeat, then the workspace is offline")] = 90
    ready_seconds: Annotated[Count, Meta(description="a readiness check waits for the store")] = 2
    sweep_seconds: Annotated[Count, Meta(description="between two checks for workspaces without a heartbeat")] = 15
    person_token_days: Annotated[Count, Meta(description="lifetime of a person's token")] = 90
    live_tokens: Annotated[Count, Meta(description="active tokens of one workspace or person")] = 50
    grace_seconds: Annotated[Count, Meta(description="maximum time that a rotated token stays valid")] = 3600
    push_secret_grace_seconds: Annotated[
        Count, Meta(description="time that a rotated secret of pushes also signs, at most and by default")
    ] = 86_400
    oauth_code_seconds: Annotated[Count, Meta(description="the code of an OAuth client is valid for")] = 60
    oauth_access_seconds: Annotated[Count, Meta(description="an access token of an OAuth client is valid for")] = 3600
    oauth_grant_days: Annotated[
        Count, Meta(description="longest time that a person may connect an OAuth client for")
    ] = 90
    oauth_grants: Annotated[Count, Meta(description="OAuth clients that are connected to one workspace, then 429")] = 50
    oauth_clients: Annotated[Count, Meta(description="OAuth clients that one organisation registers, then 429")] = 100
    oauth_dynamic_clients: Annotated[
        Count, Meta(description="OAuth clients that registered themselves; unused ones are deleted after a day")
    ] = 1000
    oauth_redirect_uris: Annotated[Count, Meta(description="redirect addresses of one OAuth client")] = 10
    oauth_document_bytes: Annotated[Count, Meta(description="a metadata document of an OAuth client")] = 16 << 10
    oauth_workspaces: Annotated[Count, Meta(description="workspaces that the page for consent lists")] = 500
    invitation_hours: Annotated[Count, Meta(description="an invitation to an organisation is valid for")] = 72
    login_seconds: Annotated[Count, Meta(description="a one-time login link is valid for")] = 900
    session_days: Annotated[Count, Meta(description="lifetime of a browser session")] = 30
    browser_logins: Annotated[Count, Meta(description="organisations in which one browser is logged in")] = 20
    idle_seconds: Annotated[Count, Meta(description="a connection without a request is kept open")] = 75
    unread_seconds: Annotated[
        Count, Meta(description="between checks of a response that the client does not read; the third check cuts it")
    ] = 30
    subscriber_bytes: Annotated[
        Count, Meta(description="unsent events of one live subscriber, then it is disconnected")
    ] = 1 << 20
    live_channels: Annotated[
        Count, Meta(description="open event streams and WebSockets of one credential in one process, then 429")
    ] = 64
    credential_unread_bytes: Annotated[
        Count, Meta(description="unsent events of all live channels of one credential, then they wait for each other")
    ] = 8 << 20
    resume_events: Annotated[
        Count, Meta(description="events that a live subscriber may catch up on; beyond it a snapshot")
    ] = 5000
    live_seconds: Annotated[Count, Meta(description="between two keep-alives on a quiet live connection")] = 15
    live_turns: Annotated[Count, Meta(description="running turns of one workspace on live channels, then 429")] = 16
    live_text_bytes: Annotated[
        Count, Meta(description="text that is kept of one live turn, UTF-8; the beginning of a longer one is dropped")
    ] = 64 << 10
    live_tools: Annotated[Count, Meta(description="tool calls that are kept of one live turn, the newest")] = 50
    live_updates: Annotated[Count, Meta(description="events about one live turn per second and live channel")] = 10
    live_silence_seconds: Annotated[
        Count, Meta(description="without a report or a poll of its agent, then a live turn is forgotten")
    ] = 120
    live_ended_seconds: Annotated[Count, Meta(description="an ended live turn is kept for")] = 10
    runners: Annotated[Count, Meta(description="runners of one organisation, then 429")] = 50
    runner_requests: Annotated[Count, Meta(description="open requests to one runner, then 429")] = 50
    runner_request_seconds: Annotated[
        Count, Meta(description="a request to a runner that does not claim it is kept for this long, then it expires")
    ] = 300
    runner_lease_seconds: Annotated[
        Count, Meta(description="a runner has this long to confirm a request, then it gets the request again")
    ] = 60
    runner_silence_seconds: Annotated[
        Count, Meta(description="without a poll of a runner, then it is shown as gone and its agents as unknown")
    ] = 60
    runner_report_bytes: Annotated[Count, Meta(description="one report of a runner")] = 64 << 10
    runner_log_bytes: Annotated[
        Count, Meta(description="output of an agent that a runner returns; the beginning of a longer one is dropped")
    ] = 64 << 10
    frame_bytes: Annotated[Count, Meta(description="one frame from a live subscriber")] = 4096
    reply_seconds: Annotated[
        Count, Meta(description="an answer is due this long after delivery, and overdue after twice that")
    ] = 120
    reply_work_seconds: Annotated[
        Count, Meta(description="an agent that reports progress is not reminded for this long after delivery")
    ] = 3600
    template_bytes: Annotated[
        Count,
        Meta(
            description="all texts of an instruction template, UTF-8; twice as many with the templates that it extends"
        ),
    ] = 12 << 10
    template_nodes: Annotated[
        Count, Meta(description="nodes of these texts when parsed; twice as many with the templates that it extends")
    ] = 600
    template_steps: Annotated[
        Count, Meta(description="nodes that a template may render for one message, with its loops")
    ] = 10_000
    instruction_bytes: Annotated[
        Count, Meta(description="instructions of one message, UTF-8; above it the message has none")
    ] = 16 << 10
    templates: Annotated[Count, Meta(description="instruction templates of one organisation, then 409")] = 200
    template_versions: Annotated[Count, Meta(description="versions of one instruction template, then 409")] = 1000
    canary_outcomes: Annotated[
        Count, Meta(description="outcomes that a canary version needs before it may be rolled back")
    ] = 3
    delegation_depth: Annotated[Count, Meta(description="levels of nested delegations, then 429")] = 8
    delegation_children: Annotated[Count, Meta(description="open sub-delegations of one delegation, then 429")] = 32
    delegations_per_root: Annotated[Count, Meta(description="delegations of one tree, then 429")] = 256
    delegations_open: Annotated[Count, Meta(description="open delegations that one workspace began, then 429")] = 1000
    org_delegations_open: Annotated[Count, Meta(description="open delegations of one organisation, then 429")] = 50_000
    delegation_attempts: Annotated[
        Count, Meta(description="pushes of a delegation to a push agent; a busy response does not count")
    ] = 2
    delegation_retry_seconds: Annotated[Count, Meta(description="pause before the second push")] = 8
    delegation_seconds: Annotated[Count, Meta(description="default time until a delegation fails")] = 21_600
    delegation_most_seconds: Annotated[Count, Meta(description="maximum time until a delegation fails")] = 30 * 86_400
    delegation_stuck_seconds: Annotated[
        Count, Meta(description="without activity in a delegation's task, then it is shown as stuck")
    ] = 600
    delegation_unknown_seconds: Annotated[
        Count, Meta(description="a pushed delegation without a response fails after this long")
    ] = 900
    delegation_key_hours: Annotated[Count, Meta(description="hours that an idempotency key is kept")] = 24
    delegation_rows: Annotated[Count, Meta(description="delegations in one page of a list")] = 500
    delegation_lines: Annotated[Count, Meta(description="entries of one timeline that are shown, the newest")] = 200
    snapshot_bytes: Annotated[
        Count,
        Meta(
            description="workspaces, open delegations or approvals in a snapshot, each as JSON; more workspaces are "
            "read in pages of this size"
        ),
    ] = 8 << 20
    delegations_in_snapshot: Annotated[Count, Meta(description="open delegations in a snapshot, the newest")] = 5000
    refusals_in_snapshot: Annotated[
        Count, Meta(description="delegations rejected by a limit within a day, in a snapshot, the newest")
    ] = 50
    acceptance_checks: Annotated[Count, Meta(description="checks of one delegation")] = 16
    acceptance_bytes: Annotated[Count, Meta(description="all checks of one delegation, as JSON")] = 32 << 10
    acceptance_rounds: Annotated[
        Count, Meta(description="times that an answer that failed a check is returned, at most")
    ] = 5
    acceptance_default_rounds: Annotated[Count, Meta(description="the same, if the delegator does not set it")] = 2
    acceptance_file_bytes: Annotated[Count, Meta(description="a file whose content a check reads")] = 1 << 20
    acceptance_seconds: Annotated[
        Count, Meta(description="CPU time of one check, and twelve times as much on the clock; then it has failed")
    ] = 5
    acceptance_lease_seconds: Annotated[
        Count, Meta(description="a process that checks an answer and dies loses it to another one after this long")
    ] = 120
    delegation_history_days: Annotated[Count, Meta(description="days that a row of delegation_history is kept")] = 90
    approval_seconds: Annotated[Count, Meta(description="default time until an approval expires")] = 3600
    approval_most_seconds: Annotated[Count, Meta(description="maximum time until an approval expires")] = 7 * 86_400
    approval_level_seconds: Annotated[
        Count, Meta(description="time that one approver has, then the next one is asked")
    ] = 120
    approval_use_seconds: Annotated[Count, Meta(description="an approved action may be done for this long")] = 86_400
    approval_bytes: Annotated[
        Count, Meta(description="the details of one approval, such as the input of a tool call; canonical JSON")
    ] = 64 << 10
    approval_text_length: Annotated[
        Count, Meta(description="a reason, note or answer of an approval, characters; cut")
    ] = 2000
    approval_questions: Annotated[Count, Meta(description="questions about one approval, then 409")] = 10
    approvals_open: Annotated[Count, Meta(description="open approvals of one workspace, then 409")] = 50
    approval_rows: Annotated[Count, Meta(description="approvals in one page of a list")] = 100
    approvals_in_snapshot: Annotated[
        Count, Meta(description="open approvals in a snapshot, the oldest; and ended ones, the newest")
    ] = 500
    approval_shown_seconds: Annotated[Count, Meta(description="an ended approval stays in snapshots for")] = 3600
    approval_rules: Annotated[Count, Meta(description="approval rules of one workspace, and grants, then 422")] = 100
    thread_depth: Annotated[Count, Meta(description="levels of agents below a thread, then 429")] = 4
    thread_live: Annotated[Count, Meta(description="running agents of one tree, then 429")] = 16
    thread_lifetime: Annotated[Count, Meta(description="agents of one tree in all, then 429")] = 256
    thread_spawns_per_minute: Annotated[Count, Meta(description="agents that one workspace spawns, then 429")] = 120
    turn_tokens: Annotated[Count, Meta(description="tokens of one turn, then it is stopped")] = 5_000_000
    thread_tokens: Annotated[Count, Meta(description="tokens of one thread, then 429")] = 50_000_000
    thread_tree_tokens: Annotated[Count, Meta(description="tokens of one tree of threads, then 429")] = 200_000_000
    thread_input_bytes: Annotated[Count, Meta(description="input of one turn, and one message between agents")] = (
        256 << 10
    )
    thread_entry_bytes: Annotated[Count, Meta(description="one entry of a thread's log, as JSON")] = 1 << 20
    thread_event_bytes: Annotated[
        Count, Meta(description="one log entry in an event; a larger one is read separately")
    ] = 16 << 10
    thread_entries: Annotated[Count, Meta(description="log entries that an engine appends at once")] = 100
    thread_queue: Annotated[Count, Meta(description="queued turns of one thread, then 429")] = 100
    thread_lease_seconds: Annotated[
        Count, Meta(description="without a request of the engine, then another engine can claim its thread")
    ] = 60
    thread_engine_seconds: Annotated[
        Count, Meta(description="without a request for work, then an engine no longer counts as available")
    ] = 90
    thread_wait_seconds: Annotated[Count, Meta(description="default wait of an agent for other agents")] = 30
    thread_wait_most_seconds: Annotated[Count, Meta(description="maximum wait of an agent for other agents")] = 3600
    thread_targets: Annotated[Count, Meta(description="agents that one wait may name")] = 64
    thread_rows: Annotated[Count, Meta(description="threads in one page of a list, and entries of a log")] = 200
    appserver_requests: Annotated[
        Count, Meta(description="pending requests of one app-server client, then rejected")
    ] = 64
    appserver_trees: Annotated[Count, Meta(description="trees of threads that one app-server client subscribes to")] = (
        1000
    )
    options: Annotated[Count, Meta(description="options that one question may offer")] = 10
    open_questions: Annotated[
        Count, Meta(description="questions of one workspace that wait for an answer; older ones count as closed")
    ] = 100
    option_length: Annotated[Count, Meta(description="one option of a question, characters")] = 120
    shared_files: Annotated[Count, Meta(description="files that one workspace shares with its children")] = 32
    shared_file_bytes: Annotated[Count, Meta(description="one shared file, UTF-8")] = 64 << 10
    shared_context_bytes: Annotated[Count, Meta(description="all shared files of one workspace, UTF-8")] = 256 << 10
    shared_path_length: Annotated[Count, Meta(description="the name of a shared file, characters")] = 200
    prompt_sections: Annotated[Count, Meta(description="sections of one reported system prompt")] = 20_000
    prompt_bytes: Annotated[Count, Meta(description="one reported system prompt, as stored")] = 1 << 20
    prompt_builds: Annotated[Count, Meta(description="system prompts of one workspace that are kept")] = 10
    prompt_diff_lines: Annotated[Count, Meta(description="lines of a diff between two system prompts")] = 2000
    memory_bytes: Annotated[Count, Meta(description="one memory, UTF-8")] = 16 << 10
    memories: Annotated[Count, Meta(description="memories of one workspace, then 409")] = 10_000
    org_memory_bytes: Annotated[
        Count, Meta(description="memories and values under keys of one organisation, UTF-8, then 409")
    ] = 4 << 30
    memory_recall: Annotated[Count, Meta(description="memories that one recall returns")] = 50
    memory_query_words: Annotated[
        Count, Meta(description="words of a search query that are used; the rest is ignored")
    ] = 32
    memory_namespace_length: Annotated[Count, Meta(description="a namespace of memories, characters")] = 50
    memory_keys: Annotated[Count, Meta(description="keys of one workspace, then 409")] = 1000
    memory_key_length: Annotated[Count, Meta(description="a key of a workspace's memory, characters")] = 200
    memory_value_bytes: Annotated[Count, Meta(description="a value under a key, as JSON")] = 64 << 10
    memory_ttl_seconds: Annotated[Count, Meta(description="maximum time to live of a key")] = 366 * 86_400
    search_results: Annotated[Count, Meta(description="results that one search returns")] = 50
    search_query_words: Annotated[
        Count, Meta(description="words of a search over all texts that are used; the rest is ignored")
    ] = 32
    search_text_characters: Annotated[
        Count, Meta(description="characters of one text that are searchable; what follows is not found")
    ] = 16 << 10
    search_snippet_characters: Annotated[Count, Meta(description="characters of a text that a search result shows")] = (
        200
    )
    search_reads: Annotated[
        Count, Meta(description="pages of candidates that one search reads, if many of them do not match")
    ] = 8
    activity_events: Annotated[Count, Meta(description="events in one page of an organisation's activity")] = 200
    activity_scan_events: Annotated[
        Count,
        Meta(description="events that one request for activity, or for its histogram, reads to find those that match"),
    ] = 20_000
    activity_text_matches: Annotated[
        Count, Meta(description="texts with the words of a search whose events one request for activity looks for")
    ] = 1000
    activity_exports: Annotated[
        Count, Meta(description="exports of activity at the same time in one process, then 429")
    ] = 4
    vendor_limit_hours: Annotated[
        Count,
        Meta(description="hours that a vendor's limit may keep a workspace from working; a longer one is shortened"),
    ] = 8 * 24
    budgets: Annotated[Count, Meta(description="budgets of one organisation, then 409")] = 1000
    turn_lease_micros: Annotated[
        Count,
        Meta(description="millionths of the currency that a turn leases from a budget; a workspace may set its own"),
    ] = 200_000
    turn_lease_tokens: Annotated[
        Count, Meta(description="tokens that a turn leases from a budget; a workspace may set its own")
    ] = 50_000
    budget_hold_seconds: Annotated[
        Count, Meta(description="a workspace that is over budget is checked again after this time at the latest")
    ] = 3600
    budget_retry_seconds: Annotated[
        Count, Meta(description="a turn that waits for the leases of others is tried again after this time")
    ] = 5
    schedules: Annotated[Count, Meta(description="schedules of one organisation, then 409")] = 200
    schedule_interval_seconds: Annotated[
        Count, Meta(description="shortest time between two runs of a schedule; a shorter cron expression is rejected")
    ] = 60
    schedule_grace_seconds: Annotated[
        Count, Meta(description="a run that starts later than this was missed, and `misses` decides about it")
    ] = 300
    schedule_queued_runs: Annotated[
        Count, Meta(description="runs of a schedule that wait for the one before them, then further ones are skipped")
    ] = 10
    schedule_queue_seconds: Annotated[
        Count, Meta(description="a queued run looks after this time whether the one before it is done")
    ] = 30
    schedule_runs: Annotated[Count, Meta(description="runs of one schedule that are kept, the newest")] = 1000
    budget_skipped_messages: Annotated[
        Count, Meta(description="messages over a budget that a claim skips to reach later ones of other chains")
    ] = 50
    untaken_seconds: Annotated[
        Count, Meta(description="a message that wants an answer is reported if it is not picked up for this long")
    ] = 600
    untaken_rows: Annotated[
        Count, Meta(description="workspaces in the list of those with unread mail, the longest waiting")
    ] = 100
    retention_days: Annotated[int, Meta(ge=0, description="days that old and handled rows are kept; 0: for ever")] = 7
    usage_prices: Annotated[Count, Meta(description="prices of models in one organisation")] = 500
    usage_range_days: Annotated[Count, Meta(description="days that one report of usage covers")] = 400
    usage_record_days: Annotated[
        int, Meta(ge=0, description="days that the usage of single turns is kept, sums by day stay; 0: for ever")
    ] = 90
    retention_batch: Annotated[Count, Meta(description="rows that retention deletes at once")] = 500
    prune_seconds: Annotated[Count, Meta(description="between two rounds of retention")] = 3600
    unread_count: Annotated[Count, Meta(description="highest number of unread messages counted in one chat")] = 100
    look_again_seconds: Annotated[
        Count,
        Meta(description="with several processes: a waiter polls again after this long, in case a wake-up was lost"),
    ] = 5
    clock_skew_seconds: Annotated[
        Count,
        Meta(
            description="with PostgreSQL: difference between the clocks of the server and of the database, then the "
            "server refuses to start"
        ),
    ] = 5
    push_seconds: Annotated[Count, Meta(description="time that an agent has to respond to a push")] = 300
    push_stop_seconds: Annotated[
        Count, Meta(description="that running pushes may delay the end of a server; then they are made again")
    ] = 5
    push_concurrency: Annotated[Count, Meta(description="concurrent pushes")] = 64
    push_answer_bytes: Annotated[Count, Meta(description="an agent's response to a push")] = 10 << 20
    a2a_card_seconds: Annotated[
        Count, Meta(description="between two checks of the card of an A2A agent of others, which are its heartbeats")
    ] = 30
    a2a_request_seconds: Annotated[
        Count, Meta(description="time that such an agent has to respond to a request, or until its first event")
    ] = 60
    a2a_idle_seconds: Annotated[
        Count, Meta(description="time without an event after which a stream of such an agent is opened again")
    ] = 90
    a2a_poll_seconds: Annotated[
        Count, Meta(description="maximum time between two polls of a task of such an agent")
    ] = 30
    a2a_notified_poll_seconds: Annotated[
        Count, Meta(description="the same once the agent has sent a push notification of the task")
    ] = 120
    a2a_streams: Annotated[Count, Meta(description="open streams of such agents; further tasks are polled")] = 256
    a2a_file_bytes: Annotated[
        Count, Meta(description="files that one message carries to such an agent, before their encoding")
    ] = 8 << 20
    delivery_attempts: Annotated[Count, Meta(description="failed pushes of one message, then it is a dead letter")] = 12
    refused_attempts: Annotated[Count, Meta(description="the same if the agent rejects it (4xx)")] = 3
    webhooks: Annotated[
        Count, Meta(description="push notification configurations (A2A) of open tasks in one organisation, then 429")
    ] = 1000
    webhooks_per_task: Annotated[Count, Meta(description="the same of one task and one caller, then 429")] = 10
    webhook_secret_length: Annotated[
        Count, Meta(description="characters of a token, or of credentials, in a push notification configuration")
    ] = 4096
    webhook_seconds: Annotated[Count, Meta(description="time that a webhook has to respond to a push notification")] = (
        15
    )
    webhook_concurrency: Annotated[Count, Meta(description="concurrent push notifications of one process")] = 32
    webhook_attempts: Annotated[
        Count, Meta(description="failed attempts of one push notification, then its webhook gets no further one")
    ] = 12
    webhook_retry_seconds: Annotated[
        Count, Meta(description="after the first failed attempt; then twice as long each time")
    ] = 5
    webhook_retry_most_seconds: Annotated[Count, Meta(description="between two attempts of a push notification")] = 3600
    webhook_lease_seconds: Annotated[
        Count, Meta(description="after a process has died, another one follows its push notifications within this time")
    ] = 30
    circuit_failures: Annotated[Count, Meta(description="consecutive failed pushes to one agent, then a pause")] = 5
    circuit_seconds: Annotated[Count, Meta(description="length of that pause; then one push probes the agent")] = 60
    patience_seconds: Annotated[
        Count, Meta(description="default time that a sender waits for a push agent's answer")
    ] = 20
    patience_most_seconds: Annotated[Count, Meta(description="maximum of that time, with X-Timeout")] = 300
    expires_seconds: Annotated[Count, Meta(description="maximum lifetime that a sender may set for a message")] = (
        30 * 86_400
    )
    connections: Annotated[Count, Meta(description="open connections, then 503")] = 20_000
    url_length: Annotated[Count, Meta(description="a url that the server calls, characters")] = 2048
    resolve_seconds: Annotated[Count, Meta(description="name resolution while a url is registered")] = 5
    answer_header_bytes: Annotated[Count, Meta(description="status and headers of a response to the server")] = 32 << 10
    mcp_sessions: Annotated[Count, Meta(description="MCP sessions of one workspace in one process")] = 32
    mcp_idle_seconds: Annotated[
        Count, Meta(description="an unused MCP session is kept for; it can be resumed later too")
    ] = 1800
    mcp_calls: Annotated[
        Count, Meta(description="concurrent tool calls of one MCP session, or of one workspace without sessions")
    ] = 32
    mcp_batch: Annotated[Count, Meta(description="messages in one MCP request")] = 50
    mcp_instruction_length: Annotated[
        Count,
        Meta(description="instructions of the MCP endpoint, characters; what does not fit is left out"),
    ] = 4096
    mcp_lease_seconds: Annotated[
        Count,
        Meta(description="lease of a message that an MCP tool delivered to its agent, then it is delivered again"),
    ] = 600
