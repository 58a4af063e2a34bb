/** Errors of a request to the server. */

/** The server rejected the request. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string | null;
  /** The parsed response body. */
  readonly body: unknown;

  constructor(status: number, code: string | null, message: string, answer: unknown = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.body = answer;
  }
}

/** No response arrived. The command may or may not have taken effect. */
export class NoResponseError extends Error {}
