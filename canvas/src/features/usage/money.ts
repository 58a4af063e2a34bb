/** Amounts of money in millionths of a currency. Pure. */

export const MICROS = 1_000_000;

/** An amount in millionths of a currency: "US$1.25", with up to four decimals below one unit. */
export function money(micros: number, currency: string): string {
  const amount = micros / MICROS;
  const digits = amount !== 0 && Math.abs(amount) < 1 ? 4 : 2;
  return new Intl.NumberFormat("en-GB", { style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits }).format(amount);
}

/** The price that a person typed, from zero, or null if it is none. */
export function parsePrice(typed: string): number | null {
  const price = Math.round(Number(typed.trim()) * MICROS);
  return typed.trim() !== "" && Number.isSafeInteger(price) && price >= 0 ? price : null;
}
