"""The person for whom an editor acts: credential, organisation, and the workspaces that the person may write to."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from molecule_core.agent.editor.connection import AUTHENTICATION_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, EditorError
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.org_plan import row_path

Row = dict[str, Any]
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_VIEWER = "viewer"
MAX_LISTED = 200
"""Workspaces to choose from: a menu of an editor is not longer. Others are chosen by --workspace."""


class PersonCredential(Struct, frozen=True):
    """Where the server is and the token of the person; None if there is none, for the `reason`."""

    url: str
    token: str | None
    reason: str = ""


class PersonAccount:
    """A person at one server. Requests are made with the credential that was found last."""

    def __init__(self, find_credential: Callable[[], PersonCredential], org: str | None, advice: str) -> None:
        self._find_credential = find_credential
        self._wanted_org = org
        self._advice = advice
        self._api: ApiClient | None = None
        self._workspaces: dict[str, Row] = {}
        self.url = ""
        self.org_id = ""
        self.name = ""
        self.role = ""
        self.is_admin = False

    @property
    def api(self) -> ApiClient:
        """Return the client. Only after `log_in`."""
        assert self._api is not None
        return self._api

    @property
    def may_write(self) -> bool:
        """Return whether the person may send messages and decide approvals."""
        return self.role != _VIEWER

    @property
    def org_query(self) -> dict[str, str]:
        """Return the parameter by which the admin selects the organisation, for live channels."""
        return {"org_id": self.org_id} if self.is_admin else {}

    async def log_in(self) -> None:
        """Find the credential and the person, unless that is done. Raises EditorError."""
        if self._api is not None:
            return
        credential = self._find_credential()
        if credential.token is None:
            raise EditorError(AUTHENTICATION_REQUIRED, f"{credential.reason} {self._advice}")
        api = ApiClient(credential.url, credential.token)
        try:
            session = await api.get("/session")
            await self._set_person(api, session)
        except (ApiError, NoAnswerError, KeyError, TypeError, IndexError) as error:
            await api.close()
            raise self.editor_error(error, credential.url) from None
        self._api, self.url = api, credential.url

    async def _set_person(self, api: ApiClient, session: Row) -> None:
        user = session["user"]
        self.is_admin, self.name, self.role = user["kind"] == "admin", str(user["name"]), str(user["role"])
        orgs = await api.get("/orgs") if self.is_admin else [session["org"]]
        found = [each for each in orgs if self._wanted_org in (None, each["id"], each["name"])]
        if not found:
            raise EditorError(
                INVALID_PARAMS, f"organisation {self._wanted_org!r} does not exist. Set --org to the id or name of one."
            )
        self.org_id = str(found[0]["id"])

    async def close(self) -> None:
        """Close the connections."""
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def load_workspaces(self) -> dict[str, Row]:
        """Return the workspaces of the organisation by id, as they are now. Raises EditorError."""
        rows = await self.request("GET", "/workspaces", query={"org_id": self.org_id if self.is_admin else None})
        self._workspaces = {row["id"]: row for row in rows if not row.get("removed_at")}
        return self._workspaces

    @property
    def workspaces(self) -> dict[str, Row]:
        """Return the workspaces by id, as they were loaded last."""
        return self._workspaces

    def path_of(self, workspace_id: str) -> str:
        """Return the path of a workspace, such as Lead/Ops; its id if it is unknown."""
        row = self._workspaces.get(workspace_id)
        return "/".join(row_path(row, self._workspaces)) if row else workspace_id

    def is_within(self, workspace_id: str, root_id: str) -> bool:
        """Return whether a workspace is another one, or below it."""
        current: str | None = workspace_id
        for _ in range(len(self._workspaces) + 1):
            if current is None or current == root_id:
                return current == root_id
            row = self._workspaces.get(current)
            current = row["parent_id"] if row else None
        return False

    def writable(self) -> list[Row]:
        """Return the workspaces that the person may write to, by path, at most `MAX_LISTED`."""
        if not self.may_write:
            return []
        return sorted(self._workspaces.values(), key=lambda row: self.path_of(row["id"]))[:MAX_LISTED]

    async def request(self, method: str, path: str, *, body: Any = None, query: dict[str, Any] | None = None) -> Any:
        """Make a request. Raises EditorError."""
        try:
            return await self.api.call(method, path, body=body, query=query)
        except (ApiError, NoAnswerError) as error:
            raise self.editor_error(error, self.url) from None

    def editor_error(self, error: Exception, url: str) -> EditorError:
        """Return what the editor shows for an error of a request."""
        if isinstance(error, EditorError):
            return error
        if isinstance(error, ApiError) and error.status == _UNAUTHORIZED:
            return EditorError(AUTHENTICATION_REQUIRED, f"The token is not valid at {url}. {self._advice}")
        if isinstance(error, ApiError):
            code = INVALID_PARAMS if error.status == _FORBIDDEN else INTERNAL_ERROR
            return EditorError(code, str(error.problem.get("error", error)))
        if isinstance(error, NoAnswerError):
            return EditorError(INTERNAL_ERROR, f"No server responds at {url}. Start it, or set --server.")
        return EditorError(INTERNAL_ERROR, f"{url} is not a Molecule server. Set --server to the address of one.")
