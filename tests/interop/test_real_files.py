"""Files go from a person to a real host and back, by the tools of Molecule alone."""

from testing.exchanged_files import FILES, send_files, sent_back
from tests.interop.model_scripts import Asked, Call, Step
from tests.interop.scene import Scene, waits
from tests.requirements import requirement


def reads(scene: Scene, number: int) -> Step:
    """Reads one file. The tool's whole name is used, since Gemini CLI has a `read_file` of its own."""

    def step(asked: Asked) -> Call:
        return Call(
            scene.host.prefix + "read_file", {"uri": asked.results[0].value["message"]["attachments"][number]["uri"]}
        )

    return step


def uploads(number: int) -> Step:
    def step(asked: Asked) -> Call:
        return Call("upload_file", {"path": asked.results[1 + number].value["path"]})

    return step


def sends_back(asked: Asked) -> Call:
    files = [each.value for each in asked.results[1 + len(FILES) :]]
    attachments = [{key: value for key, value in file.items() if key != "workspace_id"} for file in files]
    return Call("send_message_to_user", {"message": "Here they are", "attachments": attachments})


@requirement("X1", "G1")
async def test_a_real_host_reads_the_files_of_a_person_and_sends_them_back(scene: Scene) -> None:
    await send_files(scene.ops.person, scene.ops.seat, "Look at these")
    scene.configure()
    read = [reads(scene, number) for number in range(len(FILES))]
    uploaded = [uploads(number) for number in range(len(FILES))]

    visit = await scene.run(waits, *read, *uploaded, sends_back)

    assert visit.went_well, visit.told
    assert [each for each in visit.mind.asked[-1].results if each.refused] == [], visit.told
    assert await sent_back(scene.ops.person, scene.ops.seat) == FILES
    assert (await scene.ops.chat())[-1] == ("agent", "Here they are"), visit.told
