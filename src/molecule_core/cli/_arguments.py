"""Arguments that are not UTF-8: a shell passes any bytes, and a server accepts only UTF-8."""

from collections.abc import Sequence


def encoding_error(args: Sequence[str]) -> str | None:
    """Return an error for the first argument that is not UTF-8, or None. It is not repeated, as it may be a secret."""
    for number, each in enumerate(args, 1):
        try:
            each.encode()
        except UnicodeEncodeError:
            return f"argument {number} is not UTF-8. Set the terminal to UTF-8, or convert the text (iconv -t UTF-8)."
    return None
