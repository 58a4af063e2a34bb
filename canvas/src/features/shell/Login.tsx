/** Shown without a session: how to log in. */

import { ShellCommand } from "../../ui/ShellCommand";
import { Icon } from "../../ui/Icon";
import { Logo } from "../../ui/Logo";
import css from "./Login.module.css";

export function Login({ problem }: { problem: string | null }) {
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
        <p>
          Molecule has no passwords. You log in with a one-time link. Run this command on the server and open the link that it
          prints:
        </p>
        <ShellCommand label="login link command" text="molecule login-link" />
        <p className={css.hint}>
          A link works once and expires soon. If you do not run the server, ask its operator for a link.
        </p>
      </div>
    </main>
  );
}
