/** The heading of several delegations in a chat: whom the agent asked, and how many have ended. */

import { memo } from "react";
import { useData } from "../../core/app";
import { Elapsed } from "../../ui/Elapsed";
import { Icon } from "../../ui/Icon";
import { useNow } from "../../ui/useNow";
import { Time } from "../../ui/Time";
import { delegationState, isOpen, lastAttempts, type Delegation } from "../../core/state/delegations";
import css from "./DelegationGroup.module.css";
import item from "./DelegationItem.module.css";
import message from "../../ui/TimelineItem.module.css";
import { DelegationGlyph, STATE_TEXTS } from "./DelegationMark";
import { groupText } from "./texts";

interface Props {
  id: string;
  delegations: readonly Delegation[];
  sourceName: string;
  expanded: boolean;
  tabStop: boolean;
  onToggle: (id: string, expanded: boolean) => void;
}

/** At most this many agents are named; the opened group names all. */
const NAMED = 8;

export const DelegationGroup = memo(
  function DelegationGroup({ id, delegations: all, sourceName, expanded, tabStop, onToggle }: Props) {
    const delegations = lastAttempts(all);
    const ended = delegations.filter((each) => !isOpen(each));
    const { asked, progress } = groupText(delegations);
    const [first] = delegations;
    const last = ended.length < delegations.length ? null : (ended.map(({ settledAt }) => settledAt ?? "").sort().at(-1) ?? null);
    return (
      <li className={message.message} data-message={id} data-group={id} tabIndex={tabStop ? 0 : -1}>
        <span className={`${message.face} ${css.face}`}>
          <Icon name="send" />
        </span>
        <div className={`${message.body} ${item.body}`}>
          <div className={css.group}>
            <p className={css.line}>
              <button type="button" className={css.toggle} aria-expanded={expanded} onClick={() => onToggle(id, !expanded)}>
                <Icon name={expanded ? "below" : "right"} size={14} />
                <span>
                  <bdi>{sourceName}</bdi> {asked} · {progress}
                </span>
              </button>
              {first !== undefined && <Time at={first.createdAt} className={css.time} />}
              {first !== undefined && <Elapsed from={first.createdAt} to={last} className={css.time} />}
            </p>
            <div className={css.bar} role="progressbar" aria-label="Tasks ended" aria-valuemin={0} aria-valuemax={delegations.length} aria-valuenow={ended.length} aria-valuetext={progress}>
              {delegations.map((each) => (
                <span key={each.id} data-status={isOpen(each) ? "open" : each.status} />
              ))}
            </div>
            <p className={css.peers}>
              {delegations.slice(0, NAMED).map((each) => (
                <Peer key={each.id} delegation={each} />
              ))}
              {delegations.length > NAMED && <span>and {delegations.length - NAMED} more</span>}
            </p>
          </div>
        </div>
      </li>
    );
  },
  (before, after) =>
    before.id === after.id &&
    before.expanded === after.expanded &&
    before.tabStop === after.tabStop &&
    before.sourceName === after.sourceName &&
    before.onToggle === after.onToggle &&
    before.delegations.length === after.delegations.length &&
    before.delegations.every((each, at) => each === after.delegations[at]),
);

function Peer({ delegation }: { delegation: Delegation }) {
  const now = useNow();
  const target = useData((state) => state.workspaces.get(delegation.targetId));
  const stuckSeconds = useData((state) => state.stuckSeconds);
  const state = delegationState(delegation, target, now, stuckSeconds);
  return (
    <span className={css.peer}>
      <DelegationGlyph state={state} />
      <bdi>{target?.name ?? "a removed agent"}</bdi>
      <span className="visually-hidden">: {STATE_TEXTS[state]}, </span>
    </span>
  );
}
