/** Where a file of a message is read. Only files of this server have a URL in this page. */

const ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const PENDING = new RegExp(`^platform-pending:(${ID})/(${ID})$`);
const PLACE = new RegExp(`^/workspaces/${ID}/files/${ID}$`);
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
/** A larger image is only a download: decoding it could block the page. */
const LARGEST_PICTURE = 10_000_000;

/** The path of a file of this server, from its address in messages; null for an address elsewhere. */
export function fileUrl(uri: string | null, origin: string = location.origin): string | null {
  if (uri === null) return null;
  const pending = PENDING.exec(uri);
  if (pending) return `/workspaces/${pending[1]}/files/${pending[2]}`;
  const path = uri.startsWith(`${origin}/`) ? uri.slice(origin.length) : uri;
  return PLACE.test(path) ? path : null;
}

/** The path for a link or picture, which cannot have the header that names the login of a request. */
export function pathInOrg(path: string, orgId: string): string {
  return `${path}?session_org=${encodeURIComponent(orgId)}`;
}

/** Whether to request a preview. The server checks the real type. */
export function canPreview(file: { type: string | null; size: number | null }): boolean {
  return PICTURES.has(file.type ?? "") && (file.size ?? 0) <= LARGEST_PICTURE;
}
