"""What a command line says about an option or a command that does not exist."""

import pytest
from click.testing import CliRunner

from molecule_core.cli import molecule


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("budget list --unknown", "No such option '--unknown'. Use one of: --database, --state-dir, --server"),
        ("budget --unknown", "Use one of: --help. Commands of `molecule budget`: delete, lease, list, set."),
        ("budget nothing", "No such command 'nothing'. Commands of `molecule budget`: delete, lease, list, set."),
        ("--unknown", "Commands of `molecule`: serve, up,"),
        ("nothing", "No such command 'nothing'. Commands of `molecule`: serve, up,"),
        ("org --hepl", "No such option '--hepl'. Did you mean '--help'?"),
        ("budget lst", "No such command 'lst'. (Did you mean one of: 'list', 'set'?)"),
    ],
)
def test_an_unknown_option_or_command_names_those_that_exist(line: str, said: str) -> None:
    outcome = CliRunner().invoke(molecule, line.split())
    assert outcome.exit_code == 2
    assert said in outcome.output
