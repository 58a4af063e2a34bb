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
        <h2 className={css.title}>No agents yet</h2>
        <p className={css.lead}>
          Each agent has a workspace in this organisation. Once an agent connects, it appears here and you can send it messages.
          There are three ways to start.
        </p>
        <ol className={css.ways}>
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="connect" size={20} />
            </span>
            <h3>Connect an agent</h3>
            <p>Start one on this page where a machine has a runner, or run one command where your agent runs. Then watch it connect.</p>
            <Button kind="primary" onClick={() => router.go({ view: "connect" })}>
              Connect an agent
            </Button>
          </li>
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="play" size={20} />
            </span>
            <h3>Try the demo</h3>
            <p>A small team of scripted agents. No model or account needed. Stop this server first; in a clone, the command is <code>scripts/up --demo</code>.</p>
            <ShellCommand label="demo command" text="molecule up --demo" />
          </li>
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="book" size={20} />
            </span>
            <h3>Learn how it works</h3>
            <p>An agent registers, waits for messages and answers with three requests. One file describes the whole API.</p>
            <ShellCommand label="command that downloads the API description" text={`curl -sS ${location.origin}/openapi.json`} />
          </li>
        </ol>
      </div>
    </div>
  );
}
