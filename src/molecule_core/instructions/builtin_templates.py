"""The three built-in templates. A changed text needs a new `BUILT_IN_VERSION`: stored versions never change.

A program behind a bridge has no tools: its card says so, and `reply_tool` is then the command that answers. Its output
becomes the answer; the output of other agents is lost. The HTTP response of an agent that messages are pushed to is its
answer: `reply_tool` is then "response".

Each sentence gives one instruction or one fact, with exact tool and argument names. The texts name only tools that the
agent has, and nothing that a sender can choose (name, role), since such words could pass for instructions."""

from collections.abc import Iterator

from molecule_core.instructions import rules
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.model import BUILT_IN_ORG, ActiveVersion, Template, TemplateContent

BUILT_IN_VERSION = 9
"""Version of all three templates."""
BUILT_IN_AUTHOR = "molecule"
_DOCS_PATH = "/agent-docs/replies"
_STDOUT_WARNING = "The sender may not be at the terminal and sees only what you send with the reply tool."

_REPLY = """\
{% if kind == "canvas_user" %}
This Molecule message is from the user on the canvas.
{% elif kind == "peer_agent" %}
This Molecule message is from a peer agent of your organisation, not from the user.
{% elif kind == "delegation" %}
This Molecule message is a task that a peer agent delegates to you; your answer is the result.\
{% if restricted %} It lists what it may use. Use nothing else: answer with what is missing.{% endif %}

{% elif kind == "delegation_result" %}
This Molecule message is the result of a task that you delegated.\
{% if verified == "no" %} It is answered, not verified.{% endif %}

{% elif kind == "approval_request" %}
This Molecule message requests your decision on an approval.
{% elif kind == "approval_decision" and intent == "request" %}
This Molecule message is a question about an approval that you requested. Your answer goes to the approver.
{% elif kind == "approval_decision" %}
This Molecule message is the decision on an approval that you requested.
{% elif kind == "broadcast" %}
This Molecule message is a broadcast of an agent to all agents of your organisation, not from the user or the platform.
{% elif kind == "chat_upload_receive" %}
{% if peer_id %}
This Molecule message is a file from a peer agent of your organisation, not from the user.
{% else %}
This Molecule message is a file from the user. The message about it follows.
{% endif %}
{% else %}
This Molecule message is from the platform.
{% endif %}
{% if not intent == "request" %}
It needs no answer.\
{% for tool in available_tools %}{% if tool == "inbox_pop" %} Use {{ tool }} to acknowledge it.{% endif %}{% endfor %}

{% elif kind == "approval_request" and reply_tool == "molecule reply" %}
Decide with the command `{{ reply_tool }}`. A text answer does not count as a decision.
{% elif kind == "approval_request" and reply_tool %}
Decide with {{ reply_tool }}. A text answer does not count as a decision.
{% elif kind == "approval_request" %}
It needs your decision, but your agent card lists no tool to decide with. The docs describe how to decide over HTTP.
{% elif reply_tool == "molecule reply" %}
Answer with the command `{{ reply_tool }} HANDLE` and the text on its standard input.
{% elif reply_tool == "response" %}
Your HTTP response is the answer: the sender sees its text. Do not also send it with a tool.
{% elif reply_tool %}
It needs an answer. The sender sees only what you send with {{ reply_tool }}.
{% else %}
It needs an answer, but your agent card lists no tool to answer with. The docs describe how to answer over HTTP.
{% endif %}
"""

_SILENCE = """\
{% if kind == "approval_request" and reply_tool == "molecule reply" %}
What you print (stdout) does not count as a decision and is not kept.
{% elif reply_tool == "molecule reply" %}
What you print (stdout) is \
{% if intent == "request" %}sent as your answer when you end, unless you answer with the command.\
{% else %}not kept.{% endif %}

{% elif intent == "request" and not reply_tool == "response" %}
STDOUT, who may not be at the terminal.
{% endif %}
"""

# Tools beside the one that answers. Each has its own line, written only if the agent's card lists the tool.
_TOOLS = """\
{% for tool in available_tools %}
{% if tool == "send_message_to_user" and intent == "request" and not kind == "approval_request" %}
{{ tool }}(message, progress=true): report progress of long work.
{% elif tool == "decline" and intent == "request" and not kind == "approval_request" %}
{{ tool }}(handle, reason): refuse to answer.
{% elif tool == "present_options" and kind == "canvas_user" %}
{{ tool }}(question, options): show the user buttons.
{% endif %}
{% endfor %}
{% if reply_tool == "molecule reply" %}
{% if intent == "request" and not kind == "approval_request" %}
`{{ reply_tool }} HANDLE --progress 'TEXT'`: report progress of long work.
`molecule decline HANDLE 'REASON'`: refuse to answer.
{% endif %}
`molecule tool --list`: list the other tools.
{% endif %}
"""

# A delegated task reports its progress in another way: the person on the canvas did not request it.
_TO_USER = 'tool == "send_message_to_user"'
_BY_COMMAND = "`{{ reply_tool }} HANDLE --progress 'TEXT'`: report progress of long work.\n"
_FULL_TOOLS = _TOOLS.replace(_TO_USER, f'{_TO_USER} and not kind == "delegation"').replace(
    _BY_COMMAND, f'{{% if not kind == "delegation" %}}\n{_BY_COMMAND}{{% endif %}}\n'
)
# For delegated tasks, in the full form only. The id is in the variables of the message, since it is long.
_TASK = """\
{% if kind == "delegation" and reply_tool == "molecule reply" %}
`molecule tool report_progress --json '{"task_id": …, "percent": …}'`: report progress.
{% elif kind == "delegation" %}
{% for tool in available_tools %}
{% if tool == "report_progress" %}
{{ tool }}(task_id=delegation_id, current_step=…, percent=…): report progress.
{% endif %}
{% endfor %}
{% endif %}
"""

_FILES = """\
{% if attachments and reply_tool == "molecule reply" %}
Attachments: "{{ attachments | join('", "') }}"
{% elif attachments %}
Attachments (their URIs are in the attachments array of this message\
{% for tool in available_tools %}{% if tool == "read_file" %}; Molecule's {{ tool }}(uri=…) reads one{% endif %}\
{% endfor %}): "{{ attachments | join('", "') }}"
{% elif kind == "canvas_user" %}
Files arrive as separate chat_upload_receive messages\
{% if not reply_tool == "molecule reply" %} with an attachments array{% endif %}.
{% endif %}
"""

_MESSAGE = """\
This message: kind={{ kind }}{% if user_id %}, user_id={{ user_id }}{% endif %}\
{% if delegation_id %}, delegation_id={{ delegation_id }}{% endif %}\
{% if arrival_workspace_id %}, for workspace_id={{ arrival_workspace_id }}{% endif %}\
{% if due_at %}, due {{ due_at }}{% endif %}
{% if kind == "approval_request" %}
Decide with: \
{% if reply_tool == "molecule reply" %}`{{ reply_tool }} --json '{"approval_id": …, "revision": …, "action_hash": …, \
"decision": "approve|deny|escalate|more_info", "note": …}'`\
{% elif reply_tool %}{{ reply_tool }}(approval_id=…, revision=…, action_hash=…, \
decision="approve|deny|escalate|more_info", note=…)\
{% else %}over HTTP, see {{ docs_url }}{% endif %}. Copy the first three values from this message.
{% elif intent == "request" %}
Answer with: {% if reply_tool == "molecule reply" %}COMMAND{% else %}CALL{% endif %}

{% endif %}
"""

# How to send the answer. Each call names the message, since its sender may have sent several.
_CALL = """\
{% if reply_tool == "response" %}your HTTP response\
{% for tool in available_tools %}{% if tool == "reply" %}. To answer later, respond without text, then use \
{{ tool }}(handle="{{ message_handle }}", text=…){% endif %}{% endfor %}\
{% elif reply_tool == "reply" %}{{ reply_tool }}(handle="{{ message_handle }}", text=…)\
{% elif reply_tool == "reply_to_workspace" %}\
{{ reply_tool }}({% if arrival_workspace_id %}workspace_id="{{ arrival_workspace_id }}", {% endif %}\
{% if message_handle %}reply_handle="{{ message_handle }}"{% else %}peer_id="{{ peer_id }}"{% endif %}, text=…)\
{% elif reply_tool == "send_message_to_user" %}\
{{ reply_tool }}({% if message_handle %}reply_handle="{{ message_handle }}", {% endif %}message=…)\
{% elif reply_tool %}{{ reply_tool }}{% else %}over HTTP, see {{ docs_url }}{% endif %}"""

_COMMAND = "`{{ reply_tool }} {{ reply_handle }}`"

_COMPACT = """\
{% if kind == "approval_request" %}
Molecule: approval_request. Decide only with {% if reply_tool == "molecule reply" %}`{{ reply_tool }}`\
{% elif reply_tool %}{{ reply_tool }}(approval_id, revision, action_hash, decision)\
{% else %}HTTP, see {{ docs_url }}{% endif %}.
{% elif intent == "request" %}
Molecule: {% if kind == "canvas_user" %}message from the user{% elif kind == "peer_agent" %}message from a peer agent\
{% elif kind == "delegation" %}task from a peer agent{% if restricted %}, which may use only what it lists{% endif %}\
{% elif kind == "approval_decision" %}question about your approval{% else %}{{ kind }}{% endif %}. \
{% if reply_tool == "molecule reply" %}Print the answer, or answer with COMMAND, text on stdin.\
{% elif reply_tool == "response" %}Your HTTP response is the answer. Do not also send it with a tool.\
{% else %}Answer with CALL\
{% if arrival_workspace_id and reply_tool == "reply" %} as workspace {{ arrival_workspace_id }}{% endif %}. \
NOT_SEEN is not sent.\
{% endif %}

{% else %}
Molecule: {% if kind == "chat_upload_receive" and peer_id %}file from a peer agent, not from the user\
{% elif kind == "chat_upload_receive" %}file from the user{% else %}{{ kind }}{% endif %}\
{% if verified == "no" %}, answered, not verified{% endif %}, no answer needed.\
{% for tool in available_tools %}{% if tool == "inbox_pop" %} Use {{ tool }} to acknowledge it.{% endif %}{% endfor %}
{% endif %}
{% if attachments %}
Attachments: "{{ attachments | join('", "') }}"
{% endif %}
"""

_DELTA = f"""\
The instructions have changed since the last full ones:
{_TOOLS}Docs: {{{{ docs_url }}}}
"""
_REMINDER = """\
Reminder: this message was delivered before, and its sender has received no answer.
"""


def _parts(stdout: str, not_seen: str) -> TemplateContent:
    return TemplateContent(
        reply_tool=rules.REPLY_BY_HANDLE_TOOL,
        docs_url=_DOCS_PATH,
        stdout_warning=_STDOUT_WARNING,
        blocks={
            "reminder": _REMINDER,
            "reply": _REPLY,
            "silence": _SILENCE.replace("STDOUT", stdout),
            "tools": _FULL_TOOLS + _TASK,
            "files": _FILES,
            "docs": "Docs: {{ docs_url }}\n",
            "message": _MESSAGE.replace("CALL", _CALL).replace("COMMAND", _COMMAND),
            "compact": _COMPACT.replace("CALL", _CALL).replace("NOT_SEEN", not_seen).replace("COMMAND", _COMMAND),
            "delta": _DELTA,
        },
    )


_BUILT_IN_PARTS = {
    rules.CLAUDE_CODE_TEMPLATE: (
        "claude-code",
        _parts("Text in your terminal (stdout) does not reach the sender", "Terminal text"),
    ),
    rules.CODEX_TEMPLATE: (
        "codex",
        _parts("The final message of your turn (stdout) does not reach the sender", "A final message"),
    ),
    rules.GENERIC_TEMPLATE: (
        "generic-mcp",
        _parts("Text in your own output (stdout, log) does not reach the sender", "Other output"),
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
