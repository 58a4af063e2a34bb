"""scripts/bench: measures rows of the table of speed, prints each figure beside its bar, keeps history."""

import argparse
import sys
from datetime import UTC, datetime

from benchmarks import (
    beside,
    history,
    page,
    row_01_full_path,
    row_02_receipt,
    row_03_durability,
    row_04_delegation,
    row_05_queues,
    row_06_fan_out,
    row_07_idle,
    row_08_idle_crowd,
    row_09_instructions,
    row_10_prompt,
    row_11_inbox_read,
    row_12_empty_poll,
    row_13_big_org,
    row_14_start,
    row_15_agent_start,
    row_16_agent_seats,
    row_17_grouped,
    row_18_neighbours,
    row_19_slow_sockets,
    row_20_frame_floods,
    row_21_live_turn,
    row_22_search,
    row_83_page_size,
    row_84_ready,
    row_85_map,
    row_86_status_storm,
    row_88_paint,
    row_89_layout,
    row_90_first_words,
    row_92_missed_events,
)
from benchmarks.figures import Failed, Figure, Options, Row, text_table
from benchmarks.machine import Machine, commit, this_machine
from benchmarks.servers import peers_python

ROWS: dict[int, tuple[str, Row]] = {
    1: ("full path, against uvicorn doing nothing", row_01_full_path.measure),
    2: ("receipt for one caller, against one flush and uvicorn doing nothing", row_02_receipt.measure),
    3: ("what waiting for the disk costs", row_03_durability.measure),
    4: ("a delegation and its result, against a2a-sdk", row_04_delegation.measure),
    5: ("a durable message, against NATS JetStream, huey, pgqueuer, procrastinate", row_05_queues.measure),
    6: ("one event to 1,000 WebSockets, against a queue and a task for each", row_06_fan_out.measure),
    7: ("an idle agent: WebSocket, event stream, long-poll", row_07_idle.measure),
    8: ("ten thousand idle agents with heartbeats", row_08_idle_crowd.measure),
    9: ("instructions for one message: remembered, made anew", row_09_instructions.measure),
    10: ("a prompt with 1,000 peers: one changed, cold", row_10_prompt.measure),
    11: ("inbox read behind a cursor, many rows against few", row_11_inbox_read.measure),
    12: ("a poll that finds nothing", row_12_empty_poll.measure),
    13: ("100,000 workspaces: lists, who may talk, a subtree", row_13_big_org.measure),
    14: ("start of the server, against bare uvicorn", row_14_start.measure),
    15: ("start of an agent's process", row_15_agent_start.measure),
    16: ("a hundred workspaces more in one agent process", row_16_agent_seats.measure),
    17: ("rows in groups on PostgreSQL, against one by one", row_17_grouped.measure),
    18: ("agents at work beside a flood and an agent that hangs", row_18_neighbours.measure),
    19: ("agents at work beside 500 slow sockets", row_19_slow_sockets.measure),
    20: ("agents at work beside floods of WebSocket frames", row_20_frame_floods.measure),
    21: ("agents at work beside a turn that is streamed", row_21_live_turn.measure),
    22: ("a search over 1,000,000 messages", row_22_search.measure),
    83: ("what the page weighs", row_83_page_size.measure),
    84: ("page opened to map drawn: 50, 1,000, 10,000 agents", row_84_ready.measure),
    85: ("the map panned: 150, 1,000, 10,000 agents; size of the page", row_85_map.measure),
    86: ("a storm of status changes on the map of 1,000 agents", row_86_status_storm.measure),
    88: ("event to paint, key to paint, in a real browser", row_88_paint.measure),
    89: ("layout of the map: 1,000, 10,000 agents", row_89_layout.measure),
    90: ("first words of a turn on the page, and a stop, in a real browser", row_90_first_words.measure),
    92: ("5,000 missed events, in a real browser", row_92_missed_events.measure),
}
"""Numbers as the bar has them, from 83 on as the canvas's budgets have them; those in between need parts of Molecule
that are not there yet, or are held by its tests."""
_ROUNDS, _QUICK_ROUNDS = 5, 3


def main() -> None:
    """The command."""
    wish = _arguments()
    try:
        missed = _run(wish)
    except Failed as failure:
        sys.exit(f"scripts/bench: {failure}")
    if missed and wish.strict:
        sys.exit(1)


def _run(wish: argparse.Namespace) -> bool:
    """Measures, shows and keeps what is asked for; returns whether a bar was missed."""
    machine, at_commit = this_machine(), commit()
    usual = beside.ROUNDS if wish.beside else _ROUNDS
    rounds = wish.rounds or (_QUICK_ROUNDS if wish.quick else usual)
    options = Options(seed=wish.seed, rounds=rounds, quick=wish.quick)
    _say(
        f"scripts/bench: commit {at_commit}, {machine.cores} cores ({machine.model}), Python {machine.python}, "
        f"one flush to the disk {machine.flush_ms:.2f} ms; seed {options.seed}, {rounds} rounds"
        + (", quick: a look, not a figure to quote" if wish.quick else "")
    )
    if wish.beside:
        _say(f"\n{beside.table(beside.compare(wish.beside, options, _say))}")
        return False
    figures = _measure(wish.rows or list(ROWS), options)
    _say(f"\n{text_table(figures)}")
    if wish.write:
        _keep(figures, options, machine, at_commit)
    missed = [figure.name for figure in figures if figure.verdict == "MISSED"]
    if missed:
        _say(f"\nmissed: {'; '.join(missed)}")
    return bool(missed)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Molecule beside its peers and limits. Linux only.\n"
        "Keeps big stores in .bench/ for the next run (row 11: 12 GB, with --quick 1.2 GB).",
        epilog="\n".join(f"  {number:2}  {name}" for number, (name, _) in ROWS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", metavar="ROW", nargs="*", type=int, help="which rows; all without one")
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn by chance (default 1)")
    parser.add_argument("--rounds", type=int, help=f"default {_ROUNDS}, or {_QUICK_ROUNDS} with --quick")
    parser.add_argument("--quick", action="store_true", help="fewer messages, smaller stores: a look, not a figure")
    parser.add_argument(
        "--beside",
        metavar="COMMIT",
        help=f"compare messages and delegations with those of an earlier commit, in turns ({beside.ROUNDS} rounds)",
    )
    parser.add_argument("--strict", action="store_true", help="exit code 1 if a bar is missed")
    parser.add_argument("--write", action="store_true", help="keep the figures and make docs/performance.md anew")
    wish = parser.parse_args()
    if unknown := [row for row in wish.rows if row not in ROWS]:
        parser.error(f"there is no row {unknown[0]}; there are {', '.join(map(str, ROWS))}")
    if wish.write and wish.quick:
        parser.error("--write keeps figures, and those of --quick are not worth keeping")
    if wish.beside and (wish.rows or wish.write):
        parser.error("--beside takes no rows, and its figures are not kept")
    if wish.rounds is not None and wish.rounds < 1:
        parser.error("--rounds must be at least 1")
    return wish


def _measure(rows: list[int], options: Options) -> list[Figure]:
    if {4, 5} & set(rows):
        peers_python()  # what is missing is said before an hour has passed
    figures: list[Figure] = []
    for row in dict.fromkeys(rows):
        name, measure = ROWS[row]
        _say(f"\nrow {row}: {name}")
        found = measure(options, _say)
        _say(f"\n{text_table(found)}")
        figures += found
    return figures


def _keep(figures: list[Figure], options: Options, machine: Machine, at_commit: str) -> None:
    run = history.Run(
        at=datetime.now(UTC).date().isoformat(),
        commit=at_commit,
        machine=machine,
        seed=options.seed,
        rounds=options.rounds,
        figures=figures,
    )
    history.append(run)
    page.write(history.runs())
    _say(f"\nkept in {history.FOLDER.name}/ and docs/{page.PAGE.name}")


def _say(line: str) -> None:
    print(line, flush=True)
