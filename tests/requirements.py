"""The requirements manifest: one id for each promise of the specs, tied to the tests that show it, both ways.

A test names what it shows: `@requirement("M16")`. `tests/shape/test_requirements.py` holds both ends together: a
promise of this version without a test fails, and so does a test that names no promise. `LATER` are promises of parts
that do not exist yet; a test that names one fails too, so that the table is moved when the part comes.
"""

from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])

NOW = {
    "P1": "Nothing accepted is lost: a 2xx means it is on disk, whatever is killed when.",
    "P2": "Nothing is told twice: same message id, one effect.",
    "P3": "No reply goes astray: sender and route come from the credential.",
    "P6": "Nobody gets in: no fail-open mode, also on a fresh install.",
    "M1": "A workspace has id, org, name, role, runtime, parent, delivery mode, card, status and times.",
    "M2": "Silent for 90 s is offline (external: awaiting_agent); a heartbeat heals; errors degrade; one sweep.",
    "M3": "Who may talk: itself, parent, children, siblings; foreign ids answer as unknown; removed 410 or 404.",
    "M4": "Re-parenting, expand and collapse: one transaction, no circle, the whole subtree or nothing.",
    "M5": "A taken name gets a number; control, bidi and tag characters are refused; 120 characters.",
    "M6": "The org as a file: plan, apply, export; apply is idempotent, export and plan is empty, no secret leaves.",
    "M7": "Three kinds of credential, hashed, with prefix and checksum; each route declares which it takes.",
    "M8": "The caller is what the credential proves; a claim that disagrees, or a reserved prefix, is refused.",
    "M9": "Without credentials only what is public answers; register makes no workspace and gives no token.",
    "M10": "Messages come in through message/send and notify, through one writer.",
    "M11": "A message is an a2a_receive row with a kind; identity in a body counts only from the session.",
    "M12": "Entry is regular: type or kind, missing members, content; an A2A version is held to.",
    "M13": "(sender, messageId) is unique while kept: same content the first answer, other content 409.",
    "M14": "The answer leaves after the commit; the queued answer is JSON-RPC and has the older keys.",
    "M15": "Refusals speak JSON-RPC once it was understood; limits are settings; hostile JSON is refused.",
    "M16": "One gap-free seq per workspace, given in the inserting transaction; no cursor ever skips.",
    "M17": "activity and activities: order, long-poll, filters, includes, 410 for unknown cursors.",
    "M18": "claim hands out with lease and attempt; unacked comes again; a late ack is refused; old cursors ack.",
    "M19": "What a workspace did itself never comes back as somebody's turn.",
    "M21": "Push is poll done by the server: claims, leases, back-off, then a dead letter that can be requeued.",
    "M22": "Busy, paused, silent and expired: what waits, what is tried, what dies; drained in order, no second row.",
    "M23": "One target's trouble stays its own: circuit, fair turns, no unbounded task.",
    "M25": "Ticks: for each message the sender sees what became of it, when, and why it is stuck.",
    "M20": "Retention prunes only what is old and acked; numbers, floors and live channels go on.",
    "M24": "Streams: WebSocket and SSE with resume.",
    "M30": "Lineage kept by the server; a chain that runs into a limit is frozen once and asks a person; small talk.",
    "M31": "One append-only journal and sequence per org; the event is in the transaction of its change.",
    "M32": "Live envelope: event, workspace_id, timestamp, payload, seq, prev, entity, client_id; "
    "no event outside its org and audience.",
    "M33": "Readers are woken with 'look again', never with data.",
    "M34": "old snapshot + its events == new snapshot.",
    "M35": "Chat history is paged both ways; files are streamed, told to polling agents before the message that "
    "mentions them, and given out as downloads.",
    "M36": "Memories: scopes, namespaces, full-text search alike on both engines, secrets taken out; values under keys "
    "with compare-and-set and an end.",
    "M37": "A workspace with the ability writes to all others of its organisation, in one transaction.",
    "M38": "Any number of processes on one PostgreSQL; sockets, polls, writes on any; lost wake-ups cost latency only.",
    "W1": "A client that knows only the original's wire works unchanged.",
    "S6": "No url leads the server to an address that is not public or allowed.",
    "S8": "Other organisations' ids answer byte for byte like unknown ids.",
    "S13": "A mutated cursor shows no foreign row.",
    "S14": "Huge, deep, slow or malformed input gets a 4xx that says what to do; memory stays flat.",
    "S16": "No name leads out of the folder of files or into a header, and no link is followed.",
    "S17": "No archive is unpacked, and no form makes the server keep more than its limits.",
    "S19": "A file is a download; only pictures, by their first bytes, are shown.",
    "S18": "A host name that is not ours is refused.",
    "S20": "Routes x credentials answer as declared.",
    "S22": "Whoever floods is limited alone: rates per caller, organisation and address, told on every answer.",
    "C1": "What happened while the live channel was cut appears once, in order, without reload (canvas R1).",
    "C3": "A frame that does not fit causes exactly one resume and no flicker (canvas R3).",
    "C4": "After a restore from a backup the view equals a fresh load (canvas R4).",
    "C5": "A lost connection is told politely and soon, what was there stays, and the words go again (canvas R5).",
    "C6": "A message that could not be sent is kept, marked, offered for retry and discard, also after a reload (R6).",
    "C8": "Two tabs show the same after each of 20 random commands (canvas R8).",
    "C9": "One WebSocket a tab, whatever is opened in it (canvas R9).",
    "C17": "Unread per chat, in all and in the title; reading clears it in all tabs (canvas R17).",
    "C19": "The own message is there at once; the server's copy takes its place in the same element (canvas R19).",
    "C22": "Bubbles from history equal those built live (canvas R22).",
    "C24": "What is looked at does not move; at the end the page follows (canvas R24).",
    "C25": "Copy message, code and link give the exact text (canvas R25).",
    "C26": "Times in words, exact on hover and focus, right across midnight and changes of the clocks (canvas R26).",
    "C28": "A draft outlives another chat and a reload until it is sent (canvas R28).",
    "C37": "Files: pick, paste, drop, progress, cancel, limits before the upload, names shown safely (canvas R37).",
    "C38": "History pages backwards without a jump; 10,000 messages stay under 300 items (canvas R38).",
    "C84": "The page tells in its own timeline when the map was drawn, for whoever measures it (canvas R84).",
    "C88": "An agent's answer is on the page within half a second (canvas R88, in part).",
    "C12": "Every standing is told by glyph and word, also where the colours are not ours (canvas R12).",
    "C50": "One agent more or less moves its own team only, and the window stays (canvas R50).",
    "C27": "Pause and resume do what they say and show it at once (canvas R27, as far as there is something to stop).",
    "C52": "An agent is moved by drag and by menu; a circle is refused in words; a move can be undone (canvas R52).",
    "C56": "The outline is a tree: roles, levels, arrows, letters, in step with the map (canvas R56).",
    "C57": "An empty organisation offers three ways to start; each other empty view has its words (canvas R57).",
    "C58": "Removing a team lists who goes and needs the typed name (canvas R58).",
    "C59": "Twelve journeys without a pointer (canvas R59).",
    "C60": "Ctrl K finds agents, chats and commands at once, unread and recent ones first (canvas R60).",
    "C61": "`?` lists the keys; single keys do nothing while somebody types and can be turned off (canvas R61).",
    "C62": "Escape closes the topmost layer only, and the focus goes back to where it was (canvas R62).",
    "C64": "axe finds nothing on any view, in both schemes, wide and at 320 pixels (canvas R64).",
    "C65": "With text of 200 % and at 400 % nothing is lost and nothing scrolls sideways (canvas R65).",
    "C67": "What can be pressed is at least 24 pixels large; every drag has a click way (canvas R67).",
    "C68": "The focus is never hidden by strip, banner or panel (canvas R68).",
    "C69": "Nothing moves for whoever wants no motion (canvas R69).",
    "C70": "Sixty hostile texts run nothing, lead nowhere and fetch nothing (canvas R70).",
    "C71": "Remote pictures are links with their host and are not fetched (canvas R71).",
    "C72": "Links tell nobody, are of known kinds, and say where they lead if their text lies (canvas R72).",
    "C73": "A strict CSP on every response (canvas R73).",
    "C74": "Login: one-time link, session in an HttpOnly cookie; tokens shown once, never in a URL's path or query "
    "(canvas R74).",
    "C75": "Other origins cannot open the WebSocket or post commands (canvas R75).",
    "O1": "serve, admin token, backup, restore, doctor; Ctrl-C ends cleanly; a second start goes on.",
    "O2": "Every limit is a setting with a default.",
    "O3": "Credentials stay out of logs, errors, files and process arguments.",
    "O4": "/metrics tells what docs/metrics.md says, to the admin and a token of its own; dashboard and alerts fit it.",
    "O5": "A backup is one moment, goes back into either engine, and is taken before each migration.",
    "O6": "A store of every released schema, killed in the middle of its migration, ends as a fresh one, rows kept.",
    "O7": "A trace context is checked, kept, handed on, and spans are made only where they are asked for.",
    "O8": "doctor gives one advice for each thing that is wrong.",
    "O9": "What is needed to run it is in the repository, and fits what the server says and does.",
    "G1": "Each platform tool is declared once; servers, LangChain, command line, prompts and docs come from there.",
    "G2": "The tools keep the arguments of the original ones; the identity is via_workspace, with two aliases.",
    "G3": "Tool names as each runtime has them; hints, result schema, complete results, errors that say what to do.",
    "G24": "connect: a host's configuration printed or applied, undone to the byte, no secret in it; then it is seen.",
    "G15h": "Sessions without channels are told of waiting mail by hooks that take nothing.",
    "C81": "Connect wizard: each snippet as written turns every check green (canvas R81).",
    "G4": "Prompt documentation is rendered from the registry; three snapshots, one command writes them anew.",
    "G5": "Ten drift tests; a tool that is missing from one adapter fails.",
    "G6": "`molecule mcp`: each error of configuration is one line, exit 2; token files; a refused single seat is 3.",
    "G7": "Each workspace has its own register, heartbeat and reader; one that fails stops no other one; many servers.",
    "G8": "Tokens: register, rotate, clear; an unknown workspace is an error and never borrows a token.",
    "G9": "One merged inbox; every form of a message names the seat that it came to, but in single mode.",
    "G10": "Cursors move on ack, one file a workspace; a crash redelivers once, a 410 resets one workspace alone.",
    "G11": "Answers go where the message came from; more than one candidate is refused with the choices.",
    "G14": "Of several processes one leads, by a lock with fencing; what a dead or ending one held comes at once.",
    "G15": "Push by handshake or setting, again until a tool call names it; texts of others are made harmless.",
    "G16": "Permission requests of the host are received, shown and kept.",
    "N1": "The server's own MCP endpoint: an address and a token are enough, in both eras of the protocol; a session "
    "is its credential's alone and outlives the process; the public conformance suite and the Inspector pass.",
    "G13": "The MCP dispatcher: both eras, calls side by side, progress, cancellation, no input ends it.",
    "A1": "The house: imports, fences, circles, table ownership, sizes, clocks.",
    "A2": "Every named query is prepared on both engines.",
    "A3": "Every refusal and every event stands in its table and in docs/.",
    "A4": "Two commands set everything up.",
    "X1": "Real hosts (Claude Code, Codex, Gemini CLI) read a waiting message and answer it through our tools.",
}

LATER = {
    "M26": "Obligations and reply handles.",
}


def requirement(*_ids: str) -> Callable[[F], F]:
    """Says which promises a test shows."""

    def mark(test: F) -> F:
        return test

    return mark
