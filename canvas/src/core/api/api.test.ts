// @vitest-environment node
import { expect, test, vi } from "vitest";
import { approvalOf } from "../state/approvals";
import { approvalRow } from "../testing/approvalRows";
import { NO_PROBLEMS } from "../state/problems";
import { Api, NoResponseError, ApiError, errorText } from "./api";

function answering(body: unknown, status = 200): { api: Api; fetched: ReturnType<typeof vi.fn>; ended: ReturnType<typeof vi.fn> } {
  const fetched = vi.fn().mockResolvedValue(typeof body === "string" ? new Response(body, { status }) : Response.json(body, { status }));
  vi.stubGlobal("fetch", fetched);
  const ended = vi.fn();
  return { api: new Api(ended), fetched, ended };
}

const caught = (promise: Promise<unknown>): Promise<unknown> => promise.then(() => null, (error: unknown) => error);

test("commands say who sends them, and reads need not", async () => {
  const { api, fetched } = answering({ status: "queued" });
  await api.send("w/1", "c1", "hello");
  const [path, request] = fetched.mock.calls[0] as [string, RequestInit];
  expect(path).toBe("/workspaces/w%2F1/a2a");
  expect(request).toMatchObject({ method: "POST", credentials: "same-origin", headers: { "X-Molecule-Client": "canvas" } });
  expect(JSON.parse(String(request.body))).toEqual({
    jsonrpc: "2.0",
    id: "c1",
    method: "message/send",
    params: { message: { role: "user", messageId: "c1", parts: [{ kind: "text", text: "hello" }] } },
  });
  fetched.mockResolvedValue(Response.json({ messages: [], reached_end: true }));
  await api.timeline("w", 50, 7);
  expect(fetched.mock.calls[1]?.[0]).toBe("/workspaces/w/timeline?limit=50&before=7");
});

test.each([
  [{ error: "the inbox is full", code: "inbox_full" }, 429, "The inbox is full"],
  [{ jsonrpc: "2.0", error: { code: -32602, message: "no text" } }, 400, "No text"],
  [{ jsonrpc: "2.0", error: { code: -32602, message: "no text" } }, 200, "No text"],
  [{ detail: "too large" }, 413, "Too large"],
  ["<html>", 502, "The server responded with status 502."],
])("%j with status %i is told as: %s", async (body, status, words) => {
  const error = await caught(answering(body, status).api.send("w", "c", "x"));
  expect(error).toBeInstanceOf(ApiError);
  expect(errorText(error)).toBe(words);
});

test("an ended session is noticed with any command, but not with asking whether there is one", async () => {
  const { api, fetched, ended } = answering({ error: "not logged in" }, 401);
  await caught(api.session());
  expect(ended).not.toHaveBeenCalled();
  fetched.mockResolvedValue(Response.json({ error: "not logged in" }, { status: 401 }));
  await caught(api.markRead("w", 3));
  expect(ended).toHaveBeenCalledOnce();
});

test("no answer is told from a refusal", async () => {
  vi.stubGlobal("fetch", vi.fn().mockRejectedValue(new TypeError("failed")));
  const error = await caught(new Api(() => undefined).logOut());
  expect(error).toBeInstanceOf(NoResponseError);
  expect(errorText(error)).toBe("The server did not respond.");
});

test("a new seat's commands come with its token", async () => {
  const { api, fetched } = answering({ id: "n", name: "Nora 2", connection: { auth_token: "t" } }, 201);
  expect(await api.createWorkspace({ name: "Nora" })).toEqual({ id: "n", name: "Nora 2", token: "t" });
  expect(JSON.parse(String((fetched.mock.calls[0] as [string, RequestInit])[1].body))).toEqual({ name: "Nora", external: true });
});

test.each([
  ["escalate", { kind: "workspace", workspace_id: "l", name: "Lead" }, { decision: "escalate", revision: 2, action_hash: "0c", holder: "l" }],
  ["escalate", { kind: "person", workspace_id: null, name: "" }, { decision: "escalate", revision: 2, action_hash: "0c" }],
  ["approve", { kind: "workspace", workspace_id: "l", name: "Lead" }, { decision: "approve", revision: 2, action_hash: "0c" }],
] as const)("whoever answers %s says what was shown", async (verdict, holder, sent) => {
  const row = approvalRow("p1", { revision: 2, action_hash: "0c", holder });
  const { api, fetched } = answering(row);
  const shown = approvalOf(row);
  if (shown === null) throw new Error("no approval");
  await api.decide(shown, { verdict, note: "", details: null }, true);
  expect((fetched.mock.calls[0] as [string, RequestInit])[1].keepalive).toBe(true);
  expect(JSON.parse(String((fetched.mock.calls[0] as [string, RequestInit])[1].body))).toEqual(sent);
});

test("the lists of what is stuck are read together, each with whether it goes on", async () => {
  const { api, fetched } = answering({});
  const row = { workspace_id: "w", workspace_name: "Ops", status: "offline", waiting: 100, more: true, since: "2026-03-01T09:00:00Z" };
  fetched.mockImplementation((path: string) =>
    Promise.resolve(Response.json(path === "/orgs/o%2F1/untaken" ? { untaken: [row, {}], reached_end: false, next_check_seconds: 42 } : { reached_end: true })),
  );
  const found = await api.problems("o/1");
  expect(found).toEqual({
    ...NO_PROBLEMS,
    nextCheckSeconds: 42,
    unclaimed: [{ workspaceId: "w", workspaceName: "Ops", waiting: 100, more: true, since: row.since }],
    moreUnclaimed: true,
  });
  expect(fetched).toHaveBeenCalledTimes(5);
});

test("a snapshot of a large organisation is read to its last page", async () => {
  const { api, fetched } = answering({ as_of: 7, workspaces: [{ id: "a" }], chats: [{ workspace_id: "a" }], next_workspace: "a/1" });
  fetched
    .mockResolvedValueOnce(Response.json({ as_of: 7, workspaces: [{ id: "a" }], chats: [{ workspace_id: "a" }], next_workspace: "a/1" }))
    .mockResolvedValueOnce(Response.json({ workspaces: [{ id: "b" }], chats: [], next_workspace: "b" }))
    .mockResolvedValueOnce(Response.json({ workspaces: [{ id: "c" }], chats: [{ workspace_id: "c" }], next_workspace: null }));
  const found = await api.snapshot("o");
  expect(found.workspaces.map(({ id }) => id)).toEqual(["a", "b", "c"]);
  expect(found.chats.map(({ workspace_id }) => workspace_id)).toEqual(["a", "c"]);
  expect([found.as_of, found.next_workspace]).toEqual([7, null]);
  expect(fetched.mock.calls.map(([path]) => path as string)).toEqual([
    "/orgs/o/snapshot",
    "/orgs/o/snapshot?after=a%2F1",
    "/orgs/o/snapshot?after=b",
  ]);
});
