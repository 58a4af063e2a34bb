import { expect, test } from "vitest";
import { membersOf } from "./teamMembers";

test("each line is a member, with a role after its first colon", () => {
  expect(membersOf(" Tester : runs tests: all \n\nWriter\n: nobody\n")).toEqual([{ name: "Tester", role: "runs tests: all" }, { name: "Writer" }]);
});

test("no text is no team", () => {
  expect(membersOf(" \n\t\n")).toEqual([]);
});
