/** What becomes of a question to the server when it is not answered as asked. */

/** The server said no. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: string | null;

  constructor(status: number, code: string | null, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** No answer came. Whether the command had its effect is not known. */
export class NoAnswer extends Error {}

export function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}
