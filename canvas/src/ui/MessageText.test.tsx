import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { MessageText } from "./MessageText";

test("terminal colours of a message are not shown, with Markdown and without", async () => {
  render(<MessageText text={"\u001b[32m3 passed\u001b[0m in 2 s"} />);
  expect(screen.getByText("3 passed in 2 s").getAttribute("dir")).toBe("auto");
  const { container } = render(<MessageText text={"\u001b[1m**bold**\u001b[0m `\u001b[31mcode\u001b[0m`"} />);
  expect((await screen.findByText("code")).textContent).toBe("code");
  expect(container.textContent).toBe("bold code");
});
