/** Memoization without React, so that pure state can be loaded outside of the page. */

/** Memoize a function of one object by identity. */
export function memoized<K extends object, R>(compute: (key: K) => R): (key: K) => R {
  const results = new WeakMap<K, R>();
  return (key) => {
    const known = results.get(key);
    if (known !== undefined) return known;
    const result = compute(key);
    results.set(key, result);
    return result;
  };
}
