/** A chat without messages: example requests of the agent as buttons, or what to do. */

import { useSession } from "../../core/app";
import { Notice } from "../../ui/Notice";
import type { Workspace } from "../../core/state/model";
import { examplesOf } from "./examples";
import css from "./EmptyChat.module.css";

interface Props {
  workspace: Workspace | undefined;
  name: string;
  onSend: (text: string) => void;
}

export function EmptyChat({ workspace, name, onSend }: Props) {
  const { canSend } = useSession();
  const examples = canSend ? examplesOf(workspace?.agent_card) : [];
  if (examples.length > 0) {
    return (
      <div className={css.empty}>
        <Notice icon="chats" title="Start with an example">
          Choose a request to send it to <bdi>{name}</bdi>, or write your own below.
        </Notice>
        <ul className={css.examples} aria-label="Example requests">
          {examples.map((text) => (
            <li key={text}>
              <button type="button" className={css.example} onClick={() => onSend(text)}>
                <bdi>{text}</bdi>
              </button>
            </li>
          ))}
        </ul>
      </div>
    );
  }
  return (
    <Notice icon="chats" title="No messages yet">
      <EmptyText name={name} canSend={canSend} connected={workspace === undefined || workspace.last_heard_at !== null} />
    </Notice>
  );
}

function EmptyText({ name, canSend, connected }: { name: string; canSend: boolean; connected: boolean }) {
  if (!canSend) return <>Messages to {name} and its answers appear here. Operators and owners can send them.</>;
  if (!connected) return <>The agent of {name} has not connected yet. You can write now: messages wait until it connects.</>;
  return <>Write a question or a task for {name} below. Answers appear here.</>;
}
