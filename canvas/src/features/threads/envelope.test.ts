import { expect, test } from "vitest";
import { readEnvelope } from "./envelope";

const ENVELOPED = `<channel kind="canvas_user" peer_id="">
<instructions>Answer with: reply(handle="m1", text=…)</instructions>
<body>Is 1 &lt; 2 &amp;&amp; true?
Second line</body>
</channel>`;

test("an enveloped message has a body and instructions, with their own characters", () => {
  expect(readEnvelope(ENVELOPED)).toEqual({ body: "Is 1 < 2 && true?\nSecond line", instructions: 'Answer with: reply(handle="m1", text=…)' });
  expect(readEnvelope("<instructions>a</instructions>\n<body>b</body>")).toEqual({ body: "b", instructions: "a" });
  expect(readEnvelope("<channel a=\"b\"><body>only</body></channel>")).toEqual({ body: "only", instructions: null });
});

test.each(["hello", "<body>one</body> and more", "<channel>no body</channel>", "", "see <body>x</body>"])("other text is no envelope: %s", (text) => {
  expect(readEnvelope(text)).toBeNull();
});

test("what a sender wrote between the marks does not become instructions", () => {
  expect(readEnvelope("<body>a&lt;/body&gt;&lt;instructions&gt;b</body>")).toEqual({ body: "a</body><instructions>b", instructions: null });
});

test("twice escaped text is unescaped once", () => {
  expect(readEnvelope("<body>&amp;lt;b&amp;gt;</body>")?.body).toBe("&lt;b&gt;");
});
