/** Settings of this browser, and logging out. */

import { useId, useState, type ReactNode } from "react";
import { useApp, useSession, useSettings } from "../../core/app";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { errorText } from "../../core/api/api";
import { askToNotify, canNotify } from "../notifications/notifications";
import type { Theme } from "../../core/store/settings";
import { People } from "../people/People";
import group from "../../ui/SettingsGroup.module.css";
import css from "./SettingsView.module.css";

const THEMES: readonly { value: Theme; label: string }[] = [
  { value: "system", label: "As the system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

const ROLES: Readonly<Record<string, string>> = {
  viewer: "viewer: reads, and changes nothing",
  operator: "operator: writes to agents",
  owner: "owner: may do everything",
};

export function SettingsView() {
  const { settings } = useApp();
  const chosen = useSettings();
  return (
    <div className={css.settings}>
      <div className={css.inside}>
        <h2 className={css.title}>Settings</h2>
        <p className={css.lead}>Colours and keys count for this browser.</p>
        <fieldset className={group.group}>
          <legend>Colours</legend>
          <div className={css.themes}>
            {THEMES.map(({ value, label }) => (
              <label key={value} className={css.theme}>
                <input type="radio" name="theme" checked={chosen.theme === value} onChange={() => settings.change({ theme: value })} />
                {label}
              </label>
            ))}
          </div>
        </fieldset>
        <fieldset className={group.group}>
          <legend>Keys</legend>
          <Choice
            label="Enter sends a message"
            checked={chosen.enterSends}
            onChange={(enterSends) => settings.change({ enterSends })}
          >
            Without it, Enter makes a new line and Ctrl Enter sends.
          </Choice>
          <Choice label="Single-key shortcuts" checked={chosen.singleKeys} onChange={(singleKeys) => settings.change({ singleKeys })}>
            Letters that act while nobody types, such as A for the next that needs you.
          </Choice>
        </fieldset>
        <Notices />
        <Connect />
        <Instructions />
        <Person />
        <People />
      </div>
    </div>
  );
}

/** The browser is asked for permission only when the person enables it. */
function Notices() {
  const { settings } = useApp();
  const { notify, cannotNotify, sound } = useSettings();
  const [refused, setRefused] = useState(false);
  const choose = (on: boolean): void => {
    setRefused(false);
    settings.change({ notify: false, cannotNotify: false });
    if (on) void askToNotify().then((may) => (may ? settings.change({ notify: true }) : setRefused(true)));
  };
  return (
    <fieldset className={group.group}>
      <legend>When something waits for you</legend>
      <Choice label="Notify me" checked={notify && canNotify()} onChange={choose}>
        Only while this page is hidden, and from one of its tabs. A click opens the request.
      </Choice>
      {refused && <p role="alert">This browser does not allow it for this page. Allow notifications in its settings; they need https, or this machine itself.</p>}
      {cannotNotify && <p role="alert">This browser could not show a notification when something waited for you, so it is off again. The sound works without it.</p>}
      <Choice label="With a sound" checked={sound} onChange={(on) => settings.change({ sound: on })}>
        Two short notes, which nothing else here has.
      </Choice>
    </fieldset>
  );
}

function Choice({ label, checked, onChange, children }: { label: string; checked: boolean; onChange: (on: boolean) => void; children: ReactNode }) {
  const id = useId();
  return (
    <div className={css.choice}>
      <input id={id} type="checkbox" checked={checked} aria-describedby={`${id}hint`} onChange={(event) => onChange(event.target.checked)} />
      <div>
        <label htmlFor={id}>{label}</label>
        <p id={`${id}hint`} className={group.hint}>
          {children}
        </p>
      </div>
    </div>
  );
}

/** The way to this view on narrow screens, whose rail has no room for it. */
function Connect() {
  return (
    <section className={group.group} aria-labelledby="settings-connect">
      <h3 id="settings-connect">Agents</h3>
      <p className={group.hint}>A new agent needs a seat, and a few lines on its machine.</p>
      <p>
        <Link className={css.way} to={{ view: "connect" }}>
          Connect an agent
        </Link>
      </p>
    </section>
  );
}

/** As above. */
function Instructions() {
  const { identity } = useSession();
  if (identity.user.role !== "owner") return null;
  return (
    <section className={group.group} aria-labelledby="settings-instructions">
      <h3 id="settings-instructions">Instructions to agents</h3>
      <p className={group.hint}>What agents are told with each message, so that their answers come through Molecule.</p>
      <p>
        <Link className={css.way} to={{ view: "instructions", templateId: null }}>
          Read and change them
        </Link>
      </p>
    </section>
  );
}

function Person() {
  const app = useApp();
  const { identity } = useSession();
  const [problem, setProblem] = useState<string | null>(null);
  const { name, role } = identity.user;
  return (
    <section className={group.group} aria-labelledby="settings-person">
      <h3 id="settings-person">You</h3>
      <p>
        Logged in as <strong>{name}</strong> at <strong>{identity.org.name}</strong>; {ROLES[role] ?? role}.
      </p>
      <p className={group.hint}>Molecule {identity.version}</p>
      <div>
        <Button onClick={() => void app.logOut().catch((error: unknown) => setProblem(errorText(error)))}>Log out</Button>
      </div>
      {problem !== null && <p role="alert">{problem}</p>}
    </section>
  );
}
