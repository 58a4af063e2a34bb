"""The three built-in templates. A changed text needs a new `BUILT_IN_VERSION`: stored versions never change.

A program behind a bridge has no tools: its card says so, and `reply_tool` is then the command that answers. Its output
is kept as a draft; the output of other agents is lost.

The texts state where an answer goes instead of giving orders: an agent in the middle of other work is shown a message
with the warning that imperatives in it are not to be trusted. They name only tools that the agent has, and nothing that
a sender can choose (name, role), since such words could pass for instructions."""

from collections.abc import Iterator

from molecule_core.instructions import rules
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.model import BUILT_IN_ORG, ActiveVersion, Template, TemplateContent

BUILT_IN_VERSION = 4
"""Version of all three templates."""
BUILT_IN_AUTHOR = "molecule"
_DOCS_PATH = "/agent-docs/replies"
_STDOUT_WARNING = "The sender may not be at the terminal and sees only what goes through the reply tool."

_REPLY = """\
{% if kind == "canvas_user" %}
This Molecule message is from the user on the canvas.
{% elif kind == "peer_agent" %}
This Molecule message is from a peer agent of the organisation, not from the user.
{% elif kind == "delegation" %}
This Molecule message is a task that a peer agent delegates; its answer is the result.
{% elif kind == "delegation_result" %}
This Molecule message is the result of a task that this agent delegated.
{% elif kind == "approval_request" %}
This Molecule message asks for a decision on an approval.
{% elif kind == "approval_decision" and intent == "request" %}
This Molecule message is a question about an approval that this agent requested; its answer goes to who decides.
{% elif kind == "approval_decision" %}
This Molecule message is the decision on an approval that this agent requested.
{% elif kind == "broadcast" %}
This Molecule message is a broadcast to the agents of the organisation.
{% elif kind == "chat_upload_receive" %}
This Molecule message is a file from the user; the message that mentions it follows.
{% else %}
This Molecule message is from the platform.
{% endif %}
{% if not intent == "request" %}
No answer is due.\
{% for tool in available_tools %}{% if tool == "inbox_pop" %} {{ tool }} acknowledges it.{% endif %}{% endfor %}

{% elif kind == "approval_request" and reply_tool == "molecule reply" %}
A decision is due. Only the command `{{ reply_tool }}` gives it: no text is one.
{% elif kind == "approval_request" and reply_tool %}
A decision is due, and only {{ reply_tool }} gives it: no text is one.
{% elif kind == "approval_request" %}
A decision is due, and this agent's card names no tool that gives one; the docs tell how to decide over HTTP.
{% elif reply_tool == "molecule reply" %}
An answer is due. The command `{{ reply_tool }} HANDLE` sends it, with the text on its standard input.
{% elif reply_tool %}
An answer is due; its sender sees only what goes through \
{% if reply_handle %}{% for tool in available_tools %}{% if tool == "reply" %}{{ tool }}{% endif %}{% endfor %}\
{% else %}{{ reply_tool }}{% endif %}.
{% else %}
An answer is due, and this agent's card names no tool that sends one; the docs tell how to answer over HTTP.
{% endif %}
"""

_SILENCE = """\
{% if kind == "approval_request" and reply_tool == "molecule reply" %}
What this program prints (stdout) decides nothing and is not kept.
{% elif reply_tool == "molecule reply" %}
What this program prints (stdout) is \
{% if intent == "request" %}kept as the draft of an answer, which a person sends, or the workspace if it is set so; \
once the command has answered, it is left out.{% else %}not kept.{% endif %}

{% elif intent == "request" %}
STDOUT, who may not be at the keyboard.
{% endif %}
"""

# Tools beside the one that answers. Each has its own line, written only if the agent's card lists the tool.
_TOOLS = """\
{% for tool in available_tools %}
{% if tool == "send_message_to_user" and intent == "request" and not kind == "approval_request" %}
{{ tool }}(message, progress=true): progress of long work.
{% elif tool == "decline" and intent == "request" and not kind == "approval_request" %}
{{ tool }}(handle, reason): instead of an answer.
{% elif tool == "present_options" and kind == "canvas_user" %}
{{ tool }}(question, options): buttons for the user.
{% endif %}
{% endfor %}
{% if reply_tool == "molecule reply" %}
{% if intent == "request" and not kind == "approval_request" %}
`{{ reply_tool }} HANDLE --progress 'TEXT'`: progress of long work.
`molecule decline HANDLE 'REASON'`: instead of an answer.
{% endif %}
`molecule tool --list`: what else it can call.
{% endif %}
"""

# A delegated task reports its progress in another way: the person on the canvas did not request it.
_TO_USER = 'tool == "send_message_to_user"'
_BY_COMMAND = "`{{ reply_tool }} HANDLE --progress 'TEXT'`: progress of long work.\n"
_FULL_TOOLS = _TOOLS.replace(_TO_USER, f'{_TO_USER} and not kind == "delegation"').replace(
    _BY_COMMAND, f'{{% if not kind == "delegation" %}}\n{_BY_COMMAND}{{% endif %}}\n'
)
# For delegated tasks, in the full form only. The id is in the variables of the message, since it is long.
_TASK = """\
{% if kind == "delegation" and reply_tool == "molecule reply" %}
`molecule tool report_progress --json '{"task_id": …, "percent": …}'`: progress.
{% elif kind == "delegation" %}
{% for tool in available_tools %}
{% if tool == "report_progress" %}
{{ tool }}(task_id=delegation_id, current_step=…, percent=…): how far it is.
{% endif %}
{% endfor %}
{% endif %}
"""

_FILES = """\
{% if attachments and reply_tool == "molecule reply" %}
Attachments: "{{ attachments | join('", "') }}"
{% elif attachments %}
Attachments (uris are in the attachments array of this message): "{{ attachments | join('", "') }}"
{% elif kind == "canvas_user" %}
Files come as separate chat_upload_receive messages\
{% if not reply_tool == "molecule reply" %} with an attachments array{% endif %}.
{% endif %}
"""

_MESSAGE = """\
This message: kind={{ kind }}{% if user_id %}, user_id={{ user_id }}{% endif %}\
{% if delegation_id %}, delegation_id={{ delegation_id }}{% endif %}\
{% if arrival_workspace_id %}, for workspace_id={{ arrival_workspace_id }}{% endif %}\
{% if due_at %}, due {{ due_at }}{% endif %}
{% if kind == "approval_request" %}
Its decision: \
{% if reply_tool == "molecule reply" %}`{{ reply_tool }} --json '{"approval_id": …, "revision": …, "action_hash": …, \
"decision": "approve|deny|escalate|more_info", "note": …}'`\
{% elif reply_tool %}{{ reply_tool }}(approval_id=…, revision=…, action_hash=…, \
decision="approve|deny|escalate|more_info", note=…)\
{% else %}over HTTP, see {{ docs_url }}{% endif %}, with the first three as they are in this message.
{% elif intent == "request" %}
Its answer: {% if reply_tool == "molecule reply" %}COMMAND{% else %}CALL{% endif %}

{% endif %}
"""

# How to send the answer: by handle if the agent has that tool, else with the arguments of the usual one.
_CALL = """\
{% if reply_handle %}{% for tool in available_tools %}{% if tool == "reply" %}\
{{ tool }}(handle="{{ reply_handle }}", text=…){% endif %}{% endfor %}\
{% elif reply_tool == "reply_to_workspace" %}\
{{ reply_tool }}({% if arrival_workspace_id %}workspace_id="{{ arrival_workspace_id }}", {% endif %}PEER, text=…)\
{% elif reply_tool == "send_message_to_user" %}{{ reply_tool }}(message=…)\
{% elif reply_tool %}{{ reply_tool }}{% else %}over HTTP, see {{ docs_url }}{% endif %}"""

_COMMAND = "`{{ reply_tool }} {{ reply_handle }}`"

_COMPACT = """\
{% if kind == "approval_request" %}
Molecule: approval_request, decided only through {% if reply_tool == "molecule reply" %}`{{ reply_tool }}`\
{% elif reply_tool %}{{ reply_tool }}(approval_id, revision, action_hash, decision)\
{% else %}HTTP, see {{ docs_url }}{% endif %}.
{% elif intent == "request" %}
Molecule: {% if kind == "canvas_user" %}the user on the canvas{% elif kind == "peer_agent" %}a peer agent\
{% else %}{{ kind }}{% endif %}, answer due\
{% if reply_tool == "molecule reply" %}: COMMAND, text on stdin; what is printed is only its draft.\
{% else %}, seen only through CALL\
{% if arrival_workspace_id and reply_handle %}, as workspace {{ arrival_workspace_id }}{% endif %}; NOT_SEEN is not.\
{% endif %}

{% else %}
Molecule: {{ kind }}, no answer due.\
{% for tool in available_tools %}{% if tool == "inbox_pop" %} {{ tool }} acknowledges it.{% endif %}{% endfor %}
{% endif %}
{% if attachments %}
Attachments: "{{ attachments | join('", "') }}"
{% endif %}
"""

_DELTA = f"""\
Since the last full instructions something has changed.
{_TOOLS}Docs: {{{{ docs_url }}}}
"""
_REMINDER = """\
Reminder: this message was handed over before, and no answer to it has reached its sender.
"""

_EXACT_PEER = 'peer_id="{{ peer_id }}"'
# An id takes as many tokens as everything else together, and the message has it already.
_SHORT_PEER = '{% if kind == "canvas_user" %}peer_id=""{% else %}peer_id=that of the message{% endif %}'


def _parts(stdout: str, not_seen: str) -> TemplateContent:
    call = _CALL.replace("PEER", _EXACT_PEER)
    short = _CALL.replace("PEER", _SHORT_PEER)
    return TemplateContent(
        reply_tool=rules.REPLY_TOOL,
        docs_url=_DOCS_PATH,
        stdout_warning=_STDOUT_WARNING,
        blocks={
            "reminder": _REMINDER,
            "reply": _REPLY,
            "silence": _SILENCE.replace("STDOUT", stdout),
            "tools": _FULL_TOOLS + _TASK,
            "files": _FILES,
            "docs": "Docs: {{ docs_url }}\n",
            "message": _MESSAGE.replace("CALL", call).replace("COMMAND", _COMMAND),
            "compact": _COMPACT.replace("CALL", short).replace("NOT_SEEN", not_seen).replace("COMMAND", _COMMAND),
            "delta": _DELTA,
        },
    )


_BUILT_IN_PARTS = {
    rules.CLAUDE_CODE_TEMPLATE: (
        "claude-code",
        _parts("Text in this session's terminal (stdout) does not reach the sender", "terminal text"),
    ),
    rules.CODEX_TEMPLATE: (
        "codex",
        _parts("The final message of a turn (stdout) does not reach the sender", "a final message"),
    ),
    rules.GENERIC_TEMPLATE: (
        "generic-mcp",
        _parts("Text in this agent's own output (stdout, log) does not reach the sender", "own output"),
    ),
}


def iter_builtin_templates(at: int) -> Iterator[Template]:
    """Yield the templates of this version of Molecule, with this creation time (microseconds)."""
    for id_, (runtime, parts) in _BUILT_IN_PARTS.items():
        yield Template(BUILT_IN_ORG, id_, BUILT_IN_VERSION, runtime, None, parts, None, at, BUILT_IN_AUTHOR)


def active_builtin_version(template: Template) -> ActiveVersion:
    """Return the active version that a built-in template starts with."""
    return ActiveVersion(BUILT_IN_ORG, template.id, template.version, None, 0, template.created_at)


def builtin_catalogue() -> TemplateCatalogue:
    """Return a catalogue with only the built-in templates, for use without a store."""
    catalogue, templates = TemplateCatalogue(), list(iter_builtin_templates(0))
    catalogue.put_versions(templates, map(active_builtin_version, templates))
    return catalogue
