/** One message, rendered the same from history and from a live event. */

import { memo, useState } from "react";
import { useApp, useSession } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Button, IconButton } from "../../ui/Button";
import { CopyButton } from "../../ui/CopyButton";
import { Icon } from "../../ui/Icon";
import { Link } from "../../ui/Link";
import { MessageText } from "../../ui/MessageText";
import { Time } from "../../ui/Time";
import { hrefOf } from "../../core/router";
import type { ReplyTarget } from "../../core/session/replyTargets";
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
import { quotedLine, splitQuote } from "./quotes";

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
  onReply: (target: ReplyTarget) => void;
}

export const MessageItem = memo(
  function MessageItem({ message, workspaceId, agentName, ownName, tabStop, marked, waits, chosen, onRetry, onDiscard, onReply }: Props) {
    const { router } = useApp();
    const { canSend } = useSession();
    const [showInstructions, setShowInstructions] = useState(false);
    const { id, obligation } = message;
    const fromAgent = message.author === "agent";
    const author = fromAgent ? agentName : (message.userName ?? ownName);
    const isOwn = !fromAgent && author === ownName;
    const { quote, words } = message.replyTo === null ? { quote: null, words: message.text } : splitQuote(message.text);
    const classes = [css.message, fromAgent ? "" : css.user, message.joined ? css.joined : "", marked ? css.marked : ""];
    return (
      <li className={classes.join(" ")} data-message={message.id ?? message.key} tabIndex={tabStop ? 0 : -1}>
        {fromAgent && <span className={css.face}>{!message.joined && <Avatar id={workspaceId} name={agentName} />}</span>}
        <div className={css.body}>
          <p className={message.joined ? "visually-hidden" : css.head}>
            <span className={css.author}>{isOwn ? "You" : <bdi>{author}</bdi>}</span>
            <Time at={message.at} className={css.time} />
          </p>
          <div className={css.bubble}>
            {message.replyTo !== null && <Quote workspaceId={workspaceId} messageId={message.replyTo} line={quote} />}
            {words !== "" && <MessageText text={words} />}
            {message.attachments.map((file, place) => (
              <FileItem key={place} file={file} place={place} clientId={message.tick === "sending" ? message.clientId : null} />
            ))}
          </div>
          {id !== null && message.options.length > 0 && (
            <Options workspaceId={workspaceId} questionId={id} options={message.options} chosen={chosen} />
          )}
          {message.tick !== null && <DeliveryMark workspaceId={workspaceId} messageId={id} tick={message.tick} obligation={obligation} waits={waits} />}
          {obligation !== null && failureOf(obligation) !== null && (
            <p className={css.failed}>
              {agentName} could not answer: <bdi>{failureOf(obligation)}</bdi>. Send the message again, or look at the agent's log for the cause.
            </p>
          )}
          {showInstructions && obligation !== null && <UsedInstructions obligation={obligation} />}
          {message.tick === "sending" && message.attachments.length > 0 && <CancelSending clientId={message.key} />}
          {message.tick === "dead" && (
            <p className={css.failed}>
              {message.reason} <Link to={{ view: "problems" }}>View in Problems</Link>
            </p>
          )}
          {isOwn && canSend && mayAskAgain(message) && <AskAgain message={message} workspaceId={workspaceId} />}
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
        {id !== null && obligation?.draft && (
          <div className={css.draft}>
            <Avatar id={workspaceId} name={agentName} />
            <DraftCard asked={{ workspaceId, activityId: id }} draft={obligation.draft} agentName={agentName} askedBy={author === ownName ? "you" : author} />
          </div>
        )}
        <div className={css.tools}>
          <span>{exact(message.at)}</span>
          {obligation !== null && (
            <IconButton icon="book" label="Instructions sent with this message" aria-expanded={showInstructions} onClick={() => setShowInstructions(!showInstructions)} />
          )}
          {id !== null && canSend && (
            <IconButton icon="reply" label="Reply" onClick={() => onReply({ messageId: id, author: isOwn ? "yourself" : author, line: quotedLine(words) })} />
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
  const names = ["key", "id", "text", "at", "tick", "reason", "joined", "userName", "author", "obligation", "options", "replyTo"] as const;
  const sameFiles = one.attachments.length === other.attachments.length;
  return sameFiles && names.every((name) => one[name] === other[name]) && one.attachments.every((file, place) => file.uri === other.attachments[place]?.uri);
}

/** The message that a reply quotes, as a link to it. */
function Quote({ workspaceId, messageId, line }: { workspaceId: string; messageId: string; line: string | null }) {
  return (
    <Link className={css.quote} to={{ view: "chats", workspaceId, messageId }}>
      <Icon name="reply" size={12} />
      <span className="visually-hidden">In reply to: </span>
      <bdi>{line ?? "a message"}</bdi>
    </Link>
  );
}

/** A message that was not delivered, or that the agent did not answer. Attached files would have to be uploaded again. */
function mayAskAgain({ id, tick, obligation, attachments, text }: Message): boolean {
  if (id === null || attachments.length > 0 || text === "") return false;
  const unanswered = obligation !== null && (obligation.state === "overdue" || obligation.state === "declined" || failureOf(obligation) !== null);
  return tick === "dead" || unanswered;
}

/** Sends the same text as a new message. */
function AskAgain({ message, workspaceId }: { message: Message; workspaceId: string }) {
  const session = useSession();
  const [sent, setSent] = useState(false);
  if (sent) return null;
  const send = (): void => {
    setSent(true);
    void session.sendAgain(workspaceId, message.text, message.replyTo);
  };
  return (
    <div className={css.failed}>
      <Button icon="again" onClick={send}>
        {message.tick === "dead" ? "Resend" : "Ask again"}
      </Button>
    </div>
  );
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
