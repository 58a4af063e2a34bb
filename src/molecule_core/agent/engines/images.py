"""Loads the images that a model has read with read_file, from their local copies. The log holds only their paths."""

import base64
from collections.abc import Sequence
from pathlib import Path

import msgspec

from molecule_core.agent.engines.models import ImageData
from molecule_core.tools.runners.file_tools import MAX_IMAGE_BYTES, image_type
from molecule_core.wire.schemas.threads import ModelContextItem

# The newest ones: each is some thousand tokens in every request.
_MAX_IMAGES = 8
_READ_FILE = "read_file"


class _ReadResult(msgspec.Struct):
    path: str = ""


def load_images(items: Sequence[ModelContextItem], folder: Path) -> dict[str, ImageData]:
    """Return the images by the item that read them. `folder`: of received files; others are not read."""
    calls = {each.call_id for each in items if each.role == "assistant" and each.tool == _READ_FILE}
    outputs = [each for each in items if each.role == "tool" and each.call_id in calls and not each.is_error]
    found: dict[str, ImageData] = {}
    for each in reversed(outputs):
        image = _load_image(each.text, folder) if len(found) < _MAX_IMAGES else None
        if image is not None:
            found[each.item_id] = image
    return found


def _load_image(text: str, folder: Path) -> ImageData | None:
    try:
        path = Path(msgspec.json.decode(text, type=_ReadResult).path).resolve(strict=True)
        if not path.is_relative_to(folder.resolve()) or path.stat().st_size > MAX_IMAGE_BYTES:
            return None
        data = path.read_bytes()
    except (OSError, ValueError, msgspec.DecodeError):  # the copy was deleted, or the output was cut
        return None
    kind = image_type(data)
    return None if kind is None else ImageData(kind, base64.b64encode(data).decode())
