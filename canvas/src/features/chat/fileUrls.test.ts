// @vitest-environment node
import { expect, test } from "vitest";
import { canPreview, fileUrl } from "./fileUrls";

const [ONE, TWO] = ["01900000-0000-7000-8000-00000000beef", "01900000-0000-7000-8000-00000000cafe"];
const PATH = `/workspaces/${ONE}/files/${TWO}`;
const HERE = "https://molecule.example";

test.each([`platform-pending:${ONE}/${TWO}`, PATH, `${HERE}${PATH}`])("%s is a file of ours", (uri) => {
  expect(fileUrl(uri, HERE)).toBe(PATH);
});

test.each([
  null,
  "",
  "https://files.example/a.pdf",
  `https://elsewhere.example${PATH}`,
  `${HERE}.evil.example${PATH}`,
  `//evil.example${PATH}`,
  `${PATH}/preview`,
  `${PATH}?x=1`,
  `platform-pending:${ONE}/../${TWO}`,
  `javascript:alert(1)//${PATH}`,
  "data:text/html,x",
])("%s is none", (uri) => {
  expect(fileUrl(uri, HERE)).toBeNull();
});

test("only small pictures of four kinds are asked for, and never a drawing that can run", () => {
  expect(canPreview({ type: "image/png", size: 10 })).toBe(true);
  expect(canPreview({ type: "image/svg+xml", size: 10 })).toBe(false);
  expect(canPreview({ type: "text/html", size: 10 })).toBe(false);
  expect(canPreview({ type: null, size: 10 })).toBe(false);
  expect(canPreview({ type: "image/webp", size: 50_000_000 })).toBe(false);
});
