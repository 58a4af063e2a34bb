"""Lines of any kind and length."""

from hypothesis import given
from hypothesis import strategies as st

from molecule_core.agent.host.stdio import LineSplitter
from tests.requirements import requirement


@requirement("G13")
@given(st.lists(st.binary(max_size=60).map(lambda text: text.replace(b"\n", b"")), max_size=20), st.data())
def test_lines_come_out_whole_however_the_bytes_are_cut(wanted: list[bytes], data: st.DataObject) -> None:
    stream, lines, found = b"".join(line + b"\n" for line in wanted), LineSplitter(64), []
    while stream:
        end = data.draw(st.integers(1, len(stream)))
        found += lines.feed(stream[:end])
        stream = stream[end:]
    assert found == wanted
    assert (lines.take_rest(), lines.too_long_count) == (b"", 0)


@requirement("G13", "O2")
@given(st.lists(st.integers(0, 40), max_size=30), st.integers(1, 50))
def test_a_line_that_is_too_long_is_left_out_and_nothing_else(lengths: list[int], chunk: int) -> None:
    stream = b"".join(b"x" * length + b"\n" for length in lengths)
    lines, found = LineSplitter(20), []
    for start in range(0, len(stream), chunk):
        found += lines.feed(stream[start : start + chunk])
        assert sum(map(len, lines._parts)) <= 20
    assert [len(line) for line in found] == [length for length in lengths if length <= 20]
    assert lines.too_long_count == sum(length > 20 for length in lengths)


@requirement("G13")
def test_what_comes_behind_the_last_line_counts_when_the_stream_ends() -> None:
    lines = LineSplitter(100)
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o") == []
    assert lines.take_rest() == b"two"
