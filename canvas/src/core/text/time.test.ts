// @vitest-environment node
import { expect, test } from "vitest";
import { absolute, brief, clock, dayHeading, dayKey, duration, fieldOf, isTimeZone, relative, showTimesIn, timeOfField, until } from "./time";

const BERLIN = "Europe/Berlin";
const at = (text: string): number => Date.parse(text);

test.each([
  ["2026-03-10T12:00:00Z", "2026-03-10T12:00:59Z", "just now"],
  ["2026-03-10T12:00:00Z", "2026-03-10T11:59:00Z", "just now"],
  ["2026-03-10T12:00:00Z", "2026-03-10T12:01:00Z", "1 min ago"],
  ["2026-03-10T12:00:00Z", "2026-03-10T12:59:59Z", "59 min ago"],
  ["2026-03-10T12:00:00Z", "2026-03-10T13:00:00Z", "1 h ago"],
  ["2026-03-10T05:00:00Z", "2026-03-10T20:00:00Z", "15 h ago"],
  ["2026-03-09T12:00:00Z", "2026-03-10T12:00:00Z", "Yesterday, 13:00"],
  ["2026-03-01T12:00:00Z", "2026-03-10T12:00:00Z", "1 Mar"],
  ["2024-12-31T12:00:00Z", "2026-03-10T12:00:00Z", "31 Dec 2024"],
])("%s seen at %s is %s", (then, now, words) => {
  expect(relative(then, at(now), BERLIN)).toBe(words);
});

test("just after midnight, a message of a few minutes ago is minutes old and of yesterday", () => {
  const [then, now] = ["2026-03-10T22:55:00Z", at("2026-03-10T23:05:00Z")];
  expect(relative(then, now, BERLIN)).toBe("10 min ago");
  expect(dayHeading(then, now, BERLIN)).toBe("Yesterday");
  expect(dayHeading("2026-03-10T23:01:00Z", now, BERLIN)).toBe("Today");
});

test("days are calendar days, also where one has 23 hours", () => {
  // The clocks go forward on 29 March 2026 at 02:00 in Berlin.
  const now = at("2026-03-29T22:30:00Z"); // 00:30 on the 30th
  expect(dayHeading("2026-03-29T21:59:00Z", now, BERLIN)).toBe("Yesterday");
  expect(dayHeading("2026-03-28T23:30:00Z", now, BERLIN)).toBe("Yesterday");
  expect(dayHeading("2026-03-28T22:30:00Z", now, BERLIN)).toMatch(/^Saturday,? 28 March$/);
});

test("days are calendar days, also where one has 25 hours", () => {
  // The clocks go back on 25 October 2026 at 03:00 in Berlin.
  const now = at("2026-10-25T22:59:00Z"); // 23:59 on the 25th
  expect(dayHeading("2026-10-24T22:00:00Z", now, BERLIN)).toBe("Today"); // 00:00 on the 25th, 25 hours before
  expect(dayHeading("2026-10-24T21:59:00Z", now, BERLIN)).toBe("Yesterday");
});

test("the same moment is on different days in different zones", () => {
  const moment = at("2026-03-10T23:30:00Z");
  expect(dayKey(moment, BERLIN)).toBe("2026-03-11");
  expect(dayKey(moment, "America/New_York")).toBe("2026-03-10");
});

test("the exact time names the day and the zone", () => {
  expect(absolute("2026-03-29T00:30:00Z", BERLIN)).toMatch(/^Sunday,? 29 March 2026 at 01:30:00 CET$/);
  expect(absolute("2026-03-29T01:30:00Z", BERLIN)).toMatch(/^Sunday,? 29 March 2026 at 03:30:00 CEST$/);
});

test("a later time is the time of today, else with the day", () => {
  const now = at("2026-03-10T20:00:00Z");
  expect(until("2026-03-10T21:05:00Z", now, BERLIN)).toBe("22:05");
  expect(until("2026-03-10T23:05:00Z", now, BERLIN)).toBe("11 Mar, 00:05");
  expect(until("soon", now, BERLIN)).toBe("");
});

test("lists show the time of today, else the day", () => {
  const now = at("2026-03-10T20:00:00Z");
  expect(brief("2026-03-10T05:04:00Z", now, BERLIN)).toBe("06:04");
  expect(brief("2026-03-09T22:59:00Z", now, BERLIN)).toBe("Yesterday");
  expect(brief("2026-01-02T12:00:00Z", now, BERLIN)).toBe("2 Jan");
});

test.each([
  ["2026-03-10T11:59:30Z", "less than a minute"],
  ["2026-03-10T11:58:00Z", "2 min"],
  ["2026-03-10T09:30:00Z", "2 h"],
  ["2026-03-09T11:00:00Z", "1 day"],
  ["2026-03-01T11:00:00Z", "9 days"],
])("since %s is %s", (since, words) => {
  expect(duration(since, at("2026-03-10T12:00:00Z"))).toBe(words);
});

test("what is no time has no words", () => {
  for (const say of [relative, brief, dayHeading]) expect(say("soon", Date.now(), BERLIN)).toBe("");
  expect(absolute("", BERLIN)).toBe("");
});

test("times are shown in the zone of the settings, and in the browser's without one", () => {
  const at = Date.parse("2026-01-05T23:30:00Z");
  const own = clock(at);
  showTimesIn("Asia/Tokyo");
  expect([clock(at), dayHeading("2026-01-05T23:30:00Z", at)]).toEqual(["08:30", "Today"]);
  expect(fieldOf(at)).toBe("2026-01-06T08:30");
  expect(clock(at, "UTC")).toBe("23:30");
  showTimesIn(undefined);
  expect(clock(at)).toBe(own);
});

test.each(["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia", "Europe/Berlin"])("a field in %s keeps each minute, also around changes of clocks", (zone) => {
  for (const day of ["2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-07-01"]) {
    for (let hour = 0; hour < 24; hour += 1) {
      const time = Date.parse(`${day}T${String(hour).padStart(2, "0")}:45:00Z`);
      const again = timeOfField(fieldOf(time, zone), zone);
      expect(fieldOf(again, zone)).toBe(fieldOf(time, zone));
      expect(Math.abs(again - time)).toBeLessThanOrEqual(3_600_000);
    }
  }
  expect(timeOfField("soon", zone)).toBeNaN();
});

test("only zones that the browser knows are zones", () => {
  expect([isTimeZone("Europe/Berlin"), isTimeZone("UTC"), isTimeZone(""), isTimeZone("<b>"), isTimeZone("Mars/Base")]).toEqual([true, true, false, false, false]);
});
