"""Rules of runners. Pure."""

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import InvalidField
from molecule_core.common.text import validate_line
from molecule_core.runners.model import Runner, RunnerAgent, RunnerRequest, RunnerRequestDraft
from molecule_core.wire.schemas.runners import (
    ATTACHED_MODE,
    RunnerAgentState,
    RunnerReport,
    RunnerRequestStatus,
    RunReport,
)

_PATH_LENGTH = 4096


def is_gone(runner: Runner, now: int, silence_seconds: int) -> bool:
    """Return whether a runner has not polled for so long that nothing is known about its agents."""
    return runner.seen_at is None or now - runner.seen_at >= silence_seconds * SECOND


def status_of(request: RunnerRequest, now: int) -> RunnerRequestStatus:
    """Return the status of a request; one that no runner has claimed in time is expired."""
    return "expired" if request.status == "queued" and request.expires_at <= now else request.status


def state_of(agent: RunnerAgent, report: RunReport | None, *, gone: bool) -> RunnerAgentState:
    """Return the state of an agent as far as it is known."""
    if not agent.token_hash:
        return "requested"
    if gone:
        return "unknown"
    return "starting" if report is None else report.state


def check_start(draft: RunnerRequestDraft, report: RunnerReport) -> RunnerRequestDraft:
    """Check an agent to start or attach against what its runner reported. The runner checks all of it again.

    Raises InvalidField."""
    folder = validate_line(draft.folder, _PATH_LENGTH, "folder")
    if not folder:
        raise InvalidField(reason="folder cannot be empty. Use a folder on the machine of the runner.")
    found = next((each for each in report.installed if each.kind == draft.kind), None)
    if found is None:
        known = ", ".join(each.kind for each in report.installed) or "none"
        raise InvalidField(
            reason=f"kind cannot be {draft.kind[:50]!r}: the runner does not report it. Use one of: {known}."
        )
    if draft.action == "attach":
        if draft.mode:
            raise InvalidField(reason="mode cannot be set for an attached agent: its person chooses it. Remove mode.")
        return draft._replace(folder=folder, mode=ATTACHED_MODE)
    if draft.mode and draft.mode not in found.modes:
        modes = ", ".join(found.modes) or "none"
        raise InvalidField(
            reason=f"mode cannot be {draft.mode[:50]!r}: the runner does not allow it. Use one of: {modes}."
        )
    return draft._replace(folder=folder)


def keep_end(text: str, max_bytes: int) -> str:
    """Return the end of an output, at most `max_bytes` of UTF-8."""
    kept = text.encode("utf-8", "replace")[-max_bytes:]
    return kept.decode("utf-8", "ignore")
