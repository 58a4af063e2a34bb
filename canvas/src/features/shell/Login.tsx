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
          Molecule has no passwords. A one-time link logs this browser in; run this where the server runs, and open the link
          that it prints:
        </p>
        <ShellCommand label="the command that prints a log-in link" text="molecule login-link" />
        <p className={css.hint}>
          A link works once and only for a short time. If somebody else runs the server, ask them for a link.
        </p>
      </div>
    </main>
  );
}
