import { act, fireEvent, screen } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { approvalOf } from "../../core/state/approvals";
import { approvalRow } from "../../core/testing/approvalRows";
import { Attention } from "../attention/Attention";
import { Notifier } from "./Notifier";
import { SettingsView } from "../settings/SettingsView";
import { TestPage, flushPromises } from "../../core/testing/testPage";

/** A browser that grants permission but cannot show notifications. */
class Unable {
  static readonly permission = "granted";
  static made = 0;
  constructor() {
    Unable.made += 1;
    throw new TypeError("Illegal constructor. Use ServiceWorkerRegistration.showNotification() instead.");
  }
}

beforeEach(() => {
  Unable.made = 0;
  vi.stubGlobal("Notification", Unable);
  Object.defineProperty(navigator, "locks", { configurable: true, value: { request: async (_: string, __: unknown, held: () => Promise<void>) => held() } });
  vi.spyOn(document, "visibilityState", "get").mockReturnValue("hidden");
});
afterEach(() => Reflect.deleteProperty(navigator, "locks"));

test("a browser that cannot notify loses no event, and the setting says why its tick is gone", async () => {
  const reported = vi.fn();
  vi.stubGlobal("reportError", reported);
  const made = new TestPage();
  made.server.do({ verb: "create", id: "a", parent: null });
  made.load();
  vi.spyOn(made.api, "budgets").mockResolvedValue([]);
  made.app.settings.change({ notify: true });
  made.show(
    <>
      <Attention />
      <Notifier />
      <SettingsView />
    </>,
  );
  await flushPromises();
  const tick = screen.getByRole<HTMLInputElement>("checkbox", { name: "Desktop notifications" });
  expect(tick.checked).toBe(true);
  const asked = ["p1", "p2"].map((id) => approvalOf(approvalRow(id, { for_person: true }))).filter((each) => each !== null);
  act(() => made.session.decisions.merge(asked));
  expect([tick.checked, made.app.settings.get().notify, Unable.made]).toEqual([false, false, 1]);
  expect(screen.getByRole("alert").textContent).toContain("This browser could not show");
  expect(reported).not.toHaveBeenCalled();
  await act(async () => void fireEvent.click(tick));
  expect(screen.queryByRole("alert")).toBeNull();
  expect(made.app.settings.get().notify).toBe(true);
});
