"""Mistakes that those who use the other nouns of a server must see, and mistakes of the agent's own process."""

from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.workload.file_senders import MISSING
from proofs.workload.host_model import AFTER, NEVER, TWICE

OF_MEMORY = (
    Control(
        name="the version that a writer names is not looked at",
        marker="version-check",
        change=Remove(),
        breaks="written over unseen",
    ),
    Control(
        name="the last version is not kept",
        marker="last-version-kept",
        change=Swap('("$", {**$, "last": $}),', ""),
        breaks="one version, two values",
    ),
    Control(
        name="what was written down before is not recognised",
        marker="memory-content-hash",
        change=Swap(", $($)", ", self._ids.new()"),
        breaks="memories doubled",
    ),
)
OF_FILES = (
    Control(
        name="a file is known before it is on the disk",
        marker="file-before-row",
        change=Swap(
            "await $keep()",
            "asyncio.get_running_loop().call_later(0.1, lambda run=$keep: asyncio.ensure_future(run()))",
        ),
        breaks=MISSING,
    ),
)
OF_APPROVALS = (
    Control(
        name="the key of a request is not looked at",
        marker="approval-key",
        change=Swap("key=$($, $)", "key=None"),
        breaks="approvals doubled",
    ),
    Control(
        name="a decision is made on how it stood when its caller came",
        marker="decision-reads-again",
        change=Swap("$known = yield from $($row.$, $row.$)", "yield from (); $known = $row"),
        breaks="used twice",
    ),
    Control(
        name="an approval that was used can be used",
        marker="approval-used-check",
        change=Always(False),
        breaks="used twice",
    ),
    Control(
        name="an approval that nobody decides stays open",
        marker="approval-expiry",
        change=Always(False),
        breaks="approvals open for ever",
    ),
    Control(
        name="who asked is not told what was decided",
        marker="requester-informed",
        change=Always(False),
        breaks="decisions not exactly one letter",
    ),
)
OF_THREADS = (
    Control(
        name="what was said under a key is not recognised",
        marker="turn-key",
        change=Swap(", $=$)", ")"),
        breaks="said and not there once",
    ),
    Control(
        name="what a caller calls its thread is not kept",
        marker="thread-key",
        change=Remove(),
        breaks="threads doubled",
    ),
    Control(
        name="a letter that was read is read again",
        marker="mail-delivered",
        change=Remove(),
        breaks="letters between threads not read once",
    ),
    Control(
        name="the key of an engine's lines is not kept",
        marker="append-key",
        change=Always(True),
        breaks="lines of engines not there once",
    ),
    Control(
        name="base instructions lose their end",
        marker="base-text",
        change=Swap('"text": $text', '"text": $text[:-1]'),
        breaks="base instructions other than given",
    ),
)
OF_AGENTS = (
    Control(
        name="what an agent has handled is not kept in its file",
        marker="handled-kept",
        change=Remove(),
        breaks=AFTER,
    ),
    Control(
        name="an agent's inbox takes a repeat for news",
        marker="repeat-no-news",
        change=Swap("$known.$message = $new...", "$known.$message, $known.push_at = $new, self._notify() or 0.0"),
        breaks=TWICE,
    ),
    Control(
        name="what a dead process held counts as handled",
        marker="release-left-over",
        change=Swap(
            "await $($left($keys...))",
            "for each in $left($keys).items(): await acknowledge_message(self.api(), self.id, *each)",
        ),
        breaks=NEVER,
    ),
)
