/** The options of an agent's question as buttons. After a choice all of them are disabled and the chosen one is marked. */

import { useSession } from "../../core/app";
import { Icon } from "../../ui/Icon";
import css from "./Options.module.css";

interface Props {
  workspaceId: string;
  questionId: string;
  options: readonly string[];
  /** Index of the chosen option. */
  chosen: number | null;
}

export function Options({ workspaceId, questionId, options, chosen }: Props) {
  const session = useSession();
  return (
    <div role="group" aria-label="Options" className={css.options}>
      {options.map((words, at) => (
        <button
          key={at}
          type="button"
          className={css.option}
          aria-pressed={chosen === at}
          disabled={chosen !== null || !session.canSend}
          onClick={() => void session.sendChoice(workspaceId, words, { of: questionId, option: at })}
        >
          {chosen === at && <Icon name="check" size={14} />}
          <bdi>{words}</bdi>
          {chosen === at && <span className="visually-hidden">, selected</span>}
        </button>
      ))}
    </div>
  );
}
