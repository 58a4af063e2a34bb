/** One message, rendered the same from history and from a live event. */

import { memo, useState } from "react";
import { useApp, useSession } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Button, IconButton } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { Link } from "../../ui/Link";
import { MessageText } from "../../ui/MessageText";
import { Time } from "../../ui/Time";
import { hrefOf } from "../../core/router";
import type { Obligation } from "../../core/state/obligations";
import type { Message } from "./conversationItems";
import { useSelected } from "../../core/store/store";
import { exact } from "../../core/text/time";
import { DraftCard } from "./DraftCard";
import { FileItem } from "./FileItem";
import css from "../../ui/TimelineItem.module.css";
import { Options } from "./Options";
import { DeliveryMark } from "./DeliveryMark";
import { failureOf, instructionsText, templateIdOf } from "./deliveryText";

interface Props {
  message: Message;
  workspaceId: string;
  agentName: string;
  ownName: string;
  tabStop: boolean;
  marked: boolean;
  /** Why a stored message is not delivered yet. */
  waits: string | null;
  /** For a question with options: the chosen one. */
  chosen: number | null;
  onRetry: () => void;
  onDiscard: () => void;
}

export const MessageItem = memo(
  function MessageItem({ message, workspaceId, agentName, ownName, tabStop, marked, waits, chosen, onRetry, onDiscard }: Props) {
    const { router } = useApp();
    const [showInstructions, setShowInstructions] = useState(false);
    const { id, obligation } = message;
    const fromAgent = message.author === "agent";
    const author = fromAgent ? agentName : (message.userName ?? ownName);
    const classes = [css.message, fromAgent ? "" : css.user, message.joined ? css.joined : "", marked ? css.marked : ""];
    return (
      <li className={classes.join(" ")} data-message={message.id ?? message.key} tabIndex={tabStop ? 0 : -1}>
        {fromAgent && <span className={css.face}>{!message.joined && <Avatar name={agentName} />}</span>}
        <div className={css.body}>
          <p className={message.joined ? "visually-hidden" : css.head}>
            <span className={css.author}>{author === ownName && !fromAgent ? "You" : <bdi>{author}</bdi>}</span>
            <Time at={message.at} className={css.time} />
          </p>
          <div className={css.bubble}>
            {message.text !== "" && <MessageText text={message.text} />}
            {message.attachments.map((file, place) => (
              <FileItem key={place} file={file} place={place} clientId={message.tick === "sending" ? message.clientId : null} />
            ))}
          </div>
          {id !== null && message.options.length > 0 && (
            <Options workspaceId={workspaceId} questionId={id} options={message.options} chosen={chosen} />
          )}
          {message.tick !== null && <DeliveryMark tick={message.tick} obligation={obligation} waits={waits} />}
          {obligation !== null && failureOf(obligation) !== null && (
            <p className={css.failed}>
              {agentName} could not answer: <bdi>{failureOf(obligation)}</bdi>. Send the message again, or look at the agent's log for the cause.
            </p>
          )}
          {showInstructions && obligation !== null && <UsedInstructions obligation={obligation} />}
          {id !== null && obligation?.draft && (
            <DraftCard asked={{ workspaceId, activityId: id }} draft={obligation.draft} agentName={agentName} />
          )}
          {message.tick === "sending" && message.attachments.length > 0 && <CancelSending clientId={message.key} />}
          {message.tick === "dead" && (
            <p className={css.failed}>
              {message.reason} <Link to={{ view: "problems" }}>View in Problems</Link>
            </p>
          )}
          {message.tick === "not_sent" && (
            <div className={css.failed}>
              <p>{message.reason}</p>
              <Button icon="again" onClick={onRetry}>
                Retry
              </Button>
              <Button onClick={onDiscard}>Discard</Button>
            </div>
          )}
        </div>
        <div className={css.tools}>
          <span>{exact(message.at)}</span>
          {obligation !== null && (
            <IconButton icon="book" label="Instructions sent with this message" aria-expanded={showInstructions} onClick={() => setShowInstructions(!showInstructions)} />
          )}
          <CopyButton text={message.text} label="Copy message" />
          {id !== null && <CopyButton text={linkTo(workspaceId, id)} label="Copy link to message" icon="link" />}
          {id !== null && <IconButton icon="org" label="Show everything this request caused" onClick={() => router.go({ view: "trace", id })} />}
        </div>
      </li>
    );
  },
  (before, after) =>
    sameMessage(before.message, after.message) &&
    before.agentName === after.agentName &&
    before.tabStop === after.tabStop &&
    before.marked === after.marked &&
    before.chosen === after.chosen &&
    (before.waits === after.waits || after.message.tick !== "stored"),
);

/** Lists are rebuilt on every change; an unchanged message is not rendered again. */
function sameMessage(one: Message, other: Message): boolean {
  const names = ["key", "id", "text", "at", "tick", "reason", "joined", "userName", "author", "obligation", "options"] as const;
  const sameFiles = one.attachments.length === other.attachments.length;
  return sameFiles && names.every((name) => one[name] === other[name]) && one.attachments.every((file, place) => file.uri === other.attachments[place]?.uri);
}

/** The instructions sent with this message, and their cost. */
function UsedInstructions({ obligation }: { obligation: Obligation }) {
  const words = instructionsText(obligation);
  if (words === null || obligation.template === null) return <p className={css.told}>No instructions were sent with this message.</p>;
  return (
    <p className={css.told}>
      Instructions: <Link to={{ view: "instructions", templateId: templateIdOf(obligation.template) }}>{words}</Link>
    </p>
  );
}

/** While its files are being uploaded, a message can be cancelled. */
function CancelSending({ clientId }: { clientId: string }) {
  const { uploads } = useSession();
  const sending = useSelected(uploads.progress, (all) => all.has(clientId));
  if (!sending) return null;
  return (
    <div className={css.failed}>
      <Button icon="close" onClick={() => uploads.stop(clientId)}>
        Cancel upload
      </Button>
    </div>
  );
}

function linkTo(workspaceId: string, messageId: string): string {
  return location.origin + hrefOf({ view: "chats", workspaceId, messageId });
}
