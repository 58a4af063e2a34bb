// @vitest-environment node
import { expect, test, vi } from "vitest";
import { newId } from "./ids";

test("where the browser gives no ids, they are made of its random bytes", () => {
  vi.stubGlobal("crypto", { getRandomValues: crypto.getRandomValues.bind(crypto) });
  const ids = Array.from({ length: 100 }, newId);
  expect(new Set(ids).size).toBe(100);
  for (const id of ids) expect(id).toMatch(/^[0-9a-f]{32}$/);
});
