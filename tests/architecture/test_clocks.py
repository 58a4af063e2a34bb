"""Time and randomness are passed in."""

from pathlib import Path

import pytest

from tests.architecture.guards.clocks import find_clock_uses
from tests.architecture.repository import SOURCES, write_tree


def test_only_common_reads_the_clock_and_randomness() -> None:
    assert find_clock_uses(SOURCES) == []


def test_common_may_read_clock_and_randomness(tmp_path: Path) -> None:
    text = "import os, random, secrets, time\nNOW = time.time()\nDICE = random.Random(os.urandom(8))\n"
    assert find_clock_uses(write_tree(tmp_path, {"common/clock.py": text})) == []


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime, UTC\nAT = datetime.fromtimestamp(0, UTC)",
        "import time\nTEXT = time.strftime('%Y', time.gmtime(0))",
        "import uuid\nID = uuid.uuid5(uuid.NAMESPACE_URL, 'a')",
        "import asyncio\nasync def wait(signal):\n    await asyncio.wait_for(signal, 5)",
        "from molecule_core.common import clock as time\nNOW = time.time()",
        "import os.path\nHERE = os.path.join('a', 'b')",
        "def read(clock):\n    return clock.time.time()",
        "from . import time\nNOW = time.time()",
        "from .time import time\nNOW = time()",
        "from .time import *",
        "from tim import *",
    ],
)
def test_a_name_that_only_resembles_a_clock_gives_no_finding(tmp_path: Path, text: str) -> None:
    assert find_clock_uses(write_tree(tmp_path, {"messages/rules.py": text})) == []


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("import time\nNOW = time.time()", "time.time"),
        ("import time as t\nNOW = t.monotonic()", "time.monotonic"),
        ("from time import perf_counter as p\nNOW = p()", "time.perf_counter"),
        ("import time\nNOW = time.time_ns() // 1000", "time.time_ns"),
        ("from time import sleep\nsleep(1)", "time.sleep"),
        ("\nfrom time import *", "time.*"),
        ("\nfrom os import *", "os.*"),
        ("\nfrom random import *", "random.*"),
        ("import datetime\nNOW = datetime.datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime as d\nNOW = d.utcnow()", "datetime.datetime.utcnow"),
        ("import datetime as d\nNOW = d.datetime.today()", "datetime.datetime.today"),
        ("from datetime import date\nNOW = date.today()", "datetime.date.today"),
        ("import uuid\nID = uuid.uuid1()", "uuid.uuid1"),
        ("import uuid\nID = str(uuid.uuid4().hex)", "uuid.uuid4"),
        ("from uuid import uuid6\nID = uuid6()", "uuid.uuid6"),
        ("from uuid import uuid7\nID = uuid7()", "uuid.uuid7"),
        ("from uuid import uuid8\nID = uuid8()", "uuid.uuid8"),
        ("import random\nDICE = random.Random(1)", "random.Random"),
        ("from random import choice\nONE = choice('ab')", "random.choice"),
        ("import secrets\nTOKEN = secrets.token_urlsafe()", "secrets.token_urlsafe"),
        ("import os\nBITS = os.urandom(8)", "os.urandom"),
        ("from os import urandom\nBITS = urandom(8)", "os.urandom"),
        ("import asyncio\nWAIT = asyncio.sleep(1)", "asyncio.sleep"),
        ("import time\ndef at(now=time.time): return now", "time.time"),
    ],
)
def test_a_clock_or_randomness_outside_common_is_the_one_finding(tmp_path: Path, text: str, used: str) -> None:
    assert find_clock_uses(write_tree(tmp_path, {"server.py": text})) == [
        f"src/molecule_core/server.py:2 server uses {used}: use what is passed in"
    ]
