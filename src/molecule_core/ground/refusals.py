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


class DecideInstead(MoleculeError):
    """this message asks for a decision, and no text is one: call decide_approval with approval_id {approval_id} and
    approve, deny, escalate or more_info."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval_id": self.details["approval_id"]}


class _Shown:
    """A refusal that shows the approval as it stands."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"]}


class OwnApproval(MoleculeError):
    """a workspace decides nothing that it has asked for itself. Wait for the decision, or withdraw the request."""


class AlreadyDecided(_Shown, MoleculeError):
    """this approval was decided before: {decided}. The first decision holds; the approval says whose it is."""


class ApprovalMovedOn(_Shown, MoleculeError):
    """this approval is not yours to decide any more: {what}. There is nothing left to do about it."""


class ApprovalChanged(_Shown, MoleculeError):
    """what was shown is not what stands there now (revision {revision}, action_hash {action_hash}). Read it again."""


class ApprovalEnded(_Shown, MoleculeError):
    """this approval has ended ({status}): nothing can be added to it or taken back. Ask anew if it is still needed."""


class NothingAsked(_Shown, MoleculeError):
    """nobody waits for an answer about this approval: {what}."""


class NobodyAbove(_Shown, MoleculeError):
    """this approval cannot be passed on: it waits for a person already. Approve it, deny it, or ask for more."""


class TooManyQuestions(_Shown, MoleculeError):
    """so many questions about one approval are enough ({limit}). Approve it, deny it, or pass it on."""


class ApprovalUsed(_Shown, MoleculeError):
    """this approval was used before, at {used_at}; each is good for one action. Ask anew for another one."""


class NotApproved(_Shown, MoleculeError):
    """this approval allows nothing: {why}."""


class ApprovalNeeded(_Shown, MoleculeError):
    """{action} needs an approval, by a rule of this workspace. {how}"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"], "header": "X-Molecule-Approval"}


class TooManyApprovals(MoleculeError):
    """this workspace has {limit} approvals open already. Wait for decisions, or withdraw what is not needed."""


class NotTheWorker(MoleculeError):
    """only the workspace that has the task may say this. Who gave it can cancel it, or update what it recorded."""


# -- prompts -----------------------------------------------------------------------------------------------------------


class SharedWithChildren(MoleculeError):
    """what a workspace shares is read by its direct children, by people and by itself. Ask your own parent for what it
    shares."""


class NoPromptYet(MoleculeError):
    """the agent of this workspace has not told its system prompt yet. Run `molecule prompt show --report` or
    `molecule prompt watch` where it runs."""


# -- threads -----------------------------------------------------------------------------------------------------------


class BaseMissing(MoleculeError):
    """a thread needs base instructions, and the agent of this workspace has not told its system prompt yet. Send
    base_instructions, or let the agent tell its prompt first."""


class ThreadOwned(MoleculeError):
    """this thread is held by the engine {owner!r} until {until}. Wait until it lets go, or is not heard of any more."""

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class StaleGeneration(MoleculeError):
    """generation {given} does not hold this thread any more: it is {generation}. Nothing was written. Claim it anew."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"generation": self.details["generation"]}


class ThreadClosed(MoleculeError):
    """this thread is closed. Resume it first."""


class ThreadBusy(MoleculeError):
    """a turn of this thread runs ({turn_id}): {what} Interrupt it, or wait for its end."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class NoTurn(MoleculeError):
    """no turn of this thread runs that could be steered. Send it with mode auto or queue."""


class OtherTurn(MoleculeError):
    """the turn that runs is {turn_id}, not {expected}. Read the thread again, then decide anew."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class TurnNotOpen(MoleculeError):
    """this turn cannot be begun or ended: it is {status}."""


class ThreadLimit(_Guarded, MoleculeError):
    """this is refused: {what} ({use} of {most}, {limit}). {remedy}"""


class InvalidTask(MoleculeError):
    """this agent cannot be spawned: {reason}."""


class NoSuchAgent(MoleculeError):
    """there is no agent {target!r} that this thread may reach. list_agents names those of its tree."""


class RootAsleep(MoleculeError):
    """those below a root do not wake it, unless its permissions say so (root_followups). Use send_message."""


class SourceLost(MoleculeError):
    """the agent {target!r} is not there to be waited for: {outcome}. Nothing is known of its end."""
