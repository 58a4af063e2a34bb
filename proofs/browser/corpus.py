"""Hostile texts: those of the page's own tests, and each of them in other clothes."""

from random import Random

from testing.canvas.hostile_markdown import TEXTS

_HIDDEN = "\u200b\u2066\u202e\u00ad\ufeff"


def _doubled(text: str, _dice: Random) -> str:
    """As what is left when something inside was taken out."""
    return text.replace("<", "<<x>", 1).replace("(", "((", 1)


def _shouted(text: str, dice: Random) -> str:
    return "".join(each.upper() if dice.random() < 0.5 else each.lower() for each in text)


def _torn(text: str, dice: Random) -> str:
    """With a character inside that is not to be seen."""
    place = dice.randrange(len(text))
    return text[:place] + dice.choice(_HIDDEN) + text[place:]


def _framed(text: str, dice: Random) -> str:
    before, behind = dice.choice(
        (('"', '"'), ("'>", "<'"), ("</p>", "<p>"), ("</script>", "<script>"), ("]]>", "<![CDATA["))
    )
    return f"{before}{text}{behind}"


def _told(text: str, _dice: Random) -> str:
    """By the numbers of its characters."""
    return "".join(f"&#{ord(each)};" if each in "<>\"'" else each for each in text)


def corpus(count: int, dice: Random) -> list[str]:
    """So many texts, each with a word of its own by which it can be found on a page."""
    ways = (lambda text, _dice: text, _doubled, _shouted, _torn, _framed, _told)
    step = max(1, len(TEXTS) // count)  # a few are of all kinds too
    chosen = [(number * step) % (len(TEXTS) * len(ways)) for number in range(count)]
    texts = [ways[place // len(TEXTS)](TEXTS[place % len(TEXTS)], dice) for place in chosen]
    return [f"w{number:04d} {text}" for number, text in enumerate(texts)]
