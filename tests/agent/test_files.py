"""Files go from a person to an agent and back by tools: a PDF, an image and 20 MiB, at each kind of agent."""

import base64
import json
from pathlib import Path

import pytest

from molecule_core.tools.runners.file_tools import LocalFiles, open_upload
from molecule_core.tools.spec import ToolError
from testing.exchanged_files import FILES, LARGE, PNG, send_files, sent_back
from testing.mcp_clients import hosted
from testing.running_server import Running
from tests.agent.agent_runs import Watcher, home, living, long
from tests.agent.bridges.bridge_process import bridging
from tests.agent.host.test_official_client import call, official_client
from tests.agent.model_endpoint import Asked, Reply, endpoint
from tests.requirements import requirement


@requirement("G1")
async def test_files_reach_an_mcp_host_and_come_back(one: Running, state: Path) -> None:
    seat, person = await one.seat("Ops"), await one.person()
    own = {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": one.url}
    await send_files(person, seat, "Look at these")
    async with official_client(state, **own) as session:
        message = (await call(session, "wait_for_message", timeout_secs=30))["message"]
        assert message["body"] == "Look at these"  # and not one of the announcements
        back = []
        for file in message["attachments"]:
            assert Path(file["path"]).read_bytes() == FILES[file["name"]]
            read = await session.call_tool("read_file", {"uri": file["uri"]})
            found = read.structured_content
            assert found is not None and found["size"] == len(FILES[file["name"]])
            assert Path(found["path"]).read_bytes() == FILES[file["name"]]
            if file["name"] == "a.png":
                (image,) = [each for each in read.content if each.type == "image"]
                assert base64.b64decode(image.data) == PNG and image.mime_type == "image/png"
            if file["name"] == "notes.txt":
                assert found["text"] == "Grüße"
            uploaded = await call(session, "upload_file", path=found["path"])
            assert uploaded.pop("workspace_id") == seat.id
            back.append(uploaded)
        arguments = {"message": "Here they are", "attachments": back}
        await call(session, "send_message_to_user", **arguments)
        refused = await session.call_tool("upload_file", {"path": str(state / "cursor")})
        assert refused.is_error
    assert await sent_back(person, seat) == FILES


@requirement("G1")
async def test_files_of_a_client_of_the_servers_own_mcp_are_text_and_images(one: Running) -> None:
    seat, person = await one.seat("Ops"), await one.person()
    files = {each["name"]: each for each in await send_files(person, seat, "Look")}
    async with hosted(one, seat.token, "handshake") as host:
        text = await host.call("read_file", uri=files["notes.txt"]["uri"])
        assert (text["text"], text["path"]) == ("Grüße", "")
        image = await host.result("read_file", uri=files["a.png"]["uri"])
        assert any(each.type == "image" for each in image.content)
        large = await host.call("read_file", uri=files["large.bin"]["uri"])
        assert large["size"] == len(LARGE) and "/files/" in large["note"]
        uploaded = await host.call("upload_file", text="# Report", name="report.md")
        assert (uploaded["name"], uploaded["size"]) == ("report.md", 8)


PROGRAM = """
import json, os, re, subprocess, sys
said = sys.stdin.read()
paths = re.findall(r"path: ([^,]+), uri", said)
def tool(name, **given):
    command = ["molecule", "tool", name, "--json", "-"]
    done = subprocess.run(command, check=True, input=json.dumps(given).encode(), stdout=subprocess.PIPE)
    return json.loads(done.stdout)
back = [tool("upload_file", path=path) for path in paths]
for each in back:
    each.pop("workspace_id")
tool("send_message_to_user", message="Here", attachments=back)
"""


@requirement("G1")
async def test_files_reach_a_program_behind_the_bridge_in_one_turn_and_come_back(one: Running, state: Path) -> None:
    seat, person = await one.seat("Ops"), await one.person()
    async with bridging(one, seat, state, PROGRAM):
        await send_files(person, seat, "Look at these")
        assert await sent_back(person, seat) == FILES


@requirement("G1", "AR1")
@pytest.mark.parametrize("provider", ["openai:scripted", "anthropic:claude-scripted"])
@pytest.mark.parametrize("takes_images", [True, False])
async def test_files_reach_an_agent_run_whose_model_sees_the_image(
    one: Running, tmp_path: Path, provider: str, takes_images: bool
) -> None:
    seat, person = await one.seat("Ops"), await one.person()
    watch = Watcher(seat)
    asked: list[Asked] = []

    def answer(request: Asked) -> Reply:
        asked.append(request)
        if not takes_images and PNG_TEXT in json.dumps(request.body):
            return Reply(status=400)
        text = json.dumps(request.body["messages"])
        uploads = [json.loads(each) for each in results_of(request, "mimeType")]
        paths = [json.loads(each)["path"] for each in results_of(request, "next_offset")]
        if len(uploads) == len(FILES):
            for each in uploads:
                each.pop("workspace_id")
            return (
                Reply(calls=(("s1", "send_message_to_user", {"message": "Here", "attachments": uploads}),))
                if ('"s1"' not in text)
                else Reply("done")
            )
        if len(paths) == len(FILES):
            return Reply(calls=tuple((f"u{n}", "upload_file", {"path": each}) for n, each in enumerate(paths)))
        return Reply(calls=tuple((f"r{n}", "read_file", {"uri": each["uri"]}) for n, each in enumerate(files)))

    async with endpoint() as at:
        url = f"{at.url}/v1" if provider.startswith("openai") else at.url
        at.answers = [answer]
        files = await send_files(person, seat, "Look at these")
        async with living(one, seat, home(tmp_path / "ops", at, model=provider, base_url=url)):
            assert await sent_back(person, seat) == FILES
            await long(watch.waiting, lambda count: count == 0)
        (thread,) = await watch.all()
        assert thread["turns"] == 1  # the announcements cost no turn
    assert at.refused == []
    with_image = [each for each in asked if PNG_TEXT in json.dumps(each.body)]
    assert len(with_image) == (3 if takes_images else 1)


PNG_TEXT = base64.b64encode(PNG).decode()


def results_of(request: Asked, member: str) -> list[str]:
    """The results of tools in a request that have a member."""
    found: list[str] = []
    for message in request.body["messages"]:
        content = message["content"]
        blocks = [{"content": content}] if isinstance(content, str) else content or []
        found += [str(each["content"]) for each in blocks if f'"{member}"' in str(each.get("content", ""))]
    return [each for each in found if each.startswith("{")]


@pytest.mark.parametrize("path", ["token", "../outside.txt", "link", "folder", "missing", "files/x/../../token"])
def test_only_files_of_the_working_folder_and_received_ones_are_uploaded(tmp_path: Path, path: str) -> None:
    work, state = tmp_path / "work", tmp_path / "work" / ".molecule"
    received = state / "files" / "x"
    received.mkdir(parents=True)
    (work / "folder").mkdir()
    for each in (work / "ok.txt", received / "ok.txt", state / "token", tmp_path / "outside.txt"):
        each.write_text("content")
    (work / "link").symlink_to(tmp_path / "outside.txt")
    local = LocalFiles(state, (work, state / "files"))
    with open_upload("ok.txt", local) as file:
        assert file.read() == b"content"
    with open_upload(str(received / "ok.txt"), local) as file:
        assert file.read() == b"content"
    given = str(state / path) if "token" in path else path
    with pytest.raises(ToolError):
        open_upload(given, local)
