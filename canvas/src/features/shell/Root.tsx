/** The page by its login state: logged in, logged out, or still unknown. */

import { useEffect } from "react";
import { AppContext, SessionContext, type App } from "../../core/app";
import { Button } from "../../ui/Button";
import { Logo } from "../../ui/Logo";
import { Notice } from "../../ui/Notice";
import { useStored } from "../../core/store/store";
import { Login } from "./Login";
import css from "./Root.module.css";
import { Shell } from "./Shell";

export function Root({ app }: { app: App }) {
  return (
    <AppContext value={app}>
      <LoggedIn app={app} />
    </AppContext>
  );
}

function LoggedIn({ app }: { app: App }) {
  const access = useStored(app.access);
  switch (access.kind) {
    case "in":
      return (
        <SessionContext value={access.session} key={access.session.identity.user.id}>
          <Shell />
        </SessionContext>
      );
    case "out":
      return <Login problem={access.problem} />;
    case "unreachable":
      return <Unreachable app={app} problem={access.problem} />;
    case "checking":
      return (
        <main className={css.alone} aria-busy="true">
          <p className={css.quiet}>Loading Molecule…</p>
        </main>
      );
  }
}

function Unreachable({ app, problem }: { app: App; problem: string }) {
  useEffect(() => app.awaitServer(), [app]);
  return (
    <main className={css.alone}>
      <header className={css.brand}>
        <Logo size={32} />
        <h1>Molecule</h1>
      </header>
      <Notice
        icon="warning"
        title="Cannot reach Molecule"
        actions={
          <Button kind="primary" icon="again" onClick={() => void app.authenticate()}>
            Try again
          </Button>
        }
      >
        {problem} Check that <code>molecule up</code> is still running on the server. This page goes on by itself when the server answers.
      </Notice>
    </main>
  );
}
