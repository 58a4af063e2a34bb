"""Texts without content are recognised, in many languages; texts with content never are."""

# ruff: noqa: RUF001

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.messages.chains.small_talk import is_small_talk
from tests.requirements import requirement

EMPTY = [
    "thanks", "Thank you!", "You're welcome.", "you’re welcome", "OK", "ok 👍", "👍👍", "🎉", "...", "", "  ",
    "Thanks so much! You too.", "np, anytime!", "No problem 😊", "Thank you, thank you, thank you!",
    "Danke schön!", "Gern geschehen.", "Kein Problem, alles klar 👍", "Merci beaucoup !", "De rien.", "Je t'en prie",
    "¡Muchas gracias!", "De nada", "Obrigado!", "Por nada", "Grazie mille", "Prego", "Dank je wel!", "Graag gedaan",
    "Спасибо!", "Пожалуйста", "Не за что", "谢谢!", "不客气", "好的、谢谢", "ありがとうございます。",
    "どういたしまして",
    "감사합니다", "천만에요", "Dziękuję bardzo", "Teşekkür ederim", "Rica ederim", "شكرا", "عفوا", "धन्यवाद",
    "tack så mycket", "THANKS!!!", "ｔｈａｎｋｓ", "1️⃣"[1:],
]  # fmt: skip
FULL = [
    "thanks, the build is red", "ok 7", "yes, deploy", "no", "Danke, aber der Test fehlt", "谢谢,明天见面",
    "thank you for the report, I will read it by five", "42", "ok?? why", "merci pour le rapport", "thanks " * 40,
    "good morning report", "https://example.org", "spasibo", "done with step two",
]  # fmt: skip


@requirement("M30")
@pytest.mark.parametrize("text", EMPTY)
def test_a_text_without_content_is_recognised(text: str) -> None:
    assert is_small_talk(text)


@requirement("M30")
@pytest.mark.parametrize("text", FULL)
def test_a_text_with_content_is_not(text: str) -> None:
    assert not is_small_talk(text)


@given(st.text(max_size=300))
def test_any_text_is_judged_and_a_number_or_a_name_is_content(text: str) -> None:
    assert not is_small_talk(f"{text} Xq7")
    assert is_small_talk(text) in (True, False)


@given(st.lists(st.sampled_from(["thanks", "you're welcome", "ok", "👍", "谢谢", "de rien"]), max_size=8))
def test_phrases_in_any_order_are_still_without_content(phrases: list[str]) -> None:
    assert is_small_talk(" ".join(phrases))
