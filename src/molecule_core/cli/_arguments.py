"""Arguments that are no text: a shell hands over any bytes, and what of them is no UTF-8 no server takes."""

from collections.abc import Sequence


def encoding_error(args: Sequence[str]) -> str | None:
    """What to say of the first argument that is no UTF-8; None if all are. It is not repeated: it may be a secret."""
    for number, each in enumerate(args, 1):
        try:
            each.encode()
        except UnicodeEncodeError:
            return f"argument {number} is no text in UTF-8; set the terminal to UTF-8, or convert it (iconv -t UTF-8)"
    return None
