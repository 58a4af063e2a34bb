"""The version as a constant, because reading it from the installed package would delay the start of an agent.

hatch_build.py writes it into `_version.py` with each build, from the git tag. A test compares it with the package.
"""

__all__ = ["VERSION"]

try:
    from molecule_core.common._version import VERSION
except ImportError:
    VERSION = "0.1.0.dev0"  # sources that were never built; pyproject.toml has the same as `fallback_version`
