"""`prove fetch`: whatever url somebody writes wherever, the server comes to no address that is not public or allowed.

What is tried stands in lures.py, which runs in a process of its own.
"""

from proofs.fetch.lures import TAKEN
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Remove, Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict


async def run(setting: Setting) -> Verdict:
    """Every spelling at every sink, `setting.size` names that change their address, and a chain of redirects."""
    return await in_a_child("proofs.fetch.lures", setting)


_CONTROLS = (
    Control(
        name="no address is checked",
        marker="address-check",
        change=Remove(),
        breaks="canary hits by spellings",
    ),
    Control(
        name="the IPv4 address inside a NAT64 address is not looked at",
        marker="nat64-address",
        change=Swap("return $...", "return True"),
        breaks="canary hits by spellings",
    ),
    Control(
        name="the connection resolves the name a second time",
        marker="resolved-address",
        change=Swap("($, $target.$port,", "($target.host, $target.$port,"),
        breaks="canary hits by rebinding",
    ),
    Control(
        name="a redirect counts as an answer",
        marker="redirect-refused",
        change=Always(False),
        breaks="redirects taken for an answer",
    ),
    Control(
        name="an agent that registers is believed",
        marker="registered-url-check",
        change=Remove(),
        breaks=TAKEN,
    ),
)

PROOF = Proof(
    name="fetch",
    claim="No spelling of a URL, DNS change or redirect leads a request of the server to an address that is not "
    "allowed.",
    shows="More than four hundred spellings of urls (decimal, octal, hexadecimal and short addresses, IPv6 in all its "
    "forms with an IPv4 address inside, user names, backslashes, tabs, Unicode dots and digits, names that resolve "
    "to where they should not) go to every sink: to a push, a fetch and the check at registration in a small internet "
    "in which every address but two is a listening canary on loopback, and to all routes of a real server that take a "
    "url, call it or only keep it. Then names answer with a public address first and with loopback afterwards, and ten "
    "redirects in a row lead to loopback. Nobody ever reaches the canary, each fetch resolves its name once, no "
    "redirect is followed; once the operator lists loopback, the canary is reached.",
    engines=("sqlite",),
    unit="names that change",
    sizes={"sqlite": 200, "postgres": 200},
    control_sizes={"sqlite": 20, "postgres": 20},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=("fetches", "names that changed", "redirects", "requests to the server"),
)
