"""`molecule instructions figures` and `canary` as an owner meets them."""

import json
from pathlib import Path

from molecule_core.client.api import ApiClient
from molecule_core.instructions.builtin_templates import BUILT_IN_VERSION
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE
from testing.ports import free_port
from testing.processes import client, serving
from tests.cli.test_instructions import instructions
from tests.instructions.template_trials import AS_GOOD
from tests.requirements import requirement

# The first version of its own that an organisation has of a default.
NEWER = str(BUILT_IN_VERSION + 1)


@requirement("I16")
async def test_an_owner_gives_a_version_a_share_and_reads_how_it_does(tmp_path: Path) -> None:
    state, port, draft = tmp_path / "state", free_port(), tmp_path / "draft.json"
    draft.write_text(json.dumps({"extends": None, "parts": {"reply_tool": "reply_to_workspace", "blocks": AS_GOOD}}))
    async with serving(state, port, PUSH_INSTRUCTIONS_ENABLED="true"), client(port) as admin:
        made = await admin.post("/workspaces", {"name": "Ops", "runtime": "claude-code"})
        assert (await instructions(state, port, "set", CLAUDE_CODE_TEMPLATE, str(draft), "--later"))[1].endswith(
            "is saved"
        )
        code, out, said = await instructions(state, port, "canary", CLAUDE_CODE_TEMPLATE, NEWER, "50")
        assert (code, out, said) == (
            0,
            f"{CLAUDE_CODE_TEMPLATE}: version {BUILT_IN_VERSION} is active; "
            f"version {NEWER} is used for 50 % of messages",
            "",
        )

        async with ApiClient(f"http://127.0.0.1:{port}", made["connection"]["auth_token"]) as agent:
            for number in range(10):
                await admin.send(made["id"], f"question {number}")
            rows = await agent.get(f"/workspaces/{made['id']}/activity", claim=60, include="instructions")
            for row in rows:
                await agent.post(f"/workspaces/{made['id']}/notify", {"message": "done", "in_reply_to": row["id"]})
        told = [row["instructions"]["template"] for row in rows].count(f"{CLAUDE_CODE_TEMPLATE}@{NEWER}")

        _, out, _ = await instructions(state, port, "figures", CLAUDE_CODE_TEMPLATE)
        head, second, first, trial = out.splitlines()
        assert head.split()[:3] == ["version", "active", "deliveries"]
        assert second.split()[:5] == [NEWER, "50", "%", str(told), str(told)]
        assert first.split()[:4] == [str(BUILT_IN_VERSION), "yes", str(10 - told), str(10 - told)]
        assert f"{told} of {told} good; base version: {10 - told} of {10 - told} good" in trial
        assert trial.endswith("this badly or worse: 1")

        code, _, said = await instructions(state, port, "canary", CLAUDE_CODE_TEMPLATE, "999", "50")
        assert (code, "version 999 of this template" in said) == (2, True)
        _, out, _ = await instructions(state, port, "canary", CLAUDE_CODE_TEMPLATE, NEWER, "100")
        assert out.endswith(f"version {NEWER} is active")
