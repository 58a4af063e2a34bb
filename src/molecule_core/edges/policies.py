"""What needs leave, or is decided alone, as people write it: cleaned as it is compared, or refused.

Above: the edge of approvals. Below: rules of approvals.
"""

from molecule_core.approvals import rules
from molecule_core.ground.errors import InvalidField
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import clean_line
from molecule_core.wire.approvals import Authority, Grant, Rule, RuleSet


def rules_said(said: RuleSet, limits: Limits) -> list[Rule]:
    """Rules without the blanks around what they say. Raises InvalidField."""
    _check_count(said.rules, limits)
    return [
        Rule(_pattern(each.action, limits), each.cost_above, each.first_time, _line(each.note, "note", limits))
        for each in said.rules
    ]


def grants_said(said: Authority, limits: Limits) -> list[Grant]:
    """Grants without the blanks around their patterns, their times spelled as the rules compare them. Raises
    InvalidField."""
    _check_count(said.grants, limits)
    return [
        Grant(_pattern(each.action, limits), each.cost_up_to, _time(each.since), _time(each.until))
        for each in said.grants
    ]


def _check_count(said: list[Rule] | list[Grant], limits: Limits) -> None:
    if len(said) > limits.approval_rules:
        raise InvalidField(reason=f"at most {limits.approval_rules} are taken")


def _pattern(text: str, limits: Limits) -> str:
    """A pattern as it is compared: the name of an action has no blanks around it, so one with them would fit none."""
    pattern = _line(text, "action", limits)
    if not pattern:
        raise InvalidField(reason="action is empty; say which actions are meant (* is any text)")
    return pattern


def _line(text: str, what: str, limits: Limits) -> str:
    return clean_line(text, limits.short_text_length, what)


def _time(text: str | None) -> str | None:
    try:
        return None if text is None else rules.same_time(text)
    except ValueError:
        raise InvalidField(reason="from and until must be times in RFC 3339, like 2026-11-21T09:00:00Z") from None
