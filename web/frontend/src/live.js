/**
 * Live parts: regions of a page that keep themselves up to date.
 *
 * `<div data-live="NAME" data-live-seconds="2">`: every so many seconds the page's own address is asked for its part NAME
 * (header `X-Fragment: NAME`), with the tag of what is shown; new content is morphed in. `data-live-events="/address"`
 * names a stream of server-sent events, each of which is a reason to ask at once. An element of the content with
 * `data-live-end` says that nothing will change any more. Nothing is asked while the tab is hidden or the session is over.
 * When the server cannot be reached the pauses grow, and the line `[data-live-status]` (made where a page has none) says so.
 */
import { noteServerTime } from "./ago.js";
import { morph } from "./morph.js";
import { ask, pauseAfter, RequestFailed } from "./requests.js";
import { sessionIsOver } from "./session.js";
import { toast } from "./toasts.js";

const DEFAULT_SECONDS = 5;
/** Events may come in dozens a second. */
const SHORTEST_MILLISECONDS = 300;
/** Kinds of the events of a job, beside the plain `message`. */
const EVENTS = ["message", "job", "level", "chunk", "progress"];

/** @type {Set<Part>} */
const parts = new Set();

/** Starts every live part of the page, and of what comes into it later. */
export function start() {
  adopt();
  document.addEventListener("skipmap:swap", adopt);
  document.addEventListener("visibilitychange", () => {
    for (const part of parts) document.hidden ? part.rest() : part.wake();
  });
  document.addEventListener("skipmap:session-over", () => parts.forEach((part) => part.rest()));
  document.addEventListener("skipmap:session-back", () => parts.forEach((part) => part.wake()));
  addEventListener("online", () => parts.forEach((part) => part.wake()));
}

function adopt() {
  for (const part of parts) if (!part.region.isConnected) part.end();
  const known = new Set([...parts].map((part) => part.region));
  for (const region of document.querySelectorAll("[data-live]")) {
    if (region instanceof HTMLElement && !known.has(region)) parts.add(new Part(region));
  }
  showStatus();
}

/** One region. */
class Part {
  /** @param {HTMLElement} region */
  constructor(region) {
    this.region = region;
    this.failures = 0;
    this.tag = "";
    this.asking = false;
    this.isDue = false;
    this.askedAt = -Infinity;
    this.retrySeconds = 0;
    /** @type {ReturnType<typeof setTimeout>|undefined} */
    this.timer = undefined;
    /** @type {EventSource|undefined} */
    this.stream = undefined;
    if (!document.hidden) this.begin();
  }

  begin() {
    if (this.hasEnded()) return;
    this.listen();
    this.askIn(this.seconds() * 1000);
  }

  /** Asks at once; to be called when there is reason to think that something is new. */
  wake() {
    if (this.hasEnded()) return;
    this.listen();
    this.askIn(Math.max(0, this.askedAt + SHORTEST_MILLISECONDS - performance.now()));
  }

  rest() {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.stream?.close();
    this.stream = undefined;
  }

  end() {
    this.rest();
    parts.delete(this);
  }

  seconds() {
    return Number(this.region.dataset.liveSeconds) || DEFAULT_SECONDS;
  }

  hasEnded() {
    return this.region.matches("[data-live-end]") || this.region.querySelector("[data-live-end]") !== null;
  }

  listen() {
    const address = this.region.dataset.liveEvents;
    if (!address || this.stream) return;
    this.stream = new EventSource(address);
    for (const kind of EVENTS) this.stream.addEventListener(kind, () => this.wake());
  }

  /** @param {number} milliseconds */
  askIn(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.ask(), milliseconds);
  }

  async ask() {
    if (this.asking) {
      this.isDue = true;
      return;
    }
    this.asking = true;
    this.isDue = false;
    this.askedAt = performance.now();
    const address = location.pathname + location.search;
    try {
      const response = await ask(address, { fragment: this.region.dataset.live, tag: this.tag });
      const content = response.status === 304 ? undefined : await response.text();
      noteServerTime(response);
      this.failures = 0;
      // The address changes when filters do; the answer is then of no use.
      if (content !== undefined && this.region.isConnected && address === location.pathname + location.search) {
        this.tag = response.headers.get("ETag") ?? "";
        morph(this.region, content);
      }
    } catch (error) {
      if (!this.bear(error)) return;
    } finally {
      this.asking = false;
      showStatus();
    }
    this.goOn();
  }

  goOn() {
    if (!this.region.isConnected) this.end();
    else if (this.hasEnded()) this.rest();
    else if (document.hidden) this.rest();
    else if (this.isDue && !this.failures) this.wake();
    else this.askIn(this.pause());
  }

  /** Milliseconds until the next time. */
  pause() {
    const { failures, retrySeconds } = this;
    return failures ? pauseAfter(failures, { seconds: this.seconds(), retrySeconds }) : this.seconds() * 1000;
  }

  /** @param {unknown} error @returns {boolean} whether to go on */
  bear(error) {
    const failure = error instanceof RequestFailed ? error : new RequestFailed(String(error));
    this.retrySeconds = failure.retrySeconds;
    this.failures += 1;
    if (failure.isPassing) return true;
    this.failures = 0;
    if (failure.status === 401) {
      sessionIsOver();
    } else {
      this.end();
      toast("bad", failure.message);
    }
    return false;
  }
}

function showStatus() {
  const isAway = [...parts].some((part) => part.failures > 0);
  let line = document.querySelector("[data-live-status]");
  if (!line && isAway) {
    line = document.createElement("p");
    line.className = "live-status";
    line.setAttribute("role", "status");
    line.setAttribute("data-live-status", "");
    (document.querySelector("main") ?? document.body).prepend(line);
  }
  if (!(line instanceof HTMLElement)) return;
  line.textContent = isAway ? "Cannot reach the server; trying again" : "";
  line.hidden = !isAway;
}
