"""More refusals, of what tells agents how to answer, and of delegations. `errors.py` says what a refusal is."""

from typing import Any

from molecule_core.ground.errors import MoleculeError


class InvalidTemplate(MoleculeError):
    """this template is refused: {part}, line {line}: {reason}"""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class NotOneTemplate(MoleculeError):
    """send exactly one of template_id and inline_template"""


class TemplateInUse(MoleculeError):
    """the template {template_id!r} is still used by: {users}. Give them another one first."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"users": self.details["users"]}


class TooManyTemplates(MoleculeError):
    """there are {limit} {what} already. Delete some that are not used any more."""


class SelfDelegation(MoleculeError):
    """a workspace cannot delegate to itself. Do the work here, or choose one of your peers."""


class _Guarded:
    """A guard of delegations refused: which limit, how much of it is in use, what to do instead."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {name: self.details[name] for name in ("limit", "use", "most", "remedy")}


class DelegationLimit(_Guarded, MoleculeError):
    """this delegation is refused: {what} ({use} of {most}). {remedy}"""


class DelegationCycle(_Guarded, MoleculeError):
    """this delegation is refused: {what} ({use} of {most}). {remedy} The same task would go round for ever."""


class DelegationOpen(MoleculeError):
    """this delegation has not ended: it is {status}. Wait for its end, or cancel it; then it can be begun again."""


class NotTheWorker(MoleculeError):
    """only the workspace that has the task may say this. Who gave it can cancel it, or update what it recorded."""


# -- prompts -----------------------------------------------------------------------------------------------------------


class SharedWithChildren(MoleculeError):
    """what a workspace shares is read by its direct children, by people and by itself. Ask your own parent for what it
    shares."""


class NoPromptYet(MoleculeError):
    """the agent of this workspace has not told its system prompt yet. Run `molecule prompt show --report` or
    `molecule prompt watch` where it runs."""
