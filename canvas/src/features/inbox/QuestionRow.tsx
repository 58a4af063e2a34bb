/** A question of an agent, answered by one of its options. */

import { useData, useSession } from "../../core/app";
import type { Line } from "../../core/state/model";
import type { OpenQuestion } from "../../core/state/problems";
import { useStored } from "../../core/store/store";
import { Link } from "../../ui/Link";
import { MessageText } from "../../ui/MessageText";
import { Time } from "../../ui/Time";
import { choicesOf } from "../chat/conversationItems";
import { Options } from "../chat/Options";
import { WorkspaceLink } from "../problems/ProblemsView";
import css from "./InboxView.module.css";

const NO_LINES: readonly Line[] = [];

export function QuestionRow({ question }: { question: OpenQuestion }) {
  const { outbox, canSend } = useSession();
  const { activityId, workspaceId, workspaceName, text, isCut, options, askedAt } = question;
  const lines = useData((state) => state.chats.get(workspaceId)?.lines ?? NO_LINES);
  const unsent = useStored(outbox.entries);
  const chosen = choicesOf(lines, unsent).get(activityId) ?? null;
  const failed = unsent.find(({ choice, state }) => choice?.of === activityId && state === "not_sent");
  return (
    <>
      <p className={css.head}>
        <WorkspaceLink id={workspaceId} name={workspaceName} />
        <Time at={askedAt} className={css.time} />
      </p>
      <div className={css.question}>
        <MessageText text={isCut ? `${text}…` : text} />
      </div>
      <Options workspaceId={workspaceId} questionId={activityId} options={options} chosen={chosen} />
      {failed !== undefined && (
        <p role="alert" className={css.problem}>
          Your answer was not sent. {failed.reason} Send it again in the chat.
        </p>
      )}
      {!canSend && <p className={css.fact}>Only operators and owners can answer.</p>}
      <p className={css.links}>
        <Link className={css.link} to={{ view: "chats", workspaceId, messageId: activityId }}>
          {isCut ? "Read all in the chat" : "Answer in the chat"}
        </Link>
      </p>
    </>
  );
}
