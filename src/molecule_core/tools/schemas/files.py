"""Arguments and results of the tools for files. `tools/registry.py` specifies the tools."""

from typing import Annotated

from msgspec import Meta, Struct

from molecule_core.tools.schemas.messages import ActingWorkspaceArgument, ToolArguments


class ReadFileArguments(ToolArguments, frozen=True):
    """Arguments of `read_file`."""

    uri: Annotated[str, Meta(min_length=1, description="uri of the attachment.")]
    offset: Annotated[int, Meta(ge=0, description="Byte at which the text begins.")] = 0
    via_workspace: ActingWorkspaceArgument = ""


class ReadFileResult(Struct, frozen=True, kw_only=True):
    """A file.

    `text` is set for text, `path` where a copy is on your machine. `next_offset`: where more text begins; 0: no more.
    An image is shown beside this result."""

    uri: str
    name: str
    mime_type: str
    size: int
    text: str = ""
    next_offset: int = 0
    path: str = ""
    note: str = ""


class UploadFileArguments(ToolArguments, frozen=True):
    """Arguments of `upload_file`."""

    path: Annotated[str, Meta(description="Path of a file in your working folder.")] = ""
    text: Annotated[str, Meta(description="Content, instead of `path`.")] = ""
    name: Annotated[str, Meta(description="File name. Default: that of `path`.")] = ""
    via_workspace: ActingWorkspaceArgument = ""


class UploadFileResult(Struct, frozen=True, kw_only=True):
    """An uploaded file, as an element of `attachments`."""

    uri: str
    name: str
    mimeType: str
    size: int
    workspace_id: str
