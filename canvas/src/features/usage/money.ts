/** Amounts of money. Pure. */

const MICROS = 1_000_000;

/** An amount in millionths of a currency: "US$1.25", with up to four decimals below one unit. */
export function money(micros: number, currency: string): string {
  const amount = micros / MICROS;
  const digits = amount !== 0 && Math.abs(amount) < 1 ? 4 : 2;
  return new Intl.NumberFormat("en-GB", { style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits }).format(amount);
}
