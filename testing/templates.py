"""What tests of templates share: limits, parsing, a renderer without a store, texts that must be refused."""

from molecule_core.common.limits import Limits
from molecule_core.instructions import builtin_templates, rules
from molecule_core.instructions.catalogue import TemplateCatalogue
from molecule_core.instructions.language import parser
from molecule_core.instructions.model import (
    ActiveVersion,
    AgentProfile,
    MessageContext,
    RenderedText,
    Template,
    TemplateContent,
    TemplateVersionRef,
    Verbosity,
)
from molecule_core.instructions.render import Renderer
from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES

LIMITS = Limits()
ID = "0197f3a2-7c1e-7b10-8c3a-2f6d5a9b1e77"
HANDLE = "m17-k3f9q"


def parse(text: str) -> parser.ParsedTemplate:
    """A text with the usual limits."""
    return parser.parse(text, max_bytes=LIMITS.template_bytes, max_nodes=LIMITS.template_nodes)


def seat(runtime: str = "claude-code", tools: tuple[str, ...] = ALL_TOOL_NAMES, *, known: bool = True) -> AgentProfile:
    """An agent."""
    return AgentProfile(ID, "org", runtime, None, tools, known)


def template(
    id_: str, parts: TemplateContent, *, extends: str | None = "", version: int = 1, org_id: str = "org"
) -> Template:
    """A version."""
    return Template(org_id, id_, version, "", extends, parts, None, 0, "person:1")


def catalogue_of(*templates: Template) -> TemplateCatalogue:
    """The three that come with Molecule, and these, in force."""
    catalogue = builtin_templates.builtin_catalogue()
    catalogue.put_versions(
        templates, [ActiveVersion(each.org_id, each.id, each.version, None, 0, 0) for each in templates]
    )
    return catalogue


def renderer_of(*templates: Template, limits: Limits = LIMITS) -> Renderer:
    """Renders with these and the three."""
    return Renderer(catalogue_of(*templates), public_url="https://molecule.example", limits=limits)


def said(text: str, facts: MessageContext, at: AgentProfile | None = None) -> str:
    """What a text alone says of a message."""
    alone = template("alone", TemplateContent(blocks={"reply": text, "compact": "c"}), extends=None)
    made = rendered(renderer_of(alone), at or seat(), facts, choice=alone.ref)
    return made.text


def rendered(
    renderer: Renderer,
    at: AgentProfile,
    facts: MessageContext,
    form: Verbosity = Verbosity.FULL,
    *,
    choice: TemplateVersionRef | None = None,
) -> RenderedText:
    """What an agent is told with a message."""
    made = renderer.render(at, choice or renderer.choose_version(at, "activity"), form, facts)
    assert made is not None
    return made


# -- texts that are refused: known escapes of sandboxes, known bombs, and what is merely not of the language -----------

ESCAPES = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ kind.__class__ }}",
    "{{ kind['__class__'] }}",
    "{{ kind|attr('__class__') }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'] }}",
    "{{ joiner }}",
    "{{ namespace() }}",
    "{{ config }}",
    "{{ request.application }}",
    "{{ ().__class__ }}",
    "{{ [].append(1) }}",
    "{{ dict(a=1) }}",
    "{{ range.__self__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ '%s'|format(kind) }}",
    "{{ '{0.__class__}'.format(kind) }}",
    "{% import 'os' as os %}",
    "{% from 'os' import popen %}",
    "{% include '/etc/passwd' %}",
    "{% extends 'base' %}",
    "{% set x = 1 %}",
    "{% macro m() %}{% endmacro %}",
    "{% call m() %}{% endcall %}",
    "{% block reply %}{% endblock %}",
    "{% filter upper %}{% endfilter %}",
    "{% do x %}",
    "{% with x = 1 %}{% endwith %}",
    "{% autoescape false %}{% endautoescape %}",
    "{% raw %}{{ kind }}{% endraw %}",
    "{# a comment #}",
    "{%- if kind -%}{%- endif -%}",
)
BOMBS = (
    "{{ 'a' * 10000000000 }}",
    "{{ 9**9**9 }}",
    "{{ range(1000000000) | list }}",
    "{% for i in range(1000000000) %}x{% endfor %}",
    "{% for a in available_tools %}{% for b in attachments %}x{% endfor %}{% endfor %}",
    "{% for a in kind %}x{% endfor %}",
    "{{ kind | center(1000000000) }}",
    "{{ kind | indent(1000000000) }}",
    "{{ available_tools | join('x' * 1000000000) }}",
    "{{ available_tools | join(available_tools) }}",
    "{{ available_tools | join(', ') | join('x') }}",
    "{{ 'x' ~ 'y' }}",
    "{{ 1 + 1 }}",
    "{{ -1 }}",
    "{% if " + "not " * 2000 + "kind %}x{% endif %}",
    "{% if kind %}" * 300 + "x" + "{% endif %}" * 300,
    "{% if " + "(" * 1000 + "kind" + ")" * 1000 + " %}x{% endif %}",
    "{{ kind }}" * (LIMITS.template_nodes + 1),
    "x" * (LIMITS.template_bytes + 1),
    "é" * (LIMITS.template_bytes // 2 + 1),
)
_MANY = tuple(f"tool_{number}" for number in range(64))
_SILENT_LOOP = "{% for t in available_tools %}" + "{% if not t %}x{% endif %}" * 98 + "{% endfor %}"
_WIDE_LOOP = "{% for t in available_tools %}{{ kind }}" + "{{ peer_role }}" * 100 + "{% endfor %}"
BOMBS_OF_MANY_TEXTS = (
    TemplateContent(
        blocks=dict.fromkeys(rules.BLOCKS, "x" * LIMITS.template_bytes), lines=("x" * LIMITS.template_bytes,) * 50
    ),
    TemplateContent(blocks={"reply": "r", "compact": "c"}, lines=("{{ kind }}" * (LIMITS.template_nodes - 100),) * 50),
    TemplateContent(blocks={"reply": "r", "compact": "c"}, lines=("",) * 49 + ("é" * (LIMITS.template_bytes // 2),)),
    TemplateContent(blocks={"reply": "r", "compact": "c"}, lines=(_SILENT_LOOP,), tools=_MANY),
    TemplateContent(
        blocks={"reply": "r", "compact": "c"},
        lines=("{% if kind == 'none' %}" + "x" * (LIMITS.template_bytes // 3) + "{% endif %}",) * 3,
    ),
    TemplateContent(blocks={"reply": _WIDE_LOOP, "compact": "c"}),
    TemplateContent(blocks={"reply": "{{ peer_role }}" * 30, "compact": "c"}),
    TemplateContent(blocks={"reply": '{{ attachments | join("' + "x" * 8000 + '") }}', "compact": "c"}),
    TemplateContent(blocks={"reply": "{% for t in available_tools %}" + "y" * 8000 + "{% endfor %}", "compact": "c"}),
)
"""Templates each text of which is of the language, and which are too much all the same."""
MISTAKES = (
    "{{ unknown }}",
    "{{ }}",
    "{{ kind",
    "{% if kind %}",
    "{% if kind %}x{% endfor %}",
    "{% endif %}",
    "{% else %}",
    "{% for tool in available_tools %}",
    "{% for kind in available_tools %}{% endfor %}",
    "{% for tool in available_tools %}{% endfor %}{{ tool }}",
    "{% if kind %}a{% else %}b{% else %}c{% endif %}",
    "{% if kind %}a{% else %}b{% elif kind %}c{% endif %}",
    "{% if %}x{% endif %}",
    "{% if kind = 'a' %}x{% endif %}",
    "{% if kind != 'a' %}x{% endif %}",
    "{% if kind < 'a' %}x{% endif %}",
    "{% if kind in available_tools %}x{% endif %}",
    "{% if available_tools == 'a' %}x{% endif %}",
    "{% if 'a' %}x{% endif %}",
    "{% if kind == %}x{% endif %}",
    "{% if kind and %}x{% endif %}",
    "{{ available_tools }}",
    "{{ kind | join(', ') }}",
    "{{ kind | upper }}",
    "{{ 'text' }}",
    "{{ kind kind }}",
    '{{ available_tools | join("a',
    "nul \x00 in it",
    "a bell \x07",
    "a line separator \u2028",
    "half a pair \ud83d",
)
