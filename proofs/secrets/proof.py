"""`prove secrets`: canary secrets of every kind go through all journeys, and are found nowhere they must not be.

The server, the agent and the commands are processes of their own (journeys.py); what they wrote is read as bytes.
"""

from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.secrets.journeys import FOUND, Journeys


async def run(setting: Setting) -> Verdict:
    """`setting.size` seats and persons with a token each, and about thirty other secrets. RuntimeError: broke down."""
    return await Journeys(setting).play()


_CONTROLS = (
    Control(
        name="tokens are kept as they are",
        marker="token-hash",
        change=Swap("hashlib.sha256($token.encode()).hexdigest()", "$token"),
        breaks=FOUND,
    ),
    Control(
        name="the log takes out nothing",
        marker="log-redaction",
        change=Swap("$text = $...", "return $text"),
        breaks=FOUND,
    ),
    Control(
        name="a login link carries its code where servers and proxies read it",
        marker="login-code-in-fragment",
        change=Swap("#login", "?login"),
        breaks=FOUND,
    ),
    Control(
        name="a hint shows nearly all",
        marker="token-hint",
        change=Swap("[:15]", ""),
        breaks=FOUND,
    ),
    Control(
        name="a refusal repeats what was sent",
        marker="integer-refusal",
        change=Swap("{minimum}. ", "{minimum}, not {found}. "),
        breaks=FOUND,
    ),
)

# What lies in the database, in its log, and in what is made of both.
_ON_POSTGRES = ("tokens are kept as they are", "the log takes out nothing", "a hint shows nearly all")

PROOF = Proof(
    name="secrets",
    claim="No credential appears in logs, files, backups, answers or process arguments, and none works where it "
    "should not.",
    shows="Tokens of seats and persons, issued and rotated ones, sessions, login links, invitations, the admin's and "
    "the scraper's token, the key of a model, tokens that `molecule connect` has made, keys of other services in "
    "memories, passwords in the addresses of a database, of NATS and of an agent: each is used as it is meant to be "
    "(else it counts), and then wrongly: cut, doubled, in other headers, in paths and queries, in broken bodies, in "
    "members of the wrong type, while the store is broken, before and after kill -9. Then each is looked for, plain "
    "and as base64, hex, percent and escaped text, in what the server has logged and printed, its files while it runs "
    "and behind its death, a backup, an export, every answer but the one that made it, refusals, the journal and the "
    "live stream, figures, the document, arguments of all processes, what commands print, hosts' configurations, an "
    "agent's log and files; on PostgreSQL also in the files of the database and of its write-ahead log, in all rows, "
    "and in the database's own log of every statement with its parameters. Token files of mode 0600 in the folder "
    "`agents` are where they belong. Each place must hold a marker that is no secret, so that it is the place that is "
    "searched.",
    engines=("sqlite", "postgres"),
    unit="seats and persons",
    sizes={"sqlite": 200, "postgres": 60},
    control_sizes={"sqlite": 12, "postgres": 12},
    controls={"sqlite": _CONTROLS, "postgres": tuple(each for each in _CONTROLS if each.name in _ON_POSTGRES)},
    run=run,
    hostile=("of them refused",),
)
