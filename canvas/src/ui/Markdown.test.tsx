import { render } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { HOSTILE } from "./hostileMarkdown";
import Markdown from "./Markdown";

const FETCHING = "script, img, iframe, object, embed, video, audio, source, link, meta, base, form, input, style, svg image";

function shown(text: string): HTMLElement {
  return render(<Markdown text={text} />).container;
}

test("the corpus holds at least sixty texts", () => {
  expect(HOSTILE.length).toBeGreaterThanOrEqual(60);
});

test.each(HOSTILE.map((text) => [text.slice(0, 60), text] as const))("%j runs, fetches and hides nothing", (_name, text) => {
  const root = shown(text);
  expect(root.querySelectorAll(FETCHING)).toHaveLength(0);
  for (const element of root.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      expect(name.startsWith("on"), `${element.tagName} ${name}`).toBe(false);
      expect(["src", "srcset", "style", "action", "data", "xlink:href"].includes(name) && value !== "", name).toBe(false);
    }
  }
  for (const link of root.querySelectorAll("a")) {
    expect(link.href).toMatch(/^(https?:\/\/|mailto:)/);
    expect(link.origin).not.toBe(location.origin);
    expect(link.target).toBe("_blank");
    expect(link.rel).toBe("noopener noreferrer");
  }
  expect("hit" in window).toBe(false);
});

test("markup is shown as it was written", () => {
  expect(shown("a <b>bold</b> <script>x()</script>").textContent).toBe("a <b>bold</b> <script>x()</script>");
});

test("a picture is a link that names its host", () => {
  const link = shown("![chart](https://img.example.net/a.png)").querySelector("a");
  expect(link?.textContent).toBe("image “chart” on img.example.net");
  expect(link?.href).toBe("https://img.example.net/a.png");
});

test.each([
  ["[https://bank.example](https://evil.example/x)", "evil.example"],
  ["[bank.example](https://evil.example)", "evil.example"],
  ["[pay at bank.example now](https://bank.example.evil.example)", "bank.example.evil.example"],
  ["[https://bank.example@evil.example/](https://bank.example@evil.example/)", "evil.example"],
  ["[ada@bank.example](mailto:thief@evil.example)", "thief@evil.example"],
  ["[bank。example](https://evil.example)", "evil.example"],
  ["[127.0.0.1](https://evil.example)", "evil.example"],
])("%s says where it leads", (text, host) => {
  expect(shown(text).textContent).toContain(`(leads to ${host})`);
});

test.each(["https://example.org/a?b=c", "[example.org](https://www.example.org/a)", "[the notes](https://example.org)", "<ada@example.org>", "[ada.smith@example.org](mailto:ada.smith@example.org)", "[v1.2 notes](https://example.org)"])(
  "%s is an honest link",
  (text) => {
    const root = shown(text);
    expect(root.querySelectorAll("a")).toHaveLength(1);
    expect(root.textContent).not.toContain("leads to");
  },
);

test("what may not be followed is words", () => {
  const root = shown("[press](javascript:alert(1)) and [log out](/logout)");
  expect(root.querySelectorAll("a")).toHaveLength(0);
  expect(root.textContent).toBe("press and log out");
});

test("code can be copied as it is, with a button of its own", () => {
  const root = shown("```js\nconst a = 1;\n\n  indented();\n```");
  expect(root.querySelector("pre")?.textContent).toBe("const a = 1;\n\n  indented();\n");
  expect(root.querySelector("button")?.getAttribute("aria-label")).toBe("Copy code");
});

test.each([
  ["it takes ~5 min, or ~10", "it takes ~5 min, or ~10", ""],
  ["3~5人、10~20分", "3~5人、10~20分", ""],
  ["~~gone~~", "gone", "del"],
  ["~~消す。~~次", "消す。次", "del"],
  ["これは**「重要」**です", "これは「重要」です", "strong"],
  ["**注意：**必ず読む", "注意：必ず読む", "strong"],
  ["这是**“重点”**内容", "这是“重点”内容", "strong"],
  ["*強調。*続き", "強調。続き", "em"],
  ["snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4", ""],
])("%s is shown as it is meant", (source, words, mark) => {
  const root = shown(source);
  expect(root.textContent).toBe(words);
  expect([...root.querySelectorAll("del, strong, em")].map((each) => each.tagName.toLowerCase())).toEqual(mark === "" ? [] : [mark]);
});

test.each([
  ["詳細はhttps://example.org/a。次の文", ["https://example.org/a"]],
  ["（https://example.org/a?b=c）を見る", ["https://example.org/a?b=c"]],
  ["「www.example.org/x」です", ["http://www.example.org/x"]],
  ["看https://example.org/a，再看https://example.net/b！", ["https://example.org/a", "https://example.net/b"]],
  ["https://example.org/a、**太字**", ["https://example.org/a"]],
  ["https://ja.example.org/wiki/ジョン・レノン", ["https://ja.example.org/wiki/%E3%82%B8%E3%83%A7%E3%83%B3%E3%83%BB%E3%83%AC%E3%83%8E%E3%83%B3"]],
  ["see https://example.org/a_(b), and more.", ["https://example.org/a_(b)"]],
  ["ada@example.org。", ["mailto:ada@example.org"]],
  ["[全文](https://example.org/、a)", ["https://example.org/%E3%80%81a"]],
])("the links of %s end where the address ends", (source, addresses) => {
  const root = shown(source);
  expect([...root.querySelectorAll("a")].map((each) => each.href)).toEqual(addresses);
  if (!source.startsWith("[")) expect(root.textContent).toBe(source.replaceAll("*", ""));
});

test("each block has its own direction, and code is left to right", () => {
  const root = shown("שלום עולם\n\nhello\n\n# مرحبا\n\n- פריט\n\n> ציטוט\n\nהריצו `npm test` עכשיו\n\n```\nls -la\n```\n\n| א |\n|---|\n| ב |");
  const of = (selector: string): (string | null)[] => [...root.querySelectorAll(selector)].map((each) => each.getAttribute("dir"));
  expect(of("ul, blockquote, table, :scope > p")).toEqual(["auto", "auto", "auto", "auto", "auto", "auto", "auto"]);
  expect(of("code, pre")).toEqual(["ltr", "ltr", "ltr"]);
});

test("tasks of a list are check marks", () => {
  const root = shown("- [x] shipped\n- [ ] open");
  expect([...root.querySelectorAll("svg[role=img]")].map((each) => each.getAttribute("aria-label"))).toEqual(["Done:", "To do:"]);
  expect(root.textContent).not.toContain("[");
});

test("code of a known language is coloured, and stays the same text", async () => {
  const code = 'def greet(name):\n    return f"<b>{name}</b>"  # said\n';
  const root = shown(`\`\`\`python\n${code}\`\`\``);
  const block = root.querySelector("pre");
  expect(block?.textContent).toBe(code);
  await vi.waitFor(() => expect(block?.querySelectorAll("span").length).toBeGreaterThan(3), { timeout: 5_000 });
  expect(block?.textContent).toBe(code);
  expect(block?.querySelector("b")).toBeNull();
});

test("code of an unknown language, and code without one, stay as they are", () => {
  for (const text of ["```cobol-4\nMOVE A TO B\n```", "```\nplain\n```"]) expect(shown(text).querySelectorAll("pre span")).toHaveLength(0);
});
