/** Details of an agent and its workspace. */

import { lazy, Suspense, type ReactNode } from "react";
import { useData, useSession } from "../../core/app";
import { CopyButton } from "../../ui/CopyButton";
import { retrying } from "../../ui/lazyPart";
import { Link } from "../../ui/Link";
import { useNow } from "../../ui/useNow";
import { Time } from "../../ui/Time";
import type { Workspace } from "../../core/state/model";
import { list, text } from "../../core/state/json";
import { isSilent, statusOf, taskOf } from "../../core/state/agentStatus";
import { childrenOf, treeOf } from "../../core/state/tree";
import { absolute, inactivity, until } from "../../core/text/time";
import { plural, sentence } from "../../core/text/strings";
import css from "./About.module.css";
import { A2AAgentSection } from "./A2AAgentSection";
import { AgentActions } from "./AgentActions";
import { WorkspaceBudget } from "../budgets/WorkspaceBudget";
import { ConnectedApps } from "../apps/ConnectedApps";
import { Fact, Section } from "./Section";

const WorkspaceInstructions = lazy(retrying(() => import("../instructions/WorkspaceInstructions")));

export function About({ workspace }: { workspace: Workspace }) {
  const { canSend } = useSession();
  return (
    <div className={css.about}>
      <AgentActivity workspace={workspace} />
      <Card card={workspace.agent_card} />
      {workspace.a2a_card_url !== null && <A2AAgentSection workspace={workspace} cardUrl={workspace.a2a_card_url} />}
      <WorkspaceSection workspace={workspace} />
      <Section title="Budget">
        <WorkspaceBudget workspaceId={workspace.id} />
      </Section>
      {canSend && (
        <Section title="Answers">
          <Suspense fallback={<p className={css.none}>Loading…</p>}>
            <WorkspaceInstructions workspace={workspace} />
          </Suspense>
        </Section>
      )}
      {canSend && (
        <Section title="Connected apps">
          <ConnectedApps workspaceId={workspace.id} />
        </Section>
      )}
      {canSend && (
        <Section title="Actions">
          <AgentActions workspace={workspace} />
        </Section>
      )}
    </div>
  );
}

function AgentActivity({ workspace }: { workspace: Workspace }) {
  const now = useNow();
  const heard = workspace.last_heard_at;
  const task = taskOf(workspace);
  return (
    <Section title="Activity">
      <dl className={css.facts}>
        {workspace.limited_until !== null && (
          <Fact name="Limited until">
            <time dateTime={workspace.limited_until} title={absolute(workspace.limited_until)}>
              {until(workspace.limited_until, now)}
            </time>
            {workspace.limit_reason && <span className={css.none}> {workspace.limit_reason}</span>}
          </Fact>
        )}
        <Fact name="Task">{task ?? <span className={css.none}>None</span>}</Fact>
        <Fact name="Last seen">
          {heard === null ? (
            <span className={css.none}>Never connected</span>
          ) : isSilent(statusOf(workspace)) ? (
            sentence(inactivity(heard, now))
          ) : (
            <Time at={heard} />
          )}
        </Fact>
        <Fact name="Active tasks">
          {workspace.active_tasks} of {workspace.max_concurrent_tasks}
        </Fact>
        {workspace.last_error_rate > 0 && <Fact name="Error rate">{Math.round(workspace.last_error_rate * 100)} %</Fact>}
      </dl>
      <p>
        <Link className={css.way} to={{ view: "activity", filters: { agent: workspace.id } }}>
          All activity
        </Link>
      </p>
    </Section>
  );
}

/** The agent card. */
function Card({ card }: { card: unknown }) {
  const description = text(card, "description");
  const skills = list(card, "skills").flatMap((skill) => {
    const name = text(skill, "name") ?? text(skill, "id");
    return name === null ? [] : [{ name, description: text(skill, "description") }];
  });
  const version = text(card, "version");
  if (description === null && skills.length === 0 && version === null) return null;
  return (
    <Section title="Agent card">
      {description !== null && <p>{description}</p>}
      {skills.length > 0 && (
        <ul className={css.skills} aria-label="Skills">
          {skills.map((skill) => (
            <li key={skill.name}>
              <span className={css.skill}>{skill.name}</span>
              {skill.description !== null && <span className={css.none}> {skill.description}</span>}
            </li>
          ))}
        </ul>
      )}
      {version !== null && <p className={css.none}>Version {version}</p>}
    </Section>
  );
}

function WorkspaceSection({ workspace }: { workspace: Workspace }) {
  const nodes = useData((state) => state.orgNodes);
  const tree = treeOf(nodes);
  const parent = tree.parent.get(workspace.id);
  const below = childrenOf(tree, workspace.id);
  const way = (id: string): ReactNode => (
    <Link to={{ view: "org", focus: id, panel: "about", filter: "" }}>{nodes.get(id)?.name}</Link>
  );
  return (
    <Section title="Workspace">
      <dl className={css.facts}>
        {workspace.role && <Fact name="Role">{workspace.role}</Fact>}
        <Fact name="Reports to">{parent === undefined ? <span className={css.none}>None (top level)</span> : way(parent)}</Fact>
        {below.length > 0 && (
          <Fact name="Team">
            <ul className={css.inline}>
              {below.slice(0, 12).map((id) => (
                <li key={id}>{way(id)}</li>
              ))}
              {below.length > 12 && <li>and {plural(below.length - 12, "more", "more")}</li>}
            </ul>
          </Fact>
        )}
        <Fact name="Runtime">{workspace.runtime}</Fact>
        <Fact name="Delivery">{workspace.delivery_mode === "push" ? "Push" : "Polling"}</Fact>
        <Fact name="Created">
          <Time at={workspace.created_at} />
        </Fact>
        <Fact name="Workspace ID">
          <span className={css.id}>
            <code>{workspace.id}</code>
            <CopyButton text={workspace.id} label="Copy workspace ID" />
          </span>
        </Fact>
      </dl>
    </Section>
  );
}
