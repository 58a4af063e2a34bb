"""What a template may hold and do at most: all its texts together, those it extends, its loops, its words."""

import time

import pytest
from msgspec.structs import replace

from molecule_core.common.errors import InvalidTemplate
from molecule_core.common.limits import Limits
from molecule_core.instructions import builtin_templates
from molecule_core.instructions.language.compiler import ALONE_FACTOR, parse_content
from molecule_core.instructions.model import MessageContext, TemplateContent, Verbosity
from molecule_core.instructions.validation import TemplateValidator
from testing.templates import BOMBS_OF_MANY_TEXTS, LIMITS, catalogue_of, renderer_of, seat, template
from tests.requirements import requirement

WORST = MessageContext(kind="canvas_user", intent="request", peer_role="é" * 500, attachments=("f" * 255,) * 10)
ENOUGH = {"reply": "r", "compact": "c"}
# What checking any template may take, in seconds of CPU; a bomb took minutes.
_PATIENCE = 1.0


@requirement("I11")
@pytest.mark.parametrize("parts", BOMBS_OF_MANY_TEXTS, ids=range(len(BOMBS_OF_MANY_TEXTS)))
def test_many_texts_that_are_too_much_together_are_refused_and_never_spoken(parts: TemplateContent) -> None:
    bomb = template("bomb", parts, extends=None)
    began = time.process_time()
    with pytest.raises(InvalidTemplate):
        TemplateValidator(catalogue_of(), public_url="", limits=LIMITS).validate_template(bomb)
    renderer = renderer_of(bomb)
    tools = (*seat().tools, *(f"tool_{number}" for number in range(64)))
    for facts in (WORST, replace(WORST, attachments=())):
        for form in Verbosity:
            made = renderer.render(replace(seat(), tools=tools), bomb.ref, form, facts)
            assert made is None or len(made.text.encode()) <= LIMITS.instruction_bytes
    assert time.process_time() - began < _PATIENCE


@requirement("I11")
@pytest.mark.parametrize(
    ("limits", "part", "said"),
    [
        (Limits(template_bytes=10), "lines[1]", "larger than the limit of 10 bytes"),
        (Limits(template_nodes=3), "lines[1]", "more than 3 parts"),
    ],
)
def test_the_bounds_count_for_all_texts_of_a_template_together(limits: Limits, part: str, said: str) -> None:
    fits = TemplateContent(blocks=ENOUGH, lines=("abcdefgh",))
    TemplateValidator(catalogue_of(), public_url="", limits=limits).validate_template(template("t", fits, extends=None))
    more = template("t", TemplateContent(blocks=ENOUGH, lines=("abcdefgh", "i")), extends=None)
    with pytest.raises(InvalidTemplate) as refused:
        TemplateValidator(catalogue_of(), public_url="", limits=limits).validate_template(more)
    assert refused.value.details["part"] == part
    assert said in refused.value.details["reason"]


@requirement("I6", "I11")
def test_what_a_template_says_with_those_it_extends_is_bounded_too() -> None:
    limits = Limits(template_bytes=100)
    base = template("base", TemplateContent(blocks=ENOUGH, lines=("b" * 98,)), extends=None)
    middle = template("middle", TemplateContent(lines=("m" * 90,)), extends="base")
    leaf = template("leaf", TemplateContent(lines=("l" * 11,)), extends="middle")
    fits = template("leaf", TemplateContent(lines=("l" * 10,)), extends="middle")
    checks = TemplateValidator(catalogue_of(base, middle), public_url="", limits=limits)
    checks.validate_template(fits)
    with pytest.raises(InvalidTemplate) as refused:
        checks.validate_template(leaf)
    assert refused.value.details["part"] == "extends"
    assert renderer_of(base, middle, leaf, limits=limits).render(seat(), leaf.ref, Verbosity.FULL, WORST) is None


@requirement("I11")
def test_a_loop_goes_through_so_many_parts_and_no_more() -> None:
    loop = template(
        "t",
        TemplateContent(blocks={**ENOUGH, "reply": "{% for f in attachments %}{{ kind }}{% endfor %}"}),
        extends=None,
    )
    renderer = renderer_of(loop, limits=Limits(template_steps=3))
    three, four = (replace(WORST, attachments=("f",) * count) for count in (3, 4))
    assert renderer.render(seat(), loop.ref, Verbosity.FULL, three) is not None
    failures = list[str]()
    renderer.on_failure = lambda _seat, _choice, reason: failures.append(reason)
    assert renderer.render(seat(), loop.ref, Verbosity.FULL, four) is None
    assert failures == ["its loops take more than 3 steps"]


@requirement("I9", "I11")
def test_what_only_a_program_behind_a_bridge_is_told_is_bounded_too() -> None:
    checks = TemplateValidator(catalogue_of(), public_url="", limits=Limits(instruction_bytes=50))
    for length, fits in ((40, True), (60, False)):
        words = '{% if reply_tool == "molecule reply" %}' + "x" * length + "{% endif %}"
        program = template("t", TemplateContent(blocks={**ENOUGH, "reply": words}), extends=None)
        if fits:
            checks.validate_template(program)
            continue
        with pytest.raises(InvalidTemplate) as refused:
            checks.validate_template(program)
        assert "larger than the limit of 50 bytes" in refused.value.details["reason"]


@requirement("I5", "I11")
def test_the_templates_that_come_with_molecule_stay_within_the_bounds() -> None:
    for each in builtin_templates.iter_builtin_templates(0):
        found = parse_content(each.parts, LIMITS, ALONE_FACTOR)
        assert sum(parsed.nodes for _, parsed in found) <= LIMITS.template_nodes
