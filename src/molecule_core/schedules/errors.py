"""Errors of schedules. Their codes and HTTP statuses are in `api/errors.py`."""

from typing import Any

from molecule_core.common.errors import MoleculeError


class ScheduleExists(MoleculeError):
    """there is a schedule with this name already: {schedule_id}."""

    advice = "Change it, or use another name."

    @property
    def extras(self) -> dict[str, Any]:
        return {"schedule_id": self.details["schedule_id"]}


class TooManySchedules(MoleculeError):
    """an organisation cannot have more than {most} schedules."""

    advice = "Delete one first."
