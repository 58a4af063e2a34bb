/** Settings of this browser, and logging out. */

import { useId, useState, type ReactNode } from "react";
import { useApp, useData, useSession, useSettings } from "../../core/app";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { absolute } from "../../core/text/time";
import { useNow } from "../../ui/useNow";
import { errorText } from "../../core/api/api";
import { askToNotify, canNotify } from "../notifications/notifications";
import type { Theme } from "../../core/store/settings";
import { OAuthClients } from "../apps/OAuthClients";
import { Budgets } from "../budgets/Budgets";
import { People } from "../people/People";
import group from "../../ui/SettingsGroup.module.css";
import { OrgName } from "./OrgName";
import css from "./SettingsView.module.css";

const THEMES: readonly { value: Theme; label: string }[] = [
  { value: "system", label: "System" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
];

const ROLES: Readonly<Record<string, string>> = {
  viewer: "viewer: can read but not change anything",
  operator: "operator: can message and manage agents",
  owner: "owner: full access",
};

export function SettingsView() {
  const { settings } = useApp();
  const chosen = useSettings();
  return (
    <div className={css.settings}>
      <div className={css.inside}>
        <h2 className={css.title}>Settings</h2>
        <p className={css.lead}>Theme, keyboard and notification settings apply to this browser.</p>
        <fieldset className={group.group}>
          <legend>Theme</legend>
          <div className={css.themes}>
            {THEMES.map(({ value, label }) => (
              <label key={value} className={css.theme}>
                <input type="radio" name="theme" checked={chosen.theme === value} onChange={() => settings.change({ theme: value })} />
                {label}
              </label>
            ))}
          </div>
        </fieldset>
        <TimeZone />
        <fieldset className={group.group}>
          <legend>Keyboard</legend>
          <Choice
            label="Enter sends messages"
            checked={chosen.enterSends}
            onChange={(enterSends) => settings.change({ enterSends })}
          >
            When off, Enter adds a new line and Ctrl+Enter sends.
          </Choice>
          <Choice label="Single-key shortcuts" checked={chosen.singleKeys} onChange={(singleKeys) => settings.change({ singleKeys })}>
            Use single keys when not typing, such as A for the next item that needs attention.
          </Choice>
        </fieldset>
        <Notices />
        <Connect />
        <Work />
        <Activity />
        <Usage />
        <Instructions />
        <OrgName />
        <Person />
        <People />
        <OAuthClients />
        <Budgets />
      </div>
    </div>
  );
}

/** Times are shown in the zone of the browser, or in a chosen one: that of a team or of the logs of a server. */
function TimeZone() {
  const { settings } = useApp();
  const { timeZone } = useSettings();
  const own = new Intl.DateTimeFormat().resolvedOptions().timeZone;
  const now = useNow();
  const id = useId();
  return (
    <section className={group.group} aria-labelledby={`${id}title`}>
      <h3 id={`${id}title`}>Times</h3>
      <p className={css.zone}>
        <label htmlFor={id}>Time zone</label>
        <select id={id} value={timeZone} aria-describedby={`${id}now`} onChange={(event) => settings.change({ timeZone: event.target.value })}>
          <option value="">Browser ({own.replaceAll("_", " ")})</option>
          {zones(timeZone).map((zone) => (
            <option key={zone} value={zone}>
              {zone.replaceAll("_", " ")}
            </option>
          ))}
        </select>
      </p>
      <p id={`${id}now`} className={group.hint}>
        It is now {absolute(new Date(now).toISOString(), timeZone || undefined)}.
      </p>
    </section>
  );
}

/** UTC first, and the chosen zone also where the browser lists it by another name. */
function zones(chosen: string): readonly string[] {
  return [...new Set(["UTC", ...Intl.supportedValuesOf("timeZone"), ...(chosen === "" ? [] : [chosen])])];
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
      <legend>Notifications</legend>
      <Choice label="Desktop notifications" checked={notify && canNotify()} onChange={choose}>
        Notify me about new items of the inbox while this page is in the background. Only one tab shows notifications. Click a notification to open its item.
      </Choice>
      {refused && <p role="alert">This browser blocks notifications for this page. Allow them in the browser settings. Notifications need HTTPS or localhost.</p>}
      {cannotNotify && <p role="alert">This browser could not show a notification, so notifications were turned off. Sounds still work.</p>}
      <Choice label="Sound" checked={sound} onChange={(on) => settings.change({ sound: on })}>
        Two short tones, used only for what waits for you.
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
      <p className={group.hint}>A new agent needs a workspace and a short setup on its machine.</p>
      <p>
        <Link className={css.way} to={{ view: "connect" }}>
          Connect an agent
        </Link>
      </p>
    </section>
  );
}

/** As above. */
function Work() {
  return (
    <section className={group.group} aria-labelledby="settings-work">
      <h3 id="settings-work">Work</h3>
      <p className={group.hint}>All tasks that agents have delegated: open, failed and done.</p>
      <p>
        <Link className={css.way} to={{ view: "work", list: "open" }}>
          View work
        </Link>
      </p>
    </section>
  );
}

/** As above. */
function Activity() {
  return (
    <section className={group.group} aria-labelledby="settings-activity">
      <h3 id="settings-activity">Activity</h3>
      <p className={group.hint}>Everything that happened in the organisation, with filters and export.</p>
      <p>
        <Link className={css.way} to={{ view: "activity", filters: {} }}>
          View activity
        </Link>
      </p>
    </section>
  );
}

/** As above. */
function Usage() {
  return (
    <section className={group.group} aria-labelledby="settings-usage">
      <h3 id="settings-usage">Usage</h3>
      <p className={group.hint}>What agents cost, by agent, team, model, day and request, and the prices of models.</p>
      <p>
        <Link className={css.way} to={{ view: "usage", by: "agent" }}>
          View usage
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
      <h3 id="settings-instructions">Instructions</h3>
      <p className={group.hint}>Instructions are sent to agents with each message, so that they answer through Molecule.</p>
      <p>
        <Link className={css.way} to={{ view: "instructions", templateId: null }}>
          Edit instructions
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
  const org = useData((state) => state.org.name);
  return (
    <section className={group.group} aria-labelledby="settings-person">
      <h3 id="settings-person">Account</h3>
      <p>
        Logged in as <strong>{name}</strong> in <strong>{org}</strong>. Your role is {ROLES[role] ?? role}.
      </p>
      <p className={group.hint}>Molecule {identity.version}</p>
      <div>
        <Button onClick={() => void app.logOut().catch((error: unknown) => setProblem(errorText(error)))}>Log out</Button>
      </div>
      {problem !== null && <p role="alert">{problem}</p>}
    </section>
  );
}
