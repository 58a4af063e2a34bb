"""Which tables a statement writes and which it reads, found by walking its tokens; both dialects."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKENS = re.compile(
    r"""
      (?P<skip>   --[^\n]* | /\*.*?\*/ | \s+)
    | (?P<text>   '(?:[^']|'')*')
    | (?P<param>  (?<!:):[A-Za-z_]\w* | \$\d+)
    | (?P<name>   (?:"[^"]+" | [A-Za-z_]\w*) (?:\s*\.\s* (?:"[^"]+" | [A-Za-z_]\w*))*)
    | (?P<sign>   .)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS_FROM = frozenset(
    "WHERE GROUP HAVING WINDOW ORDER LIMIT OFFSET UNION EXCEPT INTERSECT RETURNING SET VALUES FOR".split()
)
_FROM_IN_FUNCTIONS = frozenset(("EXTRACT", "SUBSTRING", "TRIM", "OVERLAY"))
_QUERY_STARTS = frozenset(("SELECT", "WITH", "VALUES", "INSERT", "UPDATE", "DELETE"))


@dataclass
class Facts:
    """What a statement does: its first word, the tables it changes, those it reads, the names it defines by WITH."""

    first: str = ""
    writes: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    defines: set[str] = field(default_factory=set)
    statements: int = 0

    @property
    def is_writing(self) -> bool:
        return bool(self.writes)


def facts(sql: str) -> Facts:
    """Parse the facts of one statement."""
    return _Walk(_tokens(sql)).facts


def tables_of_schema(sql: str) -> list[str]:
    """Return the tables that a schema creates, virtual ones too, in their order."""
    words = _tokens(re.sub(r"/\*\w+: (.*?) \*/", r"\1", sql, flags=re.DOTALL))  # parts for one engine only
    found = []
    for at, word in enumerate(words):
        if word.upper() == "TABLE" and _upper(words, at - 1) in {"CREATE", "VIRTUAL", "UNLOGGED"}:
            skip = 3 if _upper(words, at + 1) == "IF" else 0  # IF NOT EXISTS
            found.append(_table(words[at + 1 + skip]))
    return found


def _tokens(sql: str) -> list[str]:
    return [hit[0] for hit in _TOKENS.finditer(sql) if hit.lastgroup != "skip"]


def _upper(words: list[str], at: int) -> str:
    return words[at].upper() if 0 <= at < len(words) else ""


def _table(word: str) -> str:
    """The bare table of `main."messages"`, in lower case as both engines compare names."""
    return word.rpartition(".")[2].strip().strip('"').lower()


def _is_name(word: str) -> bool:
    return bool(re.match(r'["A-Za-z_]', word))


class _Walk:
    """One pass over the tokens; each word that can precede a table has its method."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.facts = Facts(first=_upper(words, 0), statements=" ".join(words).strip("; ").count(" ; ") + 1)
        self._openers: list[str] = []  # the word before each open parenthesis
        steps = {"INTO": self._into, "UPDATE": self._update, "FROM": self._from, "JOIN": self._join}
        steps |= {"USING": self._using, "TRUNCATE": self._truncate, "AS": self._as}
        for at, word in enumerate(words):
            if word == "(":
                self._openers.append(_upper(words, at - 1))
            elif word == ")" and self._openers:
                self._openers.pop()
            elif word.upper() in steps:
                steps[word.upper()](at)

    def _into(self, at: int) -> None:
        self._write(at + 1)

    def _update(self, at: int) -> None:
        if _upper(self.words, at - 1) in {"DO", "FOR", "KEY", "THEN"}:
            return  # the second half of an upsert, a lock, a merge
        self._write(at + 3 if _upper(self.words, at + 1) == "OR" else at + 1)

    def _truncate(self, at: int) -> None:
        self._write(at + 2 if _upper(self.words, at + 1) == "TABLE" else at + 1)

    def _from(self, at: int) -> None:
        before = _upper(self.words, at - 1)
        if before == "DELETE":
            self._write(at + 1)
        elif before != "DISTINCT" and (self._openers or [""])[-1] not in _FROM_IN_FUNCTIONS:
            self._read_list(at + 1)

    def _join(self, at: int) -> None:
        self._read(at + 1)

    def _using(self, at: int) -> None:
        if _upper(self.words, at + 1) != "(":  # JOIN ... USING (columns) names no table
            self._read_list(at + 1)

    def _as(self, at: int) -> None:
        """`name (columns) AS NOT MATERIALIZED (SELECT`: a name that lives only in this statement."""
        after = at + 1
        while _upper(self.words, after) in {"NOT", "MATERIALIZED"}:
            after += 1
        if _upper(self.words, after) != "(" or _upper(self.words, after + 1) not in _QUERY_STARTS:
            return
        before = at - 1
        while self.words[before] != "(" and self.words[at - 1] == ")":
            before -= 1
        name = self.words[before - 1] if self.words[before] == "(" else self.words[before]
        self.facts.defines.add(_table(name))

    def _write(self, at: int) -> None:
        at += _upper(self.words, at) == "ONLY"
        if at < len(self.words):
            self.facts.writes.add(_table(self.words[at]))

    def _read_list(self, at: int) -> None:
        for start in self._starts(at):
            self._read(start)

    def _starts(self, at: int) -> Iterator[int]:
        """Where each table of a FROM list begins: at its first word and after each comma of the same depth."""
        yield at
        depth = 0
        for here in range(at, len(self.words)):
            word = self.words[here].upper()
            depth += (word == "(") - (word == ")")
            if depth < 0 or (depth == 0 and word in _ENDS_FROM):
                return
            if depth == 0 and word == ",":
                yield here + 1

    def _read(self, at: int) -> None:
        while _upper(self.words, at) in {"(", "ONLY", "LATERAL"}:
            at += 1
        word = self.words[at] if at < len(self.words) else ""
        is_function = _upper(self.words, at + 1) == "("
        if _is_name(word) and not is_function and word.upper() not in _QUERY_STARTS:
            self.facts.reads.add(_table(word))
