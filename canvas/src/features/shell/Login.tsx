/** Shown without a session: how to log in. */

import { useEffect, useState } from "react";
import { useApp } from "../../core/app";
import { pathOfOrg } from "../../core/router";
import { useStored } from "../../core/store/store";
import { ShellCommand } from "../../ui/ShellCommand";
import { Icon } from "../../ui/Icon";
import { Logo } from "../../ui/Logo";
import type { LoginHelpResponse } from "../../core/wire";
import css from "./Login.module.css";

/** Until the server has answered, and if it does not. */
const UNKNOWN: LoginHelpResponse = { command: "molecule login-link", is_exact: false, needs_admin_token: false };

export function Login({ problem }: { problem: string | null }) {
  const app = useApp();
  const [help, setHelp] = useState(UNKNOWN);
  const logins = useStored(app.logins);
  useEffect(() => void app.loginHelp().then(setHelp, () => undefined), [app]);
  return (
    <main className={css.page}>
      <div className={css.card}>
        <Logo size={40} />
        <h1 className={css.title}>Log in to Molecule</h1>
        {problem !== null && (
          <p className={css.problem} role="alert">
            <Icon name="warning" />
            <span>{problem}</span>
          </p>
        )}
        {logins.length > 0 && (
          <nav className={css.logins} aria-label="Your organisations">
            <p>You are logged in to:</p>
            <ul>
              {logins.map(({ org, user }) => (
                <li key={org.id}>
                  <a href={pathOfOrg(org.id)}>
                    <bdi>{org.name}</bdi>
                  </a>{" "}
                  as <bdi>{user.name}</bdi>
                </li>
              ))}
            </ul>
          </nav>
        )}
        <p>
          Molecule has no passwords. You log in with a one-time link. Run this command {help.is_exact ? "in a terminal on this machine" : "on the server"} and open
          the link that it prints:
        </p>
        <ShellCommand label="login link command" text={help.command} />
        {help.needs_admin_token && (
          <p className={css.hint}>
            Set <code>MOLECULE_ADMIN_TOKEN</code> to the admin token of the server first.
          </p>
        )}
        {!help.is_exact && (
          <p className={css.hint}>
            Add <code>--state-dir</code> with the folder of the server if it is not the default.
          </p>
        )}
        <p className={css.hint}>
          A link works once and expires soon. If you do not run the server, ask its operator for a link.
        </p>
      </div>
    </main>
  );
}
