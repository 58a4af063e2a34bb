"""Optional packages, and how to install them. Molecule is on no package index, so its bare name installs nothing."""


def install_advice(extra: str) -> str:
    """Return the sentence that says how to install an extra."""
    return f"In a clone, run pip install '.[{extra}]'; with a wheel, run pip install 'PATH_OF_THE_WHEEL[{extra}]'."
