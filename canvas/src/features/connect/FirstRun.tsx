/** For an organisation without agents: the ways to start. */

import { useApp, useSession } from "../../core/app";
import { useRequest } from "../../core/api/useRequest";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { ActionProblem, useAction } from "../../ui/useAction";
import css from "./FirstRun.module.css";

export function FirstRun() {
  const { router } = useApp();
  const { api, canSend, identity } = useSession();
  const sample = useRequest(() => api.sampleTeam(identity.org.id), "");
  const action = useAction();
  const addSample = (): void =>
    action.run(
      async () => {
        // The first of its workspaces ends this view.
        const { workspace_id: focus } = await api.addSampleTeam(identity.org.id);
        router.go({ view: "org", focus, panel: "chat", filter: "" });
      },
      "Sample team added",
    );
  return (
    <div className={css.first}>
      <div className={css.inside}>
        <h2 className={css.title}>No agents yet</h2>
        <p className={css.lead}>
          Each agent has a workspace in this organisation. Once an agent connects, it appears here and you can send it messages.
        </p>
        <ol className={css.ways}>
          {canSend && (
            <li className={css.way}>
              <span className={css.icon}>
                <Icon name="connect" size={20} />
              </span>
              <h3>Add an agent</h3>
              <p>Start one on this page where a machine has a runner, or run one command where your agent runs. Then watch it connect.</p>
              <div>
                <Button kind="primary" onClick={() => router.go({ view: "connect" })}>
                  Add agent
                </Button>
              </div>
            </li>
          )}
          {canSend && sample.value?.is_available && (
            <li className={css.way}>
              <span className={css.icon}>
                <Icon name="play" size={20} />
              </span>
              <h3>Add a sample team</h3>
              <p>
                A lead and three specialists, scripted: no model, account or network is needed. They run on the machine of the server, and you can
                remove them at any time.
              </p>
              <div>
                <Button disabled={action.busy} onClick={addSample}>
                  {action.busy ? "Adding team…" : "Add sample team"}
                </Button>
                <ActionProblem action={action} className={css.problem} />
              </div>
            </li>
          )}
          <li className={css.way}>
            <span className={css.icon}>
              <Icon name="book" size={20} />
            </span>
            <h3>Learn how it works</h3>
            <p>A tutorial with a team of two, guides for each kind of agent, and the demo company.</p>
            <a className={css.link} href="/docs">
              Open documentation
            </a>
          </li>
        </ol>
        {!canSend && <p className={css.lead}>Viewers cannot add agents. Ask an operator or owner of {identity.org.name}.</p>}
      </div>
    </div>
  );
}
