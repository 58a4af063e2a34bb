import { act, fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { NoResponseError } from "../../core/api/api";
import { UploadCancelledError } from "../../core/api/upload";
import type { Attachment } from "../../core/state/model";
import { memoryStorage } from "../../core/testing/modelServer";
import { Conversation } from "./Conversation";
import { TestPage, flushPromises } from "../../core/testing/testPage";

const PLACE = "/workspaces/01900000-0000-7000-8000-00000000beef/files/01900000-0000-7000-8000-00000000cafe";
const got = (name: string): Attachment => ({ name, size: 5, uri: PLACE, type: "text/plain" });

async function page(options?: ConstructorParameters<typeof TestPage>[0]): Promise<TestPage> {
  const made = new TestPage(options);
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load().show(<Conversation workspaceId="a" />);
  await flushPromises();
  return made;
}

const picker = (): HTMLInputElement => document.querySelector("input[type=file]") as HTMLInputElement;
const field = (): HTMLElement => screen.getByRole("textbox", { name: "Message to Agent a" });
const sendButton = (): HTMLElement => screen.getByRole("button", { name: "Send" });
const listed = (): string[] => within(screen.getByRole("list", { name: "Files to send" })).getAllByRole("listitem").map((each) => each.textContent ?? "");

function pick(...files: File[]): void {
  Object.defineProperty(picker(), "files", { value: files, configurable: true });
  fireEvent.change(picker());
}

const file = (name: string, size = 5): File => new File(["x".repeat(size)], name, { type: "text/plain" });

test("files alone are a message; their words come with them", async () => {
  const made = await page();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  vi.spyOn(made.api, "upload").mockImplementation((_id, each) => Promise.resolve(got(each.name)));
  expect(sendButton()).toHaveProperty("disabled", true);
  pick(file("a.txt"), file("b.txt"));
  expect(listed()).toEqual(["a.txt5 bytes", "b.txt5 bytes"]);
  fireEvent.click(sendButton());
  await flushPromises();
  expect(send.mock.calls[0]?.[2]).toBe("");
  expect(send.mock.calls[0]?.[3]?.files).toEqual([got("a.txt"), got("b.txt")]);
  expect(screen.queryByRole("list", { name: "Files to send" })).toBeNull();
});

test("one that is too large or too many is told at once and keeps the message back until it is removed", async () => {
  const made = await page();
  const upload = vi.spyOn(made.api, "upload");
  pick(file("large.bin", 1_000_001), file("b"), file("c"), file("d"));
  expect(screen.getAllByRole("alert").map((each) => each.textContent)).toEqual([
    "Cannot be sent: too large (1.0 MB, limit 1.0 MB)",
    "Cannot be sent: too many files (limit 3)",
  ]);
  expect(sendButton()).toHaveProperty("disabled", true);
  fireEvent.click(screen.getByRole("button", { name: "Remove large.bin" }));
  expect(screen.queryByRole("alert")).toBeNull();
  expect(sendButton()).toHaveProperty("disabled", false);
  expect(document.activeElement).toBe(field());
  expect(upload).not.toHaveBeenCalled();
});

test("a message whose file did not arrive keeps it, and sends only what is missing with the next try", async () => {
  const made = await page();
  const send = vi.spyOn(made.api, "send").mockResolvedValue({});
  const upload = vi.spyOn(made.api, "upload").mockResolvedValueOnce(got("a.txt")).mockRejectedValueOnce(new NoResponseError("The server did not respond."));
  pick(file("a.txt"), file("b.txt"));
  fireEvent.click(sendButton());
  await flushPromises();
  expect(screen.getByText("Not sent")).toBeTruthy();
  expect(send).not.toHaveBeenCalled();
  upload.mockResolvedValue(got("b.txt"));
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await flushPromises();
  expect(upload.mock.calls.map((call) => call[1].name)).toEqual(["a.txt", "b.txt", "b.txt"]);
  expect(screen.getByText(/^Queued/)).toBeTruthy();
});

test("sending shows how far it is and can be stopped", async () => {
  const made = await page();
  vi.spyOn(made.api, "upload").mockImplementation(
    (_id, _file, { onProgress, signal }) =>
      new Promise((_resolve, reject) => {
        onProgress(2);
        signal.addEventListener("abort", () => reject(new UploadCancelledError("You cancelled the upload.")));
      }),
  );
  pick(file("a.txt"));
  fireEvent.click(sendButton());
  await flushPromises();
  expect(screen.getByRole("progressbar", { name: "Sending a.txt" })).toHaveProperty("value", 2);
  fireEvent.click(screen.getByRole("button", { name: "Cancel upload" }));
  await flushPromises();
  expect(screen.getByText("You cancelled the upload.")).toBeTruthy();
  expect(screen.getByText("Not sent")).toBeTruthy();
  expect(screen.queryByRole("progressbar")).toBeNull();
});

test("after the page was loaded again, a message says honestly which file it has no more", async () => {
  const storage = memoryStorage();
  const first = await page({ storage });
  vi.spyOn(first.api, "upload").mockRejectedValue(new NoResponseError("The server did not respond."));
  pick(file("a.txt"));
  fireEvent.click(sendButton());
  await flushPromises();
  document.body.innerHTML = "";
  const later = await page({ storage });
  const upload = vi.spyOn(later.api, "upload");
  fireEvent.click(screen.getByRole("button", { name: "Retry" }));
  await flushPromises();
  expect(screen.getByText(/no longer has “a.txt”.*attach the files again/)).toBeTruthy();
  expect(upload).not.toHaveBeenCalled();
});

test("a file of ours can be saved and may be seen, one of elsewhere says where it lies, any other is words", async () => {
  const made = await page();
  made.server.do({ verb: "answer", id: "a", text: "see" });
  const event = made.server.journal.at(-1);
  const attachments = [
    { kind: "file", uri: PLACE, name: "plan\u202Egnp.exe", mime_type: "image/png", size: 9 },
    { kind: "file", uri: "https://files.example/x", name: "x.pdf" },
    { kind: "file", uri: "javascript:alert(1)", name: "y.pdf" },
  ];
  if (event) Object.assign(event, { payload: { ...(event.payload as object), attachments } });
  made.deliver();
  const ours = screen.getByRole("link", { name: /plangnp.exe/ });
  expect([ours.getAttribute("href"), ours.getAttribute("download")]).toEqual([`${PLACE}?session_org=org`, "plangnp.exe"]);
  const picture = screen.getByRole("img", { name: "Preview of plangnp.exe" });
  expect(picture.getAttribute("src")).toBe(`${PLACE}/preview?session_org=org`);
  act(() => void fireEvent.error(picture));
  expect(screen.queryByRole("img", { name: /Preview/ })).toBeNull();
  expect(screen.getByRole("link", { name: /x.pdf/ }).getAttribute("rel")).toBe("noopener noreferrer");
  expect(screen.getByText("(on files.example)")).toBeTruthy();
  expect(screen.queryByRole("link", { name: /y.pdf/ })).toBeNull();
  expect(screen.getByText("y.pdf")).toBeTruthy();
});

test("a viewer can attach nothing", async () => {
  await page({ role: "viewer" });
  expect(screen.getByRole("button", { name: "Attach files" })).toHaveProperty("disabled", true);
});
