/** What becomes of a question to the server when it is not answered as asked. */

/** The server said no. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string | null;
  /** All that it said, for those who ask about more than the words. */
  readonly body: unknown;

  constructor(status: number, code: string | null, message: string, answer: unknown = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.body = answer;
  }
}

/** No answer came. Whether the command had its effect is not known. */
export class NoResponseError extends Error {}
