"""Health of a store's writes: whether the last group reached the disk, and what the log says about failures."""

import logging

from molecule_core.common.text import truncate_line

# While a disk is full, each message and timer fails: one line a minute keeps the log readable.
_REPEAT_SECONDS = 60.0
_MAX_REASON_LENGTH = 300
_log = logging.getLogger("molecule.store")


class WriteHealth:
    """Whether the last group of writes failed. Logs the first failure, then one a minute, and the recovery.

    Times are those of a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self.is_failing = False
        self._failed_at = 0.0
        self._logged_at = 0.0
        self._count = 0

    def record_failure(self, error: BaseException, at: float) -> None:
        """Record a group that could not be written, with the words of the engine."""
        if not self.is_failing:
            self.is_failing, self._failed_at, self._count = True, at, 0
        elif at - self._logged_at < _REPEAT_SECONDS:
            self._count += 1
            return
        _log.error(
            "the store cannot be written: %s; senders get 503 and /ready answers 503 (%d more failures since the last "
            "line)",
            engine_words(error),
            self._count,
        )
        self._logged_at, self._count = at, 0

    def record_success(self, at: float) -> None:
        """Record a group that was written."""
        if self.is_failing:
            self.is_failing = False
            _log.warning("the store can be written again, after %.0f s", at - self._failed_at)


def engine_words(error: BaseException) -> str:
    """Return the text of the engine's error, as one line."""
    cause = error.__cause__ or error
    return truncate_line(f"{cause} ({type(cause).__name__})", _MAX_REASON_LENGTH)
