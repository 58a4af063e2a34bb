/** One file of a message: a preview if it is an image of this server, its name, its size, and a download link. */

import { useState } from "react";
import { useSession } from "../../core/app";
import { FileName } from "../../ui/FileName";
import { Icon } from "../../ui/Icon";
import { destination, safeAddress } from "../../ui/links";
import type { Attachment } from "../../core/state/model";
import { canPreview, fileUrl, pathInOrg } from "./fileUrls";
import { useSelected } from "../../core/store/store";
import { cleanFileName } from "../../core/text/files";
import { sizeText } from "../../core/text/strings";
import css from "./FileItem.module.css";
import { PictureDialog } from "./PictureDialog";

interface Props {
  file: Attachment;
  /** While the message is being sent: its client id and the position of the file. */
  clientId: string | null;
  place: number;
}

export function FileItem({ file, clientId, place }: Props) {
  const path = fileUrl(file.uri);
  return (
    <div className={css.file}>
      {path !== null && canPreview(file) && <Picture path={path} name={file.name} />}
      <p className={css.line}>
        <Icon name={path === null ? "file" : "save"} size={14} />
        <Named file={file} path={path} />
        {file.size !== null && <span className={css.size}>{sizeText(file.size)}</span>}
      </p>
      {clientId !== null && <Progress clientId={clientId} place={place} file={file} />}
    </div>
  );
}

/** A file of this server is a download, another address is a link that shows its host, and anything else is text. */
function Named({ file, path }: { file: Attachment; path: string | null }) {
  const { org } = useSession().identity;
  if (path !== null) {
    return (
      <a href={pathInOrg(path, org.id)} download={cleanFileName(file.name)}>
        <FileName name={file.name} />
      </a>
    );
  }
  const url = file.uri === null ? null : safeAddress(file.uri);
  if (url === null) return <FileName name={file.name} />;
  return (
    <>
      <a href={url.href} target="_blank" rel="noopener noreferrer" title={url.href}>
        <FileName name={file.name} />
      </a>
      <span className={css.size}>(on {destination(url)})</span>
    </>
  );
}

/** The server sends it only if it really is an image. Its space is reserved, so that nothing moves when it loads. */
function Picture({ path, name }: { path: string; name: string }) {
  const [failed, setFailed] = useState(false);
  const [large, setLarge] = useState(false);
  const { org } = useSession().identity;
  if (failed) return null;
  return (
    <>
      <button type="button" className={css.picture} aria-label={`Enlarge ${cleanFileName(name)}`} aria-haspopup="dialog" onClick={() => setLarge(true)}>
        <img src={pathInOrg(`${path}/preview`, org.id)} alt={`Preview of ${cleanFileName(name)}`} loading="lazy" decoding="async" onError={() => setFailed(true)} />
      </button>
      {large && <PictureDialog path={path} name={name} onClose={() => setLarge(false)} />}
    </>
  );
}

/** Upload progress. */
function Progress({ clientId, place, file }: { clientId: string; place: number; file: Attachment }) {
  const { progress } = useSession().uploads;
  const sent = useSelected(progress, (all) => all.get(clientId)?.get(place));
  if (sent === undefined || file.uri !== null) return null;
  return <progress className={css.progress} max={file.size || 1} value={sent} aria-label={`Sending ${cleanFileName(file.name)}`} />;
}
