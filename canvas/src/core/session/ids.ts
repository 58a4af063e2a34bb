/** Ids that nobody else has. Browsers offer their way only to pages that came over a safe connection. */

export function newId(): string {
  return crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
