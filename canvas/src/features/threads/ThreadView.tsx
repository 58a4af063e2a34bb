/** One thread on its own page: its log, its tree, its model context, and its base instructions. Updated live. */

import { useEffect, useRef } from "react";
import { useApp, useData, useSession } from "../../core/app";
import { useRequest } from "../../core/api/useRequest";
import { Avatar } from "../../ui/Avatar";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Tabs } from "../../ui/Tabs";
import { ORG, type ThreadTab } from "../../core/router";
import { plural } from "../../core/text/strings";
import { showInvisible } from "../../core/text/invisible";
import type { ThreadItem, ThreadView as Shown } from "../../core/wire";
import { ThreadActions } from "./ThreadActions";
import { BaseInstructionsPanel } from "./BaseInstructionsPanel";
import { ThreadLog } from "./ThreadLog";
import { ThreadInput } from "./ThreadInput";
import { ModelContextPanel } from "./ModelContextPanel";
import { ThreadStatus } from "./ThreadStatus";
import css from "./Threads.module.css";
import { TreePanel } from "./TreePanel";
import { pathOf, readTree, useThreads } from "./useThreads";
import { kindText, nameOf } from "./texts";

interface Props {
  id: string;
  tab: ThreadTab;
}

export function ThreadView({ id, tab }: Props) {
  const { api } = useSession();
  const { router } = useApp();
  const { value, problem, reread } = useRequest(() => api.request<Shown>("GET", pathOf(id)), id);
  if (value !== null) return <Thread first={value} tab={tab} />;
  if (problem === null) return <Notice icon="clock" title="Loading thread…" />;
  const actions = (
    <>
      <Button onClick={() => void reread()}>Try again</Button>
      <Button onClick={() => router.go(ORG)}>Go to organisation</Button>
    </>
  );
  return (
    <Notice icon="search" title="Could not load thread" actions={actions}>
      {problem}
    </Notice>
  );
}

function Thread({ first, tab }: { first: Shown; tab: ThreadTab }) {
  const { api, canSend } = useSession();
  const { router } = useApp();
  const id = first.thread_id;
  const { known, isRead, problem, reread, store } = useThreads({ rootId: first.root_id }, (into) => readTree(api, id, into));
  const thread = known.threads.get(id) ?? first;
  const agents = Math.max(known.threads.size, 1);
  return (
    <div className={css.page}>
      <Head thread={thread} />
      {canSend ? <ThreadActions thread={thread} known={known} /> : <p className={css.viewer}>Viewers can read this thread but not control it. Ask an owner to change your role.</p>}
      {problem !== null && (
        <p role="alert" className={css.problem}>
          {problem}{" "}
          <Button kind="quiet" onClick={reread}>
            Try again
          </Button>
        </p>
      )}
      <Tabs
        label="Thread"
        tabs={[
          { name: "said", label: "Conversation" },
          { name: "tree", label: agents > 1 ? `Agents (${agents})` : "Agents" },
          { name: "sight", label: <ResponsiveText words="Model context" short="Context" /> },
          { name: "base", label: "Instructions" },
        ]}
        current={tab}
        onChange={(next) => router.go({ view: "thread", id, tab: next })}
      >
        {tab === "said" && <ThreadLog thread={thread} known={known} store={store} isRead={isRead} />}
        {tab === "tree" && <TreePanel known={known} id={id} isRead={isRead} />}
        {tab === "sight" && <ModelContextPanel thread={thread} />}
        {tab === "base" && <BaseInstructionsPanel thread={thread} />}
      </Tabs>
      {tab === "said" && canSend && <ThreadInput thread={thread} />}
    </div>
  );
}

/** The short text where space is scarce; screen readers get the long one. */
function ResponsiveText({ words, short }: { words: string; short: string }) {
  return (
    <>
      <span className={css.wideOnly}>{words}</span>
      <span className={css.narrowOnly} aria-label={words}>
        {short}
      </span>
    </>
  );
}

function Head({ thread }: { thread: ThreadItem }) {
  const { workspace_id, parent_thread_id, forked_from, path, role, kind, model, effort, tokens_used, tree_tokens_used, nickname } = thread;
  const owner = useData((state) => state.workspaces.get(workspace_id)?.name);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  const settings = [nickname === "" ? "" : path, role ?? kindText(kind), model ?? "", effort === null ? "" : `effort ${effort}`, plural(tokens_used, "token")];
  if (tree_tokens_used !== null && parent_thread_id === null && tree_tokens_used > tokens_used) settings.push(`${plural(tree_tokens_used, "token")} including sub-agents`);
  return (
    <header className={css.head}>
      <Avatar name={nameOf(thread)} size="large" />
      <div className={css.who}>
        <h2 className={css.title} ref={heading} tabIndex={-1} dir="auto">
          {showInvisible(nameOf(thread))}
        </h2>
        <ThreadStatus thread={thread} />
        <p className={css.quiet}>
          {settings
            .filter((each) => each !== "")
            .map((each, at) => (
              <span key={at}>
                {at > 0 && " · "}
                <bdi>{showInvisible(each)}</bdi>
              </span>
            ))}
        </p>
        <p className={css.ways}>
          <Link className={css.way} to={{ view: "org", focus: workspace_id, panel: "threads", filter: "" }}>
            {owner === undefined ? "View agent" : <>All threads of {<bdi>{owner}</bdi>}</>}
          </Link>
          {parent_thread_id !== null && (
            <Link className={css.way} to={{ view: "thread", id: parent_thread_id, tab: "said" }}>
              Parent thread
            </Link>
          )}
          {forked_from !== null && (
            <Link className={css.way} to={{ view: "thread", id: forked_from.thread_id, tab: "said" }}>
              Forked from entry {forked_from.position}
            </Link>
          )}
        </p>
      </div>
    </header>
  );
}
