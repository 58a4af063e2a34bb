"""The words that names and comments may not use, and the terms of the field that only look like them.

The rules are in the style guide: field terms only, classes and modules are nouns, functions are a verb and its object.
"""

import re
from pathlib import Path

# Imperatives that a function's docstring may begin with.
DOCSTRING_VERBS = frozenset((Path(__file__).parent / "docstring_verbs.txt").read_text(encoding="utf-8").split())
# Imperatives that the advice of an error text may begin with.
ADVICE_VERBS = frozenset((Path(__file__).parent / "advice_verbs.txt").read_text(encoding="utf-8").split())

# Class names that several modules may define, with the reason: implementations of one protocol.
PROTOCOL_IMPLEMENTATIONS: dict[str, str] = {}

# One-word class names that are participles without ending in -ed or -en, and nouns that end so without being one.
IRREGULAR_PARTICIPLES = frozenset(
    "Told Said Kept Begun Heard Gone Left Made Sent Held Shown Stood Done Got Found Put Spent Lost Met Become Brought "
    "Built Caught Come Drawn Felt Grown Hung Known Laid Led Lent Meant Paid Rung Seen Shut Sold Struck Taught Thought "
    "Thrown Torn Understood Withdrawn Won Worn".split()
)
NO_PARTICIPLES = frozenset("Children Feed Garden Need Open Pen Screen Seed Speed Token".split())

# Terms of the field that may end a module's name.
ING_TERMS = frozenset(
    "batching caching decoding encoding hashing indexing locking logging parsing polling pooling queueing ranking "
    "rendering routing sampling scheduling sharding streaming string strings timing tracing".split()
)

# Names of functions whose object must be guessed, with any leading underscores.
PRIVATE_VERBS = frozenset(
    "tell tells told say says said take takes took taken put puts stand stands stood owe owes owed hear hears heard "
    "ring rings rang rung lie lies lay hand hands handed give gives gave given let lets go goes went gone made "
    "sit sits sat look looks keep keeps kept hold holds held met left lend lends begun fall falls fell "
    "let_go give_back gave_back given_back hand_over handed_over hand_out handed_out put_off put_aside go_on "
    "stand_in stands_in".split()
)
# Private verbs that are terms in some modules: a pattern of layers.py -> the verbs.
VERB_TERMS = {"access.credential_cache": ("put",)}
# Settling is a term of delegations and approvals alone.
SETTLING = frozenset(("settle", "settled", "settles"))
MAY_SETTLE = ("delegations", "approvals")

# Modules whose string constants are lists of words that a program compares, no texts.
WORD_LISTS = frozenset({"demo.text_analysis"})
# Words that docstrings, comments and texts may not use. Text in backticks is not read.
BANNED_WORDS = (
    r"whoever|nobody|somebody|anybody|everybody",
    r"tell|tells|told|telling",
    r"said",
    r"stand|stands|stood|standing(?! authority| approval)",
    r"lie|lies|lay|lying",
    r"(?<!by )hands?(?!-written)|handed|handing",
    r"seats?|seated",
    r"(?<!dead )(?<!dead-)(?<!last )letters?(?!,? (?:and |or )?digits?)",
    r"bells?|ring|rings|rang|rung|ringing",
    r"houses?",
    r"rooms?",
    r"ground",
    r"crowds?",
    r"deeds?",
    r"shelf|shelves",
    r"walks?",
    r"what became of",
    r"so many more",
    r"(?:put|puts|putting) off",
    r"(?:let|lets) go",
    r"(?:give|gives|gave|given|giving) back",
)
BANNED = re.compile(rf"\b(?:{'|'.join(BANNED_WORDS)})\b", re.IGNORECASE)

# Phrases of a private language that the page once used, and may not use again.
BANNED_IN_CANVAS = re.compile(
    r"\b(?:asks? for leave|needs leave|came of it|its way so far|put together because|the clock decided|ask back"
    r"|unfold|in force at once|as it came|forget my changes|let it sleep|it goes on|look for words|as of line"
    r"|nothing needs you|lives in|it arrives|time line|colours: as the system)\b",
    re.IGNORECASE,
)

# Words that error texts may not use either.
BANNED_IN_ERRORS = (
    r"anew",
    r"holds?(?= (?:a|the|no|U))",
    r"are taken",
    r"is (?:none|no)(?! longer)",
    r"say|says",
    r"mend",
)
# Packages whose raise sites are read. The command line, the agent side and the tools have texts of their own form.
PACKAGES_WITH_ERROR_TEXTS = frozenset(
    "access api approvals common delegations instructions memory messages org prompts server store threads views "
    "wire".split()
)
