"""The checker of the pages finds what is wrong with a page, and nothing else."""

from pathlib import Path

import pytest

from tests.system.docs.blocks import PageError, commands_of, read_blocks, read_spans
from tests.system.docs.command_lines import find_faults, split_commands
from tests.system.docs.printed_output import find_difference
from tests.system.docs.reader import Scenario, run_page


def write_page(root: Path, text: str) -> Path:
    page = root / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("molecule nothing", "molecule has no command 'nothing'"),
        ("molecule up --nothing", "molecule up: No such option '--nothing'."),
        ("molecule org apply a.toml b.toml", "molecule org apply: one argument too many: b.toml"),
        ("molecule org apply", "molecule org apply: FILE is missing"),
        ("molecule up --port", "molecule up: Option '--port' requires an argument."),
        ("echo $(molecule nothing)", "molecule has no command 'nothing'"),
        ('echo "$(molecule nothing)" | cat', "molecule has no command 'nothing'"),
        ("A=1 sudo -u molecule /opt/bin/molecule nothing &", "molecule has no command 'nothing'"),
        ("true && \\\n  molecule nothing >file", "molecule has no command 'nothing'"),
        ("cp deploy/nothing /etc", "deploy/nothing: no such file"),
        ("scripts/nothing", "scripts/nothing: no such file"),
        ("scripts/setup --nothing", "scripts/setup does not know --nothing"),
        ("scripts/up --nothing", "molecule up: No such option '--nothing'."),
    ],
)
def test_a_wrong_command_is_the_one_finding(text: str, fault: str) -> None:
    assert find_faults(text) == [fault]


def test_a_text_that_bash_cannot_read_is_a_finding() -> None:
    [fault] = find_faults("if true; then echo 'open")
    assert "unexpected EOF" in fault


@pytest.mark.parametrize(
    "text",
    [
        "molecule up --port 8081   # molecule nothing",
        "molecule org apply FILE --tokens-dir tokens",
        "cat >file <<'END'\nmolecule nothing\nEND\nmolecule doctor",
        "echo 'molecule nothing; molecule nothing'",
        "molecule bridge command -- ./program --nothing",
        "scripts/test tests/memory -k NAME",
    ],
)
def test_a_right_command_gives_no_finding(text: str) -> None:
    assert find_faults(text) == []


def test_a_text_is_split_into_its_commands() -> None:
    text = "export A=1; cd there && B=2 first --x 'a b' | second >out 2>&1 # third\n"
    assert list(split_commands(text)) == [["first", "--x", "a b"], ["second"]]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("```\nls\n```", "page.md:1: a block of language ''"),
        ("```zsh\nls\n```", "page.md:1: a block of language 'zsh'"),
        ("<!-- check: skip: no time -->\n```sh\nls\n```", "page.md:2: no class is called 'skip'"),
        ("<!-- check: parse -->\n```sh\nls\n```", "page.md:2: the class 'parse' needs a reason"),
        ("```output\nls\n```", "page.md:1: output without a block of commands above it"),
        ("text\n\n    molecule up\n", "page.md:3: a command in an indented block"),
    ],
)
def test_a_block_that_no_class_claims_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(PageError) as raised:
        read_blocks(write_page(tmp_path, text), tmp_path)
    assert str(raised.value).startswith(fault)


def test_blocks_have_their_class_their_commands_and_their_output(tmp_path: Path) -> None:
    text = """\
<!-- check: root: changes the machine -->
```sh
reboot
```

- in a list:

  <!-- check: stays alone until "ready" -->
  ```sh
  serve
  ```

  ```output
  ready
  ```

```console
$ one \\
    --more
printed
$ two
```
"""
    first, second, third = read_blocks(write_page(tmp_path, text), tmp_path)
    assert (first.kind, first.text, first.line) == ("root", "reboot\n", 2)
    assert (second.stays_until, second.is_alone, second.text, second.outputs) == ("ready", True, "serve\n", ["ready\n"])
    assert commands_of(third) == "one \\\n    --more\ntwo\n"


def test_commands_in_the_text_are_read_and_others_are_not(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, "Run `molecule up`,\n`scripts/test`, not `molecule.engine` or\n```sh\nmolecule x\n```\n"
    )
    assert list(read_spans(page, tmp_path)) == [("page.md:1", "molecule up"), ("page.md:2", "scripts/test")]


@pytest.mark.parametrize(
    ("printed", "real"),
    [
        ("done", "Done"),
        ("done", "done\nand more"),
        ("one\ntwo", "one"),
        ("… of 3", "2 of 4"),
        ("01a21cd5-…  online", "no-id  online"),
        ("2026-11-27T11:48:15  completed", "2026-11-27T11:48:15  failed"),
    ],
)
def test_output_that_differs_is_shown_with_the_real_one(printed: str, real: str) -> None:
    assert find_difference(printed, real) == f"printed:\n{printed}\n--- but the command prints:\n{real}"


@pytest.mark.parametrize(
    ("printed", "real"),
    [
        ("done\n", "done"),
        ("first\n…\nlast", "first\n2\n3\nlast\n"),
        ("first\n…", "first\n"),
        ("id 01a21cd5-23a3-7302-bb45-45822d7aabd9", "id 01a21cdb-7e58-7302-bb45-45822d7aabd0"),
        ("01a21cd5-…  2026-11-27T11:48:15", "01a21cdb-7e58-7302-bb45-45822d7aabd0  2030-01-02T03:04:05"),
        ("on http://127.0.0.1:8080, in ~/.molecule", "on http://127.0.0.1:20001, in /home/ada/.molecule"),
    ],
)
def test_ids_times_ports_and_what_is_left_out_may_differ(printed: str, real: str) -> None:
    assert find_difference(printed, real) == ""


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("```sh\nfalse\n```", "page.md:1: false ended with 1 (announced: [])"),
        ("```sh\ntrue   # exit code 2\n```", "page.md:1: nothing failed (announced: [2])"),
        ("```sh\necho one\n```\n\n```output\ntwo\n```", "page.md:1: printed:\ntwo"),
        ("```console\n$ echo one\ntwo\n```", "page.md:1: printed:\ntwo"),
        ('<!-- check: stays until "no" -->\n```sh\necho yes\n```', "page.md:2: never printed 'no'"),
        ("<!-- check: stays -->\n```sh\ntrue\n```\n```sh\nwait\n```", "page.md:2: it ended by itself"),
        ("```sh\nmolecule doctor --nothing\n```", "page.md:1: molecule doctor --nothing ended with 2"),
    ],
)
def test_a_page_that_does_not_work_has_one_finding(tmp_path: Path, text: str, finding: str) -> None:
    page = write_page(tmp_path, text)
    [found] = run_page(page, tmp_path / "reader", Scenario(is_served=False), tmp_path)
    assert found.startswith(finding)


def test_a_page_that_works_has_none_and_its_terminal_keeps_folder_and_variables(tmp_path: Path) -> None:
    text = """\
```sh
export NAME=Ada; mkdir there && cd there
```

```console
$ basename "$PWD"; echo $NAME
there
Ada
$ false     # exit code 1
```

<!-- check: stays until "ready" -->
```sh
echo ready; read -r _ <"$HOME/never"
```
"""
    page = write_page(tmp_path, text)
    scenario = Scenario(before='mkfifo "$HOME/never"', is_served=False)
    assert run_page(page, tmp_path / "reader", scenario, tmp_path) == []
