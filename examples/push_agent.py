"""An agent that messages are pushed to. It checks that each push comes from its server, and answers it.

Needs nothing but Python. Configuration: MOLECULE_PUSH_SECRET, PORT (8090). docs/explanation/delivery.md explains it.
"""

import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_AGE_SECONDS = 300


def is_genuine(secret: str, timestamp: str, signatures: str, body: bytes, now: float) -> bool:
    """Return whether a push was signed with the secret, within the last five minutes."""
    if not timestamp.isdecimal() or abs(now - int(timestamp)) > MAX_AGE_SECONDS:
        return False
    signed = timestamp.encode() + b"." + body
    expected = "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return any(hmac.compare_digest(expected.encode(), each.encode()) for each in signatures.split())


class Agent(BaseHTTPRequestHandler):
    """Answers pushes."""

    def do_POST(self) -> None:
        """Check a push and answer it, or refuse it with 401."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        timestamp = self.headers.get("X-Molecule-Timestamp", "")
        signatures = self.headers.get("X-Molecule-Signature", "")
        if not is_genuine(os.environ["MOLECULE_PUSH_SECRET"], timestamp, signatures, body, time.time()):
            self.respond(401, {"error": "the signature is missing, wrong or old"})
            return
        request = json.loads(body)
        said = " ".join(part["text"] for part in request["params"]["message"]["parts"] if part["kind"] == "text")
        answer = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": f"You said: {said}"}]}
        self.respond(200, {"jsonrpc": "2.0", "id": request["id"], "result": answer})

    def respond(self, status: int, answer: object) -> None:
        """Send a JSON response."""
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8090"))
    print(f"waiting for pushes on port {port}", file=sys.stderr, flush=True)
    ThreadingHTTPServer(("127.0.0.1", port), Agent).serve_forever()
