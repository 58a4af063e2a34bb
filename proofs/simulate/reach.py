"""Cells of the state tables that no game reaches, and why. Every other one a full run has to reach."""


def left_out() -> set[str]:
    """Their names."""
    return {cell for cells, _ in _LEFT_OUT for cell in cells}


_LEFT_OUT: tuple[tuple[tuple[str, ...], str], ...] = ()
