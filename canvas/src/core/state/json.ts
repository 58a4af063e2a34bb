/** Read members of parsed JSON. A member of another type reads as absent; nothing here throws. */

export type Members = Readonly<Record<string, unknown>>;

export function members(value: unknown): Members | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : null;
}

export function at(value: unknown, ...path: string[]): unknown {
  let found = value;
  for (const name of path) found = members(found)?.[name];
  return found;
}

export function text(value: unknown, ...path: string[]): string | null {
  const found = at(value, ...path);
  return typeof found === "string" ? found : null;
}

export function number(value: unknown, ...path: string[]): number | null {
  const found = at(value, ...path);
  return typeof found === "number" && Number.isFinite(found) ? found : null;
}

export function list(value: unknown, ...path: string[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}
