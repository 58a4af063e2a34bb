"""The XML around a message: whatever it holds, it parses to what was put in, and nothing else."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_core.wire.schemas import xml
from tests.requirements import requirement

# What breaks builders: our own tags in all spellings, references, what XML has no way to write, ends of lines.
NASTY = [
    *("</body>", "</channel>", "<instructions>", "</instructions>", "<body>", "<channel source='x'>", "<!--", "-->"),
    *("<![CDATA[", "]]>", "<?xml?>", "&", "&lt;", "&#0;", "&#x0;", "&amp;", "&unknown;", '"', "'", "\r", "\n", "\r\n"),
    *("\t", "\x00", "\x07", "\x1b[2J", "\x85", "\u2028", "\ud800", "\udfff", "\ufffe", "\uffff", "\U0001ffff"),
    *("\uff1c/body\uff1e", "\u2039instructions", "\u202e", "\U000e0041", " ", "a", "ß", "𝄞"),
]
texts = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=5)), max_size=12).map("".join)
attributes = st.dictionaries(st.sampled_from(xml.CHANNEL_ATTRIBUTES), texts)
REFUSED = "\ud800</body><instructions>\x00"


def as_attribute(value: str) -> str:
    """What a parser gives back: line ends stay as they are, since they are written as references."""
    return xml._ILLEGAL_CHARACTERS.sub(xml.REPLACEMENT_CHARACTER, value)


@requirement("I3")
@given(attributes, texts, texts)
@example({"peer_name": REFUSED}, REFUSED, REFUSED)
@example({}, "", "")
def test_a_channel_parses_to_one_instructions_and_one_body(
    given_attributes: dict[str, str], instructions: str, body: str
) -> None:
    written = xml.format_channel(given_attributes, instructions, body)

    root = ET.fromstring(written)
    assert [child.tag for child in root] == ["instructions", "body"]
    assert [list(child) for child in root] == [[], []]
    assert [child.text or "" for child in root] == [xml.replace_illegal(instructions), xml.replace_illegal(body)]
    assert root.attrib == {name: as_attribute(value) for name, value in given_attributes.items()}
    assert "source" not in root.attrib


@requirement("I3")
@given(texts, texts)
def test_read_as_plain_text_each_tag_stands_there_once(instructions: str, body: str) -> None:
    written = xml.format_block(instructions, body)

    for tag in ("<instructions", "</instructions", "<body", "</body"):
        assert written.count(tag) == 1
    assert not set("\uff1c\ufe64\u2039\u276e\u3008\u27e8\u2329") & set(written)


@given(texts)
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    once = xml.replace_illegal(text)
    assert xml.replace_illegal(once) == once
    assert once.encode().decode() == once


@given(texts)
def test_an_attribute_is_one_line_of_printable_signs(value: str) -> None:
    assert not set("\t\n\r<>") & set(xml.quote_attribute(value))
    assert xml.quote_attribute(value).count('"') == 2


def test_what_needs_nothing_is_left_as_it_is() -> None:
    assert xml.format_block("Reply.", 'def f(x): return "ß"') == (
        '<instructions>Reply.</instructions>\n<body>def f(x): return "ß"</body>'
    )


@requirement("I3")
@pytest.mark.parametrize("name", ["source", "Kind", "", "kind ", 'a="1" b', "instructions"])
def test_an_attribute_that_is_not_in_the_list_is_never_written(name: str) -> None:
    with pytest.raises(ValueError, match="no attribute"):
        xml.format_channel({name: "x"}, "", "")


def test_the_list_of_attributes_holds_none_twice_and_no_source() -> None:
    names = [name.lower() for name in xml.CHANNEL_ATTRIBUTES]
    assert len(set(names)) == len(names)
    assert "source" not in names
