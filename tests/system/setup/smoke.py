"""Start a checkout that was set up elsewhere as a user would, see it healthy and its page whole, stop it with Ctrl-C.

    python tests/system/setup/smoke.py CHECKOUT

Only the standard library: it runs beside the checkout, not inside its .venv. Ends with 0, or with
what went wrong and the end of what the server said. `.ci/run` calls it.
"""

import contextlib
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STARTING_S = 60  # the bound on starting or stopping a process, here as in every test
PAUSE_S = 0.1  # between two looks at /health; the wait ends at once if the server does


class Smoke(Exception):
    """What a user would complain about."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)  # 5 s: a server that hangs is not healthy
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def wait_until_healthy(server: "subprocess.Popen[bytes]", port: int) -> None:
    end = time.monotonic() + STARTING_S
    while time.monotonic() < end:
        if is_healthy(port):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise Smoke(f"scripts/up ended with {server.wait(timeout=PAUSE_S)} before it answered")
    raise Smoke(f"/health did not answer within {STARTING_S} s")


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STARTING_S)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise Smoke(f"{path} answers {answer.status}")
        return answer.read()


def check_page(port: int) -> None:
    """The page is there, and so is every file that it names."""
    files = re.findall(r'(?:src|href)="(/app/assets/[^"]+)"', get(port, "/app/").decode())
    if not any(name.endswith(".js") for name in files):
        raise Smoke("/app/ is not the page of the canvas")
    for name in files:
        get(port, name)
    if b"<h1" not in get(port, "/docs/"):
        raise Smoke("/docs/ is not a page of the documentation")


def interrupt(server: "subprocess.Popen[bytes]") -> None:
    os.killpg(server.pid, signal.SIGINT)  # a terminal, too, tells the whole group
    try:
        code = server.wait(timeout=STARTING_S)
    except subprocess.TimeoutExpired:
        raise Smoke(f"the server did not stop within {STARTING_S} s after Ctrl-C") from None
    if code != 0:
        raise Smoke(f"the server ended with {code} after Ctrl-C")


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=STARTING_S, check=False)
    if done.returncode != 0:
        raise Smoke(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def check_version(checkout: Path) -> None:
    """Both names of the command say the version of the installed package."""
    folder = checkout / ".venv" / "bin"
    question = "import importlib.metadata; print(importlib.metadata.version('molecule-core'))"
    version = output_of(str(folder / "python"), "-I", "-c", question)
    for name in ("molecule", "molecule-core"):
        if (said := output_of(str(folder / name), "--version")) != f"molecule, version {version}":
            raise Smoke(f"{name} --version does not say {version}: {said}")


def start_and_stop(checkout: Path, home: Path) -> None:
    """`scripts/up` on a free port, in a folder of its own, so that no data of this machine is touched."""
    port, log = free_port(), home / "up.log"
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("MOLECULE_", "XDG_"))}
    environment = {**shell, "HOME": str(home)}
    command = [str(checkout / "scripts" / "up"), "--port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until_healthy(server, port)
        check_page(port)
        interrupt(server)
    except Smoke as fault:
        said = log.read_text(encoding="utf-8", errors="replace")
        raise Smoke(f"{fault}; its last words:\n{said[-2000:]}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(timeout=STARTING_S)


def main() -> None:
    checkout = Path(sys.argv[1]).resolve()
    try:
        check_version(checkout)
        with tempfile.TemporaryDirectory() as home:
            start_and_stop(checkout, Path(home))
    except (Smoke, subprocess.SubprocessError, OSError, http.client.HTTPException) as fault:
        sys.exit(f"smoke: {fault}")
    sys.stdout.write("smoke: started, healthy, page whole, stopped\n")


if __name__ == "__main__":
    main()
