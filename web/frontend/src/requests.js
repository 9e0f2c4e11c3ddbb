/**
 * Requests to this site: headers that the server asks for, and one kind of error for all that can go wrong.
 *
 * Every request carries `X-Requested-With: fetch`, so that errors come as JSON `{title, detail, field}` instead of a page;
 * a POST also carries `X-CSRF-Token` from `<meta name="csrf-token">`.
 */

/** Where the site begins, also behind a proxy's prefix: scripts lie in its folder `static`. */
export const SITE = new URL("../", import.meta.url);

const SECONDS = 30;
const LONGEST_PAUSE_SECONDS = 60;

/** What went wrong; `message` is for people. `status` is 0 when the server could not be reached. */
export class RequestFailed extends Error {
  /** @param {string} message @param {number} [status] @param {number} [retrySeconds] */
  constructor(message, status = 0, retrySeconds = 0) {
    super(message);
    this.status = status;
    this.retrySeconds = retrySeconds;
  }

  /** Whether the same request may well succeed later. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/**
 * Milliseconds until the next try after so many failures in a row: more after each, and not the same for everybody.
 * @param {number} failures
 * @param {{seconds?: number, retrySeconds?: number}} [more] `seconds`: the first pause; `retrySeconds`: no less than these
 */
export function pauseAfter(failures, { seconds = 2, retrySeconds = 0 } = {}) {
  const pause = Math.min(Math.max(LONGEST_PAUSE_SECONDS, seconds), Math.max(2, seconds) * 2 ** (failures - 1));
  return Math.max(pause * (0.8 + 0.4 * Math.random()), retrySeconds) * 1000;
}

/** @returns {string} what a POST of this page must send along */
export function csrfToken() {
  const meta = document.querySelector('meta[name="csrf-token"]');
  const field = document.querySelector('input[name="csrf_token"]');
  return meta?.getAttribute("content") ?? field?.getAttribute("value") ?? "";
}

/**
 * Headers of a request.
 * @param {{fragment?: string, tag?: string, isPost?: boolean}} [more]
 * @returns {Record<string, string>}
 */
export function headersOf({ fragment, tag, isPost } = {}) {
  return {
    "X-Requested-With": "fetch",
    ...(fragment ? { "X-Fragment": fragment } : {}),
    ...(tag ? { "If-None-Match": tag } : {}),
    ...(isPost ? { "X-CSRF-Token": csrfToken() } : {}),
  };
}

/**
 * Asks for an address, by POST where there is a body.
 * @param {string|URL} address
 * @param {{fragment?: string, tag?: string, body?: BodyInit, signal?: AbortSignal}} [more] `fragment`: the part of the
 *   page that is wanted; `tag`: what is there already, so that the answer may be 304
 * @returns {Promise<Response>} with a status of 2xx or 304
 * @throws {RequestFailed} for any other answer, and for none; an abort through `signal` is thrown as it is
 */
export async function ask(address, { fragment, tag, body, signal } = {}) {
  const limit = AbortSignal.timeout(SECONDS * 1000);
  const isPost = body !== undefined;
  let response;
  try {
    response = await fetch(address, {
      method: isPost ? "POST" : "GET",
      headers: headersOf({ fragment, tag, isPost }),
      body,
      cache: "no-store", // Tags are compared here; the browser's own copies would hide a 304.
      signal: signal ? eitherOf(signal, limit) : limit,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestFailed("Cannot reach the server. Check the connection and try again.");
  }
  if (response.ok || response.status === 304) return response;
  throw await failureOf(response);
}

/** @param {AbortSignal} first @param {AbortSignal} second */
function eitherOf(first, second) {
  const both = new AbortController();
  for (const signal of [first, second]) {
    if (signal.aborted) both.abort(signal.reason);
    signal.addEventListener("abort", () => both.abort(signal.reason), { once: true });
  }
  return both.signal;
}

/** @param {Response} response @returns {Promise<RequestFailed>} */
async function failureOf(response) {
  const retry = Number(response.headers.get("Retry-After")) || 0;
  return new RequestFailed(messageOf(await response.text().catch(() => ""), response.status), response.status, retry);
}

/**
 * What an error's body says to people.
 * @param {string} body
 * @param {number} status
 */
export function messageOf(body, status) {
  try {
    const { title, detail } = JSON.parse(body);
    if (detail || title) return String(detail || title);
  } catch {
    // No JSON: an answer of a proxy, or of another version.
  }
  return `The server answered with status ${status}. Load the page again; if it stays so, tell whoever runs the service.`;
}
