"""Names of files that others chose: what is left of them is fit to be shown, saved and sent in a header."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_core.common.text import find_hidden_character, sanitize_file_name
from molecule_core.messages.files.attachments import declared_mime_type, image_type, parse_file_uri
from testing.step_counts import examples
from tests.requirements import requirement

MOST = 255
ODD = st.text(
    st.sampled_from('a.b/\\ \x00\n\u202e\u2066\u200b\U000e0041:*?"<>|~%ü字\u05d0\u0301😀\ud800'), max_size=400
)


@requirement("S16")
@pytest.mark.parametrize(
    ("given_name", "kept"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\Desktop\\plan.doc", "plan.doc"),
        ("..", "file"),
        (".", "file"),
        ("", "file"),
        ("///", "file"),
        (".hidden", "hidden"),
        ("a\x00b.txt", "ab.txt"),
        ("a\r\nSet-Cookie: x=1", "a Set-Cookie_ x=1"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("\u2066x\u2069", "x"),
        ("con", "_con"),
        ("NUL.txt", "_NUL.txt"),
        ("com1.tar.gz", "_com1.tar.gz"),
        ("console.txt", "console.txt"),
        ('a"b<c>d|e?f*g:h', "a_b_c_d_e_f_g_h"),
        ("  two   words .txt ", "two words .txt"),
        ("דוח.pdf", "דוח.pdf"),
        ("a" * 400 + ".pdf", "a" * 251 + ".pdf"),
        ("字" * 200 + ".pdf", "字" * 83 + ".pdf"),
        ("a." + "b" * 400, "a." + "b" * 253),
        ("👩\u200d💻.png", "👩\u200d💻.png"),
    ],
)
def test_a_name_is_what_is_left_when_all_that_could_mislead_is_gone(given_name: str, kept: str) -> None:
    assert sanitize_file_name(given_name, MOST) == kept


@requirement("S16")
@given(st.one_of(st.text(max_size=400), ODD, st.text(st.sampled_from("./\\"), max_size=50)))
@example("a" * 250 + ". . . . .")
@example("\u200d")
@examples(300)
def test_whatever_a_name_was_it_becomes_one_that_is_safe_everywhere(given_name: str) -> None:
    kept = sanitize_file_name(given_name, MOST)
    assert 0 < len(kept.encode()) <= MOST
    assert kept == kept.strip(" .")
    assert not set(kept) & set('/\\:*?"<>|')
    assert find_hidden_character(kept) is None
    assert all(unicodedata.category(each) not in {"Cc", "Cs", "Zl", "Zp"} for each in kept)
    assert sanitize_file_name(kept, MOST) == kept


@requirement("S16")
@pytest.mark.parametrize(
    ("claim", "kept"),
    [
        ("text/html", "text/html"),
        ("Application/PDF", "application/pdf"),
        ("text/html\r\nX: y", "application/octet-stream"),
        ("text/html; charset=x", "application/octet-stream"),
        ("", "application/octet-stream"),
        (None, "application/octet-stream"),
        ("a/" + "b" * 100, "application/octet-stream"),
    ],
)
def test_a_type_is_kept_as_a_claim_only_in_the_usual_form(claim: str | None, kept: str) -> None:
    assert declared_mime_type(claim) == kept


ID = "01900000-0000-7000-8000-00000000beef"


@requirement("M35")
@pytest.mark.parametrize(
    "uri",
    [
        None,
        3,
        "",
        "https://files.example/a.pdf",
        f"platform-pending:{ID}/../{ID}",
        f"platform-pending:{ID}/{ID}/x",
        f"/workspaces/{ID}/files/{ID}/preview",
        f"/workspaces/{ID}/files/{ID}?x",
        f"/workspaces/{ID}/files/{ID}\n",
        f"//evil.example/workspaces/{ID}/files/{ID}",
        f"javascript:/workspaces/{ID}/files/{ID}",
    ],
)
def test_what_only_looks_like_a_file_of_ours_is_none(uri: object) -> None:
    assert parse_file_uri(uri) is None


@requirement("S19")
@given(st.binary(max_size=32))
@examples(300)
def test_bytes_are_a_picture_only_with_a_pictures_beginning(head: bytes) -> None:
    kind = image_type(head)
    assert kind is None or head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF"))
