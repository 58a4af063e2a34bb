/** An attached image in the size of the window. */

import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { cleanFileName } from "../../core/text/files";
import css from "./FileItem.module.css";

interface Props {
  /** Path of the file on this server. */
  path: string;
  name: string;
  onClose: () => void;
}

export function PictureDialog({ path, name, onClose }: Props) {
  const shown = cleanFileName(name);
  return (
    <Dialog label={shown} wide onClose={onClose}>
      <img className={css.large} src={`${path}/preview`} alt={shown} />
      <p className={css.download}>
        <a href={path} download={shown}>
          <Icon name="save" size={14} /> Download
        </a>
      </p>
    </Dialog>
  );
}
