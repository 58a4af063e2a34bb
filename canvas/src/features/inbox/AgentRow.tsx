/** An agent that has failed, is degraded, or is not there while others wait for it. */

import type { AgentTrouble } from "../../core/state/inboxItems";
import { shownTask } from "../../core/state/delegations";
import { unclaimedText } from "../../core/state/problems";
import { plural } from "../../core/text/strings";
import { Link } from "../../ui/Link";
import { Time } from "../../ui/Time";
import { PeerLink } from "../delegations/DelegationItem";
import { WorkspaceLink } from "../problems/ProblemsView";
import css from "./InboxView.module.css";

/** More are in the view of the agent. */
const SHOWN = 3;

export function AgentRow({ agent, since }: { agent: AgentTrouble; since: string }) {
  const { workspace, status, tasks, unclaimed } = agent;
  const { id, name } = workspace;
  return (
    <>
      <p className={css.head}>
        <WorkspaceLink id={id} name={name} />
        <Time at={since} className={css.time} />
      </p>
      <p className={css.fact}>{status === "degraded" ? `Its error rate is ${Math.round(workspace.last_error_rate * 100)} %.` : `${unclaimedText(workspace)}.`}</p>
      {tasks.length > 0 && (
        <ul className={css.tasks} aria-label="Waiting tasks">
          {tasks.slice(0, SHOWN).map((each) => (
            <li key={each.id} className={css.task}>
              <span>
                <PeerLink id={each.sourceId} /> waits for <bdi>{shownTask(each.task)}</bdi>
              </span>
              <Link className={css.link} to={{ view: "delegation", id: each.id, node: null }}>
                View task
              </Link>
            </li>
          ))}
          {tasks.length > SHOWN && <li>and {plural(tasks.length - SHOWN, "more task")}</li>}
        </ul>
      )}
      {unclaimed !== null && <p className={css.fact}>{`${unclaimed.more ? "More than " : ""}${plural(unclaimed.waiting, "message")} waiting`}</p>}
      <p className={css.links}>
        <Link className={css.link} to={{ view: "org", focus: id, panel: "about", filter: "" }}>
          View agent
        </Link>
        <Link className={css.link} to={{ view: "chats", workspaceId: id, messageId: null }}>
          Open chat
        </Link>
      </p>
    </>
  );
}
