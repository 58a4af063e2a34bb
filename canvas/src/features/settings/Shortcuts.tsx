/** All keyboard shortcuts. */

import { useSettings } from "../../core/app";
import { Dialog } from "../../ui/Dialog";
import css from "./Shortcuts.module.css";

const KEYS: readonly { heading: string; single?: boolean; keys: readonly (readonly [string, string])[] }[] = [
  {
    heading: "Everywhere",
    keys: [
      ["Ctrl+K", "Search agents, chats, texts and commands"],
      ["Esc", "Close the current dialog or panel"],
    ],
  },
  {
    heading: "When not typing",
    single: true,
    keys: [
      ["A", "Next item that needs attention"],
      ["N", "Next unread chat"],
      ["W", "Next open task"],
      ["J  K", "Next or previous chat, request or event"],
      ["U", "Mark the selected chat as unread"],
      ["?", "Show keyboard shortcuts"],
    ],
  },
  {
    heading: "In the agent list",
    keys: [
      ["Up Down", "Move between agents"],
      ["Right Left", "Expand or collapse a team"],
      ["A to Z", "Jump to an agent by name"],
      ["Enter", "Open agent"],
      ["Shift+F10", "Open the menu of an agent"],
    ],
  },
  {
    heading: "In a task tree",
    keys: [
      ["Right Left", "Expand or collapse"],
      ["Enter", "Open sub-task"],
      ["+ - 0", "Zoom the timeline in, out or to fit"],
    ],
  },
  {
    heading: "On the map",
    keys: [
      ["+ or -", "Zoom in or out"],
      ["0", "Fit to screen"],
      ["Arrows", "Pan"],
    ],
  },
];

export function Shortcuts({ onClose }: { onClose: () => void }) {
  const { singleKeys } = useSettings();
  return (
    <Dialog label="Keyboard shortcuts" onClose={onClose}>
      <div className={css.all} role="group" aria-label="Keyboard shortcuts" tabIndex={0}>
        {KEYS.map(({ heading, single, keys }) => (
          <section key={heading} className={css.group}>
            <h3>{heading}</h3>
            {single && !singleKeys && <p className={css.off}>Single-key shortcuts are turned off in settings.</p>}
            <dl>
              {keys.map(([key, words]) => (
                <div key={key} className={css.line}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <dd>{words}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
