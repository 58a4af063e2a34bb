import { fireEvent, screen, within } from "@testing-library/react";
import { expect, test, vi } from "vitest";
import { ApiError } from "../../core/api/api";
import { TestPage, flushPromises } from "../../core/testing/testPage";
import type { ModelPriceItem, PriceListBody } from "../../core/wire";
import { Prices } from "./Prices";
import { parsePrice } from "./money";

const GPT: ModelPriceItem = { model: "gpt-5*", input_micros: 1_250_000, cached_micros: 125_000, output_micros: 10_000_000 };
const HOSTILE: ModelPriceItem = { model: "<b>x</b>", input_micros: 0, cached_micros: 0, output_micros: 2_250 };

/** The server's list, which others may edit too. */
function show(role = "operator", refused: string | null = null) {
  const made = new TestPage({ role });
  made.load();
  const server = { currency: "USD", prices: [GPT, HOSTILE], version: 3, changed_at: null, changed_by: null };
  const put = vi.fn((body: PriceListBody) => Object.assign(server, body));
  vi.spyOn(made.api, "request").mockImplementation((method, _path, body) => {
    if (method === "PUT" && refused !== null) return Promise.reject(new ApiError(422, "invalid_field", refused));
    if (method === "PUT") put(body as PriceListBody);
    return Promise.resolve({ ...server }) as Promise<never>;
  });
  made.show(<Prices />);
  return { put, server };
}

const type = (label: string, value: string): void => void fireEvent.change(screen.getByLabelText(label), { target: { value } });

test("prices are listed as text, and a viewer can only read them", async () => {
  show("viewer");
  await flushPromises();
  const rows = within(screen.getByRole("region", { name: "Prices of models" })).getAllByRole("row");
  expect(rows.map((each) => [...each.children].map((cell) => cell.textContent))).toEqual([
    ["Model", "Input", "Cached", "Output"],
    ["gpt-5*", "US$1.25", "US$0.125", "US$10.00"],
    ["<b>x</b>", "US$0.00", "US$0.00", "US$0.0023"],
  ]);
  expect(screen.queryByRole("button")).toBeNull();
});

test("one price is set, also beside what others have edited meanwhile", async () => {
  const { put, server } = show();
  await flushPromises();
  const other = { ...GPT, model: "other" };
  server.prices = [...server.prices, other];
  fireEvent.click(screen.getByRole("button", { name: "Change… price of gpt-5*" }));
  type("Input", "1.5");
  fireEvent.click(screen.getByRole("button", { name: "Save price" }));
  await flushPromises();
  expect(put).toHaveBeenCalledExactlyOnceWith({ currency: "USD", prices: [HOSTILE, other, { ...GPT, input_micros: 1_500_000 }] });
  expect((screen.getByLabelText("Input") as HTMLInputElement).value).toBe("");
});

test("one price is deleted", async () => {
  const { put } = show();
  await flushPromises();
  fireEvent.click(screen.getByRole("button", { name: "Delete price of gpt-5*" }));
  await flushPromises();
  expect(put).toHaveBeenCalledExactlyOnceWith({ currency: "USD", prices: [HOSTILE] });
});

test("a refusal is shown, and what was typed stays", async () => {
  show("owner", "Prices cannot be more than 500.");
  await flushPromises();
  type("Set the price of a model", "m");
  type("Input", "1");
  expect(screen.getByRole("button", { name: "Save price" })).toHaveProperty("disabled", true);
  type("Output", "2");
  fireEvent.click(screen.getByRole("button", { name: "Save price" }));
  await flushPromises();
  expect(screen.getByRole("alert").textContent).toBe("Prices cannot be more than 500.");
  expect((screen.getByLabelText("Output") as HTMLInputElement).value).toBe("2");
});

test("prices are read as they are typed", () => {
  expect(["0", "1.25", " 10 ", "", "-1", "1,5", "all"].map(parsePrice)).toEqual([0, 1_250_000, 10_000_000, null, null, null, null]);
});
