"""The product with one named line replaced: the negative control of a proof runs in the same harness as the proof."""

import inspect
from types import ModuleType


def changed(module: ModuleType, *replacements: tuple[str, str]) -> ModuleType:
    """A module of the product, loaded anew with some of its text replaced; each piece must stand in it once."""
    source = inspect.getsource(module)
    for old, new in replacements:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} stands {source.count(old)} times in {module.__name__}")
        source = source.replace(old, new)
    copy = ModuleType(module.__name__)
    copy.__dict__["__file__"] = module.__file__
    exec(compile(source, f"<{module.__name__}, changed>", "exec"), copy.__dict__)  # noqa: S102 (our own source)
    return copy
