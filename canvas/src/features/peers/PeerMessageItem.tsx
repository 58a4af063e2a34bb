/** A message of one agent to another, to read only. */

import { memo } from "react";
import { useData } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { CopyButton } from "../../ui/CopyButton";
import { Link } from "../../ui/Link";
import { MessageText } from "../../ui/MessageText";
import { Time } from "../../ui/Time";
import { hrefOf } from "../../core/router";
import { waitReason } from "../../core/state/delivery";
import type { PeerLine } from "../../core/state/peerMessages";
import { exact } from "../../core/text/time";
import { DeliveryMark } from "../chat/DeliveryMark";
import { FileItem } from "../chat/FileItem";
import { failureOf } from "../chat/deliveryText";
import css from "../../ui/TimelineItem.module.css";
import { kindText } from "./peerItems";

interface Props {
  line: PeerLine;
  /** The agent whose messages are on the right. */
  workspaceId: string;
  names: ReadonlyMap<string, string>;
  joined: boolean;
  tabStop: boolean;
  marked: boolean;
  now: number;
}

export const PeerMessageItem = memo(function PeerMessageItem({ line, workspaceId, names, joined, tabStop, marked, now }: Props) {
  const { id, sourceId, targetId, delivery, obligation } = line;
  const target = useData((state) => state.workspaces.get(targetId));
  const own = sourceId === workspaceId;
  const [author, reader] = [nameIn(names, sourceId), nameIn(names, targetId)];
  const kind = kindText(line.kind);
  const classes = [css.message, own ? css.user : "", joined ? css.joined : "", marked ? css.marked : ""];
  return (
    <li className={classes.join(" ")} data-message={id} data-author={sourceId} tabIndex={tabStop ? 0 : -1}>
      {!own && <span className={css.face}>{!joined && <Avatar id={sourceId} name={author} />}</span>}
      <div className={css.body}>
        <p className={joined ? "visually-hidden" : css.head}>
          <span className={css.author}>
            <bdi>{author}</bdi>
          </span>
          {kind !== null && <span className={css.time}>{kind}</span>}
          <Time at={line.at} className={css.time} />
        </p>
        <div className={css.bubble}>
          {line.text !== "" && <MessageText text={line.text} />}
          {line.attachments.map((file, place) => (
            <FileItem key={place} file={file} place={place} clientId={null} />
          ))}
        </div>
        {delivery !== null && <DeliveryMark workspaceId={targetId} messageId={id} tick={delivery} obligation={obligation} waits={target === undefined ? null : waitReason(target, now)} />}
        {obligation !== null && failureOf(obligation) !== null && (
          <p className={css.failed}>
            {reader} could not answer: <bdi>{failureOf(obligation)}</bdi>
          </p>
        )}
        {(delivery === "dead" || obligation?.draft != null) && (
          <p className={css.failed}>
            {delivery === "dead" ? line.problem : `${reader} has an unsent answer.`} <Link to={{ view: "problems" }}>View in Problems</Link>
          </p>
        )}
      </div>
      <div className={css.tools}>
        <span>{exact(line.at)}</span>
        <CopyButton text={line.text} label="Copy message" />
        <CopyButton text={linkTo(line, workspaceId)} label="Copy link to message" icon="link" />
      </div>
    </li>
  );
});

export function nameIn(names: ReadonlyMap<string, string>, id: string): string {
  return names.get(id) ?? "Removed agent";
}

function linkTo({ id, sourceId, targetId }: PeerLine, workspaceId: string): string {
  const peerId = sourceId === workspaceId ? targetId : sourceId;
  return location.origin + hrefOf({ view: "peers", workspaceId, peerId, messageId: id });
}
