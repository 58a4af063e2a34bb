/** Files chosen for a message before it is sent: name, size, and why one cannot be sent. */

import { FileName } from "../../ui/FileName";
import { IconButton } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import type { ChosenFile } from "../../core/session/chosenFiles";
import { cleanFileName, fileProblem, type UploadLimits } from "../../core/text/files";
import { sizeText } from "../../core/text/strings";
import css from "./ChosenFileList.module.css";

interface Props {
  chosen: readonly ChosenFile[];
  limits: UploadLimits | null;
  onRemove: (key: string) => void;
}

export function ChosenFileList({ chosen, limits, onRemove }: Props) {
  if (chosen.length === 0) return null;
  return (
    <ul className={css.list} aria-label="Files to send">
      {chosen.map(({ key, file }, place) => {
        const problem = fileProblem(file, place, limits);
        return (
          <li key={key} className={problem === null ? css.file : `${css.file} ${css.bad}`}>
            <Icon name={problem === null ? "file" : "warning"} size={14} />
            <FileName name={file.name} />
            <span className={css.size}>{sizeText(file.size)}</span>
            {problem !== null && <span role="alert">Cannot be sent: {problem}</span>}
            <IconButton icon="close" className={css.remove} label={`Remove ${cleanFileName(file.name)}`} onClick={() => onRemove(key)} />
          </li>
        );
      })}
    </ul>
  );
}
