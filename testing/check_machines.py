"""Machines whose runner offers commands that check answers, played by hand."""

from typing import Any

from molecule_core.client.api import ApiClient
from testing.acceptance_jobs import Job

PASSED = {"exit_code": 0, "seconds": 1.5, "output": "3 passed", "sha256": "0" * 64, "size": 8}


class Machine:
    """A runner of a test, which offers commands for the worker."""

    def __init__(self, job: Job, view: dict[str, Any], org_id: str) -> None:
        self.job = job
        self.id: str = view["id"]
        self.token: str = view["token"]
        self.place = f"/orgs/{org_id}/runners/{self.id}"
        self.own: ApiClient = job.world.server.api(self.token)

    async def offer(self, *names: str) -> None:
        """Report which commands are offered."""
        checks = [{"workspace_id": self.job.ops.id, "names": list(names)}]
        await self.own.post("/runner/report", {"machine": "laptop", "version": "1", "checks": checks})

    async def claim(self) -> list[dict[str, Any]]:
        """Claim what it is asked to do."""
        return list((await self.own.post("/runner/claim", {"wait": 0}))["requests"])

    async def confirm(self, request: dict[str, Any], **found: Any) -> None:
        """Confirm the end of a command."""
        body = {"status": "done", "check": {**PASSED, **found}}
        await self.own.post(f"/runner/requests/{request['id']}/confirm", body)


async def machine_of(job: Job) -> Machine:
    """A runner that offers `tests` for the worker."""
    admin = job.world.server.admin
    org_id = (await admin.get("/orgs"))[0]["id"]
    machine = Machine(job, await admin.post(f"/orgs/{org_id}/runners", {"name": "Laptop"}), org_id)
    await machine.offer("tests", "lint")
    return machine
