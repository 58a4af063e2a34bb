/** Above the input: the message that the next one replies to. */

import type { ReplyTarget } from "../../core/session/replyTargets";
import { IconButton } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import css from "./ReplyBar.module.css";

export function ReplyBar({ target, onCancel }: { target: ReplyTarget; onCancel: () => void }) {
  return (
    <div className={css.reply} role="group" aria-label="Reply">
      <Icon name="reply" size={14} />
      <p>
        Replying to <bdi>{target.author}</bdi>
        <span dir="auto">{target.line}</span>
      </p>
      <IconButton icon="close" label="Cancel reply" onClick={onCancel} />
    </div>
  );
}
