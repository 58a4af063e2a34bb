/** The browser's localStorage, or memory where it is unavailable (private windows, full disks). Secrets must not be stored
 * here. */

export interface KeyValueStorage {
  get(key: string): string | null;
  set(key: string, value: string): void;
  remove(key: string): void;
  keys(prefix: string): string[];
}

export function browserStorage(): KeyValueStorage {
  const spare = new Map<string, string>();
  return {
    get: (key) => spare.get(key) ?? attempt(() => localStorage.getItem(key)) ?? null,
    set: (key, value) => {
      const kept = attempt(() => {
        localStorage.setItem(key, value);
        return true;
      });
      if (kept) spare.delete(key);
      else spare.set(key, value);
    },
    remove: (key) => {
      spare.delete(key);
      attempt(() => localStorage.removeItem(key));
    },
    keys: (prefix) => {
      const stored = attempt(() => Object.keys(localStorage)) ?? [];
      return [...new Set([...stored, ...spare.keys()])].filter((key) => key.startsWith(prefix));
    },
  };
}

function attempt<T>(action: () => T): T | null {
  try {
    return action();
  } catch {
    return null;
  }
}
