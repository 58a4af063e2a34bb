/** All keyboard shortcuts. */

import { useSettings } from "../../core/app";
import { Dialog } from "../../ui/Dialog";
import css from "./Shortcuts.module.css";

const KEYS: readonly { heading: string; single?: boolean; keys: readonly (readonly [string, string])[] }[] = [
  {
    heading: "Everywhere",
    keys: [
      ["Ctrl K", "Find agents, chats and commands"],
      ["Esc", "Close what was opened last"],
    ],
  },
  {
    heading: "While nobody types",
    single: true,
    keys: [
      ["A", "Next agent that needs you"],
      ["N", "Next unread chat"],
      ["W", "Next open work"],
      ["J  K", "Next and previous in a list of chats or requests"],
      ["?", "This list"],
    ],
  },
  {
    heading: "In the list of agents",
    keys: [
      ["Up Down", "Move"],
      ["Right Left", "Unfold and fold a team"],
      ["Letters", "Go to the name that begins so"],
      ["Enter", "Open the agent"],
    ],
  },
  {
    heading: "In a tree of work",
    keys: [
      ["Right Left", "Unfold and fold"],
      ["Enter", "Open what is below in its place"],
      ["+ - 0", "Zoom the time line, show all of it"],
    ],
  },
  {
    heading: "On the map",
    keys: [
      ["+ or -", "Zoom"],
      ["0", "Show everything"],
      ["Arrows", "Move"],
    ],
  },
];

export function Shortcuts({ onClose }: { onClose: () => void }) {
  const { singleKeys } = useSettings();
  return (
    <Dialog label="Keys" onClose={onClose}>
      <div className={css.all} role="group" aria-label="Keys" tabIndex={0}>
        {KEYS.map(({ heading, single, keys }) => (
          <section key={heading} className={css.group}>
            <h3>{heading}</h3>
            {single && !singleKeys && <p className={css.off}>These are turned off in the settings.</p>}
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
