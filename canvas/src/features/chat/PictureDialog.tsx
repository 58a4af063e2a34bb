/** An attached image in the size of the window. */

import { useSession } from "../../core/app";
import { Dialog } from "../../ui/Dialog";
import { Icon } from "../../ui/Icon";
import { cleanFileName } from "../../core/text/files";
import { pathInOrg } from "./fileUrls";
import css from "./FileItem.module.css";

interface Props {
  /** Path of the file on this server. */
  path: string;
  name: string;
  onClose: () => void;
}

export function PictureDialog({ path, name, onClose }: Props) {
  const { org } = useSession().identity;
  const shown = cleanFileName(name);
  return (
    <Dialog label={shown} wide onClose={onClose}>
      <img className={css.large} src={pathInOrg(`${path}/preview`, org.id)} alt={shown} />
      <p className={css.download}>
        <a href={pathInOrg(path, org.id)} download={shown}>
          <Icon name="save" size={14} /> Download
        </a>
      </p>
    </Dialog>
  );
}
