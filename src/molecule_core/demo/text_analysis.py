"""Text analysis of the demo agents: words, stems and topics, for any text. Pure."""

import re
from collections import Counter
from collections.abc import Iterator

from molecule_core.common.text import truncate_line

ANY_NUMBER = "#"
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
# One character, not a run: a long run would be searched from each of its characters.
_PAUSE = re.compile(r"[.!?;:,()](?=\s|$)|\n")
_SENTENCE = re.compile(r"[.!?](?=\s|$)|\n")
_THING_WORDS = 4
_THING_LENGTH = 60
# 40: longer than any word that people write.
_STEM_LENGTH = 40

# Words without a meaning of their own.
_STOP_WORDS = frozenset(
    "a about above after again all also am an and any are as at be been before being below between both but by can "
    "could did do does doing don't down during each else every everybody everything few for from further get give got "
    "had has have having he help her here hers him his how i i'd i'm if in into is it it's its just kindly let let's "
    "like make may me more most much must my need no nor not now of off on once one only or other our ours out over "
    "own please possible same shall she should so some such than that the their them then there these they this those "
    "through to today too tomorrow under until up us very want was way we we'd we're were what when where which while "
    "who whom why will with within without would yes you you'd your yours".split()
)
# Verbs that begin a request: they say what to do, not what it is about.
_REQUEST_VERBS = frozenset(
    "add answer ask build check collect compare create describe design draft estimate explain find fix gather improve "
    "list look organise organize plan prepare review say set show start suggest summarise summarize tell think try "
    "write".split()
)
_ENDINGS = ("ings", "ing", "ies", "ed", "es", "s")


def split_words(text: str) -> list[str]:
    """Return the words as they are written."""
    return _WORD.findall(text)


def count_sentences(text: str) -> int:
    """Return the number of sentences with a word."""
    return sum(_WORD.search(part) is not None for part in _SENTENCE.split(text))


def stem(word: str) -> str:
    """Return the common part of a word's forms: `launches`, `launched` and `launch` have the same."""
    low = word.casefold().replace("’", "'").removesuffix("'s")[:_STEM_LENGTH]
    for ending in _ENDINGS:
        if low.endswith(ending) and len(low) - len(ending) >= 3 and not low.endswith("ss"):
            low = low.removesuffix(ending) + ("y" if ending == "ies" else "")
            break
    # `page` and `pages`, `price` and `pricing` lose their final e too.
    return low.removesuffix("e") if len(low) > 3 else low


def stems_of(text: str) -> frozenset[str]:
    """Return the stems of all words, and `#` if one of them is a number."""
    words = split_words(text)
    number = {ANY_NUMBER} if any(word[0].isdigit() for word in words) else set()
    return frozenset(stem(word) for word in words) | number


def significant_stems(text: str) -> frozenset[str]:
    """Return the stems of the meaningful words."""
    return frozenset(stem(word) for word in split_words(text) if not _is_stop_word(word))


def names_phrase(stems: frozenset[str], phrase: str) -> bool:
    """Return whether a text with these stems has all words of a phrase."""
    wanted = {ANY_NUMBER} if phrase == ANY_NUMBER else {stem(word) for word in split_words(phrase)}
    return bool(wanted) and wanted <= stems


def find_topics(text: str, maximum: int) -> list[str]:
    """Return the topics of a text in their order: the runs of meaningful words with the highest weight.

    Rapid automatic keyword extraction: a word's weight is the number of words it occurs with, divided by its frequency.
    """
    runs = list(_word_runs(text))
    frequency = Counter(stem(word) for run in runs for word in run)
    neighbours = Counter[str]()
    for run in runs:
        for word in run:
            neighbours[stem(word)] += len(run)
    found: dict[tuple[str, ...], tuple[float, str]] = {}
    for run in runs:
        stems = tuple(stem(word) for word in run)
        found.setdefault(stems, (sum(neighbours[one] / frequency[one] for one in stems), " ".join(run)))
    best = sorted(found, key=lambda stems: -found[stems][0])[:maximum]
    return [truncate_line(thing, _THING_LENGTH) for stems, (_, thing) in found.items() if stems in best]


def _word_runs(text: str) -> Iterator[list[str]]:
    """Yield runs of words without a stop word or a pause between them."""
    for part in _PAUSE.split(text):
        run: list[str] = []
        is_first = True
        for word in split_words(part):
            if _is_stop_word(word) or (is_first and word.casefold() in _REQUEST_VERBS):
                if run:
                    yield run
                run = []
            else:
                run.append(word)
                if len(run) == _THING_WORDS:
                    yield run
                    run = []
            is_first = is_first and _is_stop_word(word)
        if run:
            yield run


def _is_stop_word(word: str) -> bool:
    return word.casefold().replace("’", "'") in _STOP_WORDS or (len(word) == 1 and not word.isdigit())
