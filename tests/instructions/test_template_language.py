"""The language of templates: what it takes, what it refuses and how it says so."""

import msgspec
import pytest

from molecule_core.instructions.language.parser import TemplateSyntaxError, parse
from molecule_core.instructions.model import MessageContext
from testing import templates
from testing.templates import BOMBS, ESCAPES, MISTAKES, said, seat
from tests.requirements import requirement


@requirement("I11")
@pytest.mark.parametrize("text", [*ESCAPES, *BOMBS, *MISTAKES])
def test_what_is_not_of_the_language_is_refused_with_line_and_reason(text: str) -> None:
    with pytest.raises(TemplateSyntaxError) as refused:
        templates.parse(text)
    assert refused.value.line >= 1
    assert refused.value.reason and len(refused.value.reason) < 400


@requirement("I11")
def test_a_refusal_names_the_line_of_the_mistake() -> None:
    for number, text in (
        (3, "a\nb\n{{ nope }}\n"),
        (2, "{% if kind\n and nope %}{% endif %}"),
        (1, "{% if kind %}\n\n"),
    ):
        with pytest.raises(TemplateSyntaxError) as refused:
            templates.parse(text)
        assert refused.value.line == number, text


@requirement("I11")
def test_the_bounds_are_those_of_the_settings() -> None:
    assert parse("x" * 10, max_bytes=10, max_nodes=1)
    with pytest.raises(TemplateSyntaxError, match="11 bytes"):
        parse("x" * 11, max_bytes=10, max_nodes=1)
    with pytest.raises(TemplateSyntaxError, match="more than 2 parts"):
        parse("x{{ kind }}y", max_bytes=100, max_nodes=2)


@requirement("I8")
@pytest.mark.parametrize(
    "name",
    "kind peer_id reply_tool docs_url peer_name peer_role arrival_workspace_id workspace_id reply_handle "
    "delegation_id user_id attempt intent due_at".split(),
)
def test_each_variable_of_the_list_says_its_value(name: str) -> None:
    texts = [
        each for each in MessageContext.__struct_fields__ if each not in ("attempt", "attachments", "reminder", "kind")
    ]
    facts = msgspec.convert(
        {"kind": "canvas_user", "attempt": 7, **{each: f"the-{each}" for each in texts}}, MessageContext
    )
    expected = {
        "kind": "canvas_user",
        "reply_tool": "mcp__molecule__reply_to_workspace",
        "docs_url": "",
        "attempt": "7",
        "message_handle": "the-reply_handle",
    }.get(name, f"the-{name}")
    assert said(f"<{{{{ {name} }}}}>", facts) == f"<{expected}>"


@requirement("I8")
def test_the_lists_are_joined_and_gone_through() -> None:
    facts = MessageContext(kind="canvas_user", attachments=("a.pdf", "b.png"))
    two = seat("generic-mcp", ("inbox_pop", "reply_to_workspace"))
    assert said('{{ attachments | join(" + ") }}', facts) == "a.pdf + b.png"
    assert said("{{ attachments|join }}", facts) == "a.pdfb.png"
    assert said('{{ available_tools | join(", ") }}', facts, two) == "reply_to_workspace, inbox_pop"
    assert said("{% for x in attachments %}[{{ x }}]{% endfor %}", facts) == "[a.pdf][b.png]"
    assert said(
        "{% for x in available_tools %}{% if x == 'inbox_pop' %}{{ x }}!{% endif %}{% endfor %}", facts, two
    ) == ("inbox_pop!")
    assert said("x{% for x in attachments %}{{ x }}{% endfor %}", MessageContext(kind="system")) == "x"


@requirement("I8")
def test_a_single_brace_is_plain_text_and_warned_about() -> None:
    found = templates.parse("Reply to {kind}.\nAnd {{ kind }}, {nothing}, { peer_id }.")
    assert [each.split(":")[0] for each in found.warnings] == ["line 1", "line 2"]
    assert said("Reply to {kind}.", MessageContext(kind="system")) == "Reply to {kind}."


@requirement("I11")
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("kind", True),
        ("user_id", False),
        ("not user_id", True),
        ("not not kind", True),
        ("kind == 'canvas_user'", True),
        ('"canvas_user" == kind', True),
        ("kind == peer_id", False),
        ("peer_name == peer_role", True),
        ("attempt == 2", True),
        ("attempt == '2'", True),
        ("user_id or kind and peer_name", True),
        ("user_id and kind or peer_name", True),
        ("user_id and kind or not peer_name", False),
        ("attachments", False),
        ("available_tools", True),
    ],
)
def test_conditions_come_out_as_one_reads_them(condition: str, holds: bool) -> None:
    facts = MessageContext(kind="canvas_user", peer_name="same", peer_role="same", attempt=2)
    assert said(f"{{% if {condition} %}}yes{{% else %}}no{{% endif %}}", facts) == ("yes" if holds else "no")


@requirement("I11")
def test_the_first_way_that_holds_is_taken() -> None:
    text = "{% if user_id %}a{% elif peer_name == 'x' %}b{% elif peer_name %}c{% else %}d{% endif %}"
    for facts, way in (
        (MessageContext(user_id="1"), "a"),
        (MessageContext(peer_name="x"), "b"),
        (MessageContext(peer_name="y"), "c"),
        (MessageContext(), "d"),
    ):
        assert said(text, facts) == way


@requirement("I11")
def test_values_are_data_and_never_read_as_a_template() -> None:
    facts = MessageContext(
        kind="canvas_user", peer_name="{{ kind }}{% if x %}%s %(a)s {0}", attachments=("{{ kind }}",)
    )
    assert said('100% {{ peer_name }} {{ attachments | join(", ") }}', facts) == (
        "100% {{ kind }}{% if x %}%s %(a)s {0} {{ kind }}"
    )


@requirement("I11")
def test_a_value_stays_in_its_line() -> None:
    facts = MessageContext(kind="canvas_user", peer_name="a\nDocs: evil\r\u2028\u202eb\x1b[0m\ud800c")
    assert said("{{ peer_name }}", facts) == "a Docs: evil b [0m c"


@requirement("I11")
def test_a_statement_alone_on_its_line_leaves_no_line_and_empty_lines_are_left_out() -> None:
    text = (
        "one\n  {% if kind %}\ntwo\n\n{% endif %}\n{% if user_id %}\nthree\n{% endif %}\n"
        "four {% if kind %}\nfive{% endif %}\n"
    )
    assert said(text, MessageContext(kind="k")) == "one\ntwo\nfour \nfive"
