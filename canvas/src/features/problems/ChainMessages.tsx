/** The last messages of a stopped chain, and the agents that sent them. */

import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Time } from "../../ui/Time";
import { useRequest, type RequestState } from "../../core/api/useRequest";
import type { MessageChain } from "../../core/state/problems";
import { plainLine } from "../../core/text/plain";
import type { ChainDetail, ChainMessageRow } from "../../core/wire";
import css from "./ProblemsView.module.css";

/** The conversation has the others. */
const SHOWN = 6;

export function useChainMessages(chain: MessageChain): RequestState<ChainDetail> {
  const { api, identity } = useSession();
  return useRequest(() => api.chainMessages(identity.org.id, chain, chain.messages - SHOWN), `${chain.rootId} ${chain.messages}`);
}

/** An agent of a chain; its name as the server knows it. */
export interface ChainAgent {
  id: string;
  name: string;
}

/** The agents that messaged each other, those of the last message first. */
export function agentsOf(messages: readonly ChainMessageRow[]): readonly ChainAgent[] {
  const found = new Map<string, string>();
  for (const { source_id, source_name, workspace_id, workspace_name } of messages.toReversed()) {
    if (source_id === null || source_id === workspace_id) continue;
    for (const [id, name] of [[source_id, source_name], [workspace_id, workspace_name]] as const) if (!found.has(id)) found.set(id, name ?? "Removed agent");
  }
  return [...found].map(([id, name]) => ({ id, name }));
}

export function ChainMessages({ chain, read }: { chain: MessageChain; read: RequestState<ChainDetail> }) {
  const names = useData((state) => state.workspaces);
  const messages = (read.value?.messages ?? []).slice(-SHOWN);
  if (read.problem !== null && messages.length === 0) {
    return (
      <p role="alert" className={css.problem}>
        Could not load the messages: {read.problem}{" "}
        <Button kind="quiet" onClick={() => void read.reread()}>
          Try again
        </Button>
      </p>
    );
  }
  const last = messages.findLast(({ source_id, workspace_id, kind }) => source_id !== null && source_id !== workspace_id && kind !== "delegation_result");
  if (last === undefined || last.source_id === null) return null;
  const hidden = chain.messages - messages.filter(({ no }) => no > 0).length;
  return (
    <>
      <ol className={css.messages} aria-label="Last messages of the chain">
        {messages.map((message) => (
          <li key={message.activity_id}>
            <span className={css.author}>
              <bdi>{message.source_id === null ? "A person" : (names.get(message.source_id)?.name ?? message.source_name ?? "Removed agent")}</bdi>
            </span>
            <Time at={message.at} short className={css.time} />
            <span className={css.words} dir="auto">
              {plainLine(message.summary ?? "")}
            </span>
          </li>
        ))}
      </ol>
      <p className={css.from}>
        {hidden > 0 && `${hidden.toLocaleString("en-GB")} earlier. `}
        <Link className={css.open} to={{ view: "peers", workspaceId: last.workspace_id, peerId: last.source_id, messageId: last.activity_id }}>
          View conversation
        </Link>
      </p>
    </>
  );
}
