/** The files that were chosen for a message, before it is sent: what they are called, how large they are, and what keeps
 * one from being sent. */

import { FileName } from "../parts/FileName";
import { IconButton } from "../parts/Button";
import { Icon } from "../parts/Icon";
import type { Chosen } from "../state/chosen";
import { nameText, problemOf, type UploadLimits } from "../text/files";
import { sizeText } from "../text/words";
import css from "./ChosenList.module.css";

interface Props {
  chosen: readonly Chosen[];
  limits: UploadLimits | null;
  onRemove: (key: string) => void;
}

export function ChosenList({ chosen, limits, onRemove }: Props) {
  if (chosen.length === 0) return null;
  return (
    <ul className={css.list} aria-label="Files to send">
      {chosen.map(({ key, file }, place) => {
        const problem = problemOf(file, place, limits);
        return (
          <li key={key} className={problem === null ? css.file : `${css.file} ${css.bad}`}>
            <Icon name={problem === null ? "file" : "warning"} size={14} />
            <FileName name={file.name} />
            <span className={css.size}>{sizeText(file.size)}</span>
            {problem !== null && <span role="alert">Cannot be sent, {problem}</span>}
            <IconButton icon="close" className={css.remove} label={`Remove ${nameText(file.name)}`} onClick={() => onRemove(key)} />
          </li>
        );
      })}
    </ul>
  );
}
