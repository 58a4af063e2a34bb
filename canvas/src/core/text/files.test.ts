// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { shortFileName, cleanFileName, fileProblem } from "./files";

test.each([
  ["report.pdf", "report.pdf"],
  ["invoice\u202Efdp.exe", "invoicefdp.exe"],
  ["a\nb\u0000c", "a bc"],
  ["\u2066\u2069", "file"],
  ["", "file"],
  ["דוח.pdf", "דוח.pdf"],
])("the name %j is shown as %j", (name, shown) => {
  expect(cleanFileName(name)).toBe(shown);
});

test("whatever a name was, nothing of it turns or hides its neighbours", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 80 }), (name) => {
      expect(cleanFileName(name)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
      expect(cleanFileName(name)).not.toBe("");
    }),
  );
});

test("a long name loses its middle, and keeps what says which kind of file it is", () => {
  expect(shortFileName("short.pdf")).toBe("short.pdf");
  expect(shortFileName(`${"x".repeat(100)}.tar.gz`)).toBe(`${"x".repeat(24)}…xxxxx.tar.gz`);
  const families = `${"👩‍👩‍👧".repeat(60)}.png`;
  expect(shortFileName(families)).toBe(`${"👩‍👩‍👧".repeat(24)}…${"👩‍👩‍👧".repeat(8)}.png`);
});

test("what cannot be sent is told before it is sent", () => {
  const limits = { fileBytes: 1_000_000, files: 2 };
  expect(fileProblem({ size: 1_000_000 }, 1, limits)).toBeNull();
  expect(fileProblem({ size: 1_000_001 }, 0, limits)).toBe("too large (1.0 MB, limit 1.0 MB)");
  expect(fileProblem({ size: 0 }, 2, limits)).toBe("too many files (limit 2)");
  expect(fileProblem({ size: 1e12 }, 99, null)).toBeNull();
});
