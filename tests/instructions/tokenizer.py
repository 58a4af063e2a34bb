"""A real tokenizer, for tests that count what instructions cost. It brings its tables along and loads nothing."""

import warnings
from functools import cache

with warnings.catch_warnings():  # it reads its tables in a way that this Python calls old
    warnings.simplefilter("ignore", DeprecationWarning)
    import bpe_openai  # type: ignore[import-untyped]

    _O200K = bpe_openai.get_encoding("o200k_base")


@cache
def tokens(text: str) -> int:
    """As a model of today counts."""
    return len(_O200K.encode(text))
