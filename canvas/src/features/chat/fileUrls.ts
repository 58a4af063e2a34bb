/** Where a file of a message is read. Only files of our own server have a place on this page. */

const ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const PENDING = new RegExp(`^platform-pending:(${ID})/(${ID})$`);
const PLACE = new RegExp(`^/workspaces/${ID}/files/${ID}$`);
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** A larger picture is only downloaded: decoding it could hold up the page. */
const LARGEST_PICTURE = 10_000_000;

/** The path of a file of ours, from the name it has in messages; null for an address elsewhere. */
export function fileUrl(uri: string | null, origin: string = location.origin): string | null {
  if (uri === null) return null;
  const pending = PENDING.exec(uri);
  if (pending) return `/workspaces/${pending[1]}/files/${pending[2]}`;
  const path = uri.startsWith(`${origin}/`) ? uri.slice(origin.length) : uri;
  return PLACE.test(path) ? path : null;
}

/** Whether it is worth asking for a picture of it. What the file really is the server finds out. */
export function canPreview(file: { type: string | null; size: number | null }): boolean {
  return PICTURES.has(file.type ?? "") && (file.size ?? 0) <= LARGEST_PICTURE;
}
