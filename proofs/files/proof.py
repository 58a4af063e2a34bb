"""`prove files`: no name and no link leads out of the folder that something lies in. (Nothing unpacks archives here.)

The trying itself (trying.py) runs in a process of its own, so that a control's copy of the package can be put in its
way: it asks a real server, and reads with the product's own reader of an agent's files.
"""

from proofs.files.trying import READ
from proofs.harness.children import in_a_child
from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict

_MOST_SECONDS = 900.0


async def run(setting: Setting) -> Verdict:
    """`setting.size` names, each to every sink, and as many looks at what is exchanged meanwhile."""
    return await in_a_child("proofs.files.trying", setting, most_seconds=_MOST_SECONDS)


_CONTROLS = (
    Control(
        name="a part of a path may be a link",
        marker="no-link-in-path",
        change=Swap(" | os.O_NOFOLLOW", ""),
        breaks=READ,
    ),
    Control(
        name="any path will do",
        marker="path-check",
        change=Swap('if $... or "\\x00" in $path or $...:', 'if "\\x00" in $path:'),
        breaks=READ,
    ),
    Control(
        name="a file of the server may be a link",
        marker="stored-file-no-link",
        change=Swap(" | os.O_NOFOLLOW", ""),
        breaks=READ,
    ),
)

PROOF = Proof(
    name="files",
    claim="No file name or link leads a read or write out of its folder.",
    shows="Names that mean to lead elsewhere (ways up in every spelling, whole paths, devices, encodings, look-alikes, "
    "NUL, line ends, thousands of characters) go to every place where a name of somebody comes near a disk: files "
    "that are uploaded, ids of files that are read, attached, taken and looked at, paths of the canvas, keys of "
    "memories, what is shared with children, and the paths in an agent's own configuration. Links lie in the "
    "server's folder of files in place of what was uploaded, and a folder of an agent is exchanged for a link and "
    "back while its files are read. Beside all that lies a secret: nobody ever reads it, nothing is written beside "
    "what the server and its agents call their own, no answer is 5xx, and what was asked for rightly is there. "
    "(Nothing here unpacks archives.)",
    engines=("sqlite",),
    unit="names",
    sizes={"sqlite": 10_000, "postgres": 2_000},
    control_sizes={"sqlite": 150, "postgres": 150},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=("names tried", "names in configurations", "links planted"),
)
