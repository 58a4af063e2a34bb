/** For an organisation without agents: three ways to start. */

import { useApp } from "../../core/app";
import { Button } from "../../ui/Button";
import { ShellCommand } from "../../ui/ShellCommand";
import { Icon } from "../../ui/Icon";
import css from "./FirstRun.module.css";

export function FirstRun() {
  const { router } = useApp();
  return (
    <div className={css.first}>
      <div className={css.inside}>
        <h2 className={css.title}>Nobody works here yet</h2>
        <p className={css.lead}>
          An agent takes a seat in this organisation, says that it is there, and from then on you see it here and can write to it.
          There are three ways to start.
        </p>
        <ol className={css.ways}>
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="connect" size={20} />
            </span>
            <h3>Connect an agent</h3>
            <p>Make a seat, paste one command where your agent runs, and watch it arrive.</p>
            <Button kind="primary" onClick={() => router.go({ view: "connect" })}>
              Connect an agent
            </Button>
          </li>
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="play" size={20} />
            </span>
            <h3>Watch the demo</h3>
            <p>A small company of scripted agents. It needs no model and no account.</p>
            <ShellCommand label="the command that starts the demo" text="molecule up --demo" />
          </li>
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="book" size={20} />
            </span>
            <h3>Read how it works</h3>
            <p>How an agent registers, waits for messages and answers: three requests. The whole API stands in one file.</p>
            <ShellCommand label="the command that fetches the API's description" text={`curl -sS ${location.origin}/openapi.json`} />
          </li>
        </ol>
      </div>
    </div>
  );
}
