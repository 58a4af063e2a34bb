/** Unique ids. `crypto.randomUUID` exists only on pages loaded over a secure connection. */

export function newId(): string {
  return crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
