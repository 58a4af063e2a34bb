"""Validates the approval rules and standing authority that people submit, and normalizes them for comparison."""

from molecule_core.approvals import rules
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import validate_line
from molecule_core.wire.schemas.approvals import ApprovalAuthority, ApprovalRule, ApprovalRuleSet, AuthorityGrant


def clean_rules(submitted: ApprovalRuleSet, limits: Limits) -> list[ApprovalRule]:
    """Return rules with surrounding blanks removed. Raises InvalidField."""
    _check_count(submitted.rules, limits)
    return [
        ApprovalRule(
            _clean_pattern(each.action, limits),
            each.cost_above,
            each.first_time,
            _clean_text(each.note, "note", limits),
        )
        for each in submitted.rules
    ]


def clean_grants(submitted: ApprovalAuthority, limits: Limits) -> list[AuthorityGrant]:
    """Return grants with surrounding blanks removed and times normalized. Raises InvalidField."""
    _check_count(submitted.grants, limits)
    return [
        AuthorityGrant(
            _clean_pattern(each.action, limits),
            each.cost_up_to,
            _normalize_time(each.since),
            _normalize_time(each.until),
        )
        for each in submitted.grants
    ]


def _check_count(submitted: list[ApprovalRule] | list[AuthorityGrant], limits: Limits) -> None:
    if len(submitted) > limits.approval_rules:
        raise InvalidField(
            reason=f"the list cannot have {len(submitted)} entries. Send at most {limits.approval_rules}."
        )


def _clean_pattern(text: str, limits: Limits) -> str:
    """Return a pattern without surrounding blanks: names of actions have none, so it could match nothing."""
    pattern = _clean_text(text, "action", limits)
    if not pattern:
        raise InvalidField(reason="action cannot be empty. Use a pattern of actions, in which * is any text.")
    return pattern


def _clean_text(text: str, field_name: str, limits: Limits) -> str:
    return validate_line(text, limits.short_text_length, field_name)


def _normalize_time(text: str | None) -> str | None:
    try:
        return None if text is None else rules.normalize_time(text)
    except ValueError:
        raise InvalidField(
            reason="from and until must be times in RFC 3339. Use a form such as 2026-11-21T09:00:00Z."
        ) from None
