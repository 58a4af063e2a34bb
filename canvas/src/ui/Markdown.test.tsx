import { render } from "@testing-library/react";
import { expect, test } from "vitest";
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
  expect(link?.textContent).toBe("picture “chart” on img.example.net");
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
