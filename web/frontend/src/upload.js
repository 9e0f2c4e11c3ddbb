/**
 * Uploads: `<div data-upload>` around a file field. Files can be dropped on it; a bar shows how far the upload is.
 *
 * Within `data-upload-url="/address"` a file is sent there as soon as it is chosen, alone, under the name `file`; nothing
 * else of the form changes. The answer `{id, label, text}` becomes the chosen option of the select `data-upload-into="ID"`,
 * and the radio button `data-upload-choose="ID"` is checked. Elsewhere a file goes with its form when that is sent, and the
 * answer `{location}` says where to go on. Errors are `{title, detail, problems}` and stand below the field, which is then
 * empty. All of it has the headers of requests.js.
 */
import { csrfToken, headersOf, messageOf } from "./requests.js";
import { sessionIsOver } from "./session.js";
import { toast } from "./toasts.js";

/** Takes care of every file field that is marked. */
export function start() {
  for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, onDrag);
  document.addEventListener("change", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement) || !hasFile(field)) return;
    const source = field.closest("[data-upload-url]");
    const zone = field.closest("[data-upload]");
    if (source instanceof HTMLElement && zone instanceof HTMLElement) sendAlone(field, zone, source);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || event.defaultPrevented) return;
    const field = [...form.querySelectorAll("[data-upload] input[type=file]")].find(hasFile);
    const zone = field?.closest("[data-upload]");
    if (!(zone instanceof HTMLElement) || zone.closest("[data-upload-url]")) return;
    event.preventDefault();
    if (form.getAttribute("aria-busy") !== "true") sendForm(form, /** @type {HTMLInputElement} */ (field), zone);
  });
}

/** @param {Element} field @returns {boolean} */
function hasFile(field) {
  const isIn = field instanceof HTMLInputElement && field.matches("[data-upload] input[type=file]:enabled");
  return isIn && Boolean(field.files?.length);
}

/** @param {Event} event */
function onDrag(event) {
  const zone = event.target instanceof Element ? event.target.closest("[data-upload]") : null;
  const field = zone?.querySelector("input[type=file]");
  if (!zone || !(event instanceof DragEvent) || !(field instanceof HTMLInputElement)) return;
  if (field.matches(":disabled")) return;
  event.preventDefault();
  zone.classList.toggle("is-over", event.type === "dragover");
  const files = event.dataTransfer?.files;
  if (event.type !== "drop" || !files?.length) return;
  if (files.length > 1 && !field.multiple) {
    toast("warning", "Drop one file at a time.");
    return;
  }
  field.files = files;
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

/** @param {HTMLInputElement} field @param {HTMLElement} zone @param {HTMLElement} source */
function sendAlone(field, zone, source) {
  const body = new FormData();
  body.append("csrf_token", csrfToken());
  body.append("file", /** @type {FileList} */ (field.files)[0]);
  field.disabled = true;
  send(source.dataset.uploadUrl ?? "", body, zone, {
    end: () => {
      field.disabled = false;
      field.value = "";
    },
    take: (answer) => {
      choose(source, answer);
      note(zone, "upload-done", "status").append(String(answer.text ?? "Uploaded"));
    },
  });
}

/** @param {HTMLFormElement} form @param {HTMLInputElement} field @param {HTMLElement} zone */
function sendForm(form, field, zone) {
  form.setAttribute("aria-busy", "true");
  send(form.action, new FormData(form), zone, {
    end: () => form.removeAttribute("aria-busy"),
    fail: () => (field.value = ""),
    take: (answer) => location.assign(new URL(String(answer.location ?? ""), location.href)),
  });
}

/**
 * @param {string} address
 * @param {FormData} body
 * @param {HTMLElement} zone
 * @param {{end: () => void, take: (answer: Record<string, unknown>) => void, fail?: () => void}} then
 */
function send(address, body, zone, then) {
  const request = new XMLHttpRequest(); // fetch() does not tell how much is sent.
  for (const old of zone.querySelectorAll(".upload-done, .upload-error")) old.remove();
  const view = progressIn(zone, () => request.abort());
  /** @param {() => void} say */
  const endWith = (say) => () => {
    view.remove();
    then.end();
    say();
  };
  request.open("POST", address);
  for (const [name, value] of Object.entries(headersOf({ isPost: true }))) request.setRequestHeader(name, value);
  request.upload.addEventListener("progress", (event) => view.tell(event.loaded, event.total));
  request.addEventListener("load", endWith(() => receive(request, zone, then)));
  // A server that refuses a large body early may end the connection before its answer is read.
  const lost = "The upload was cut off. Check the connection and the size of the file, then try again.";
  request.addEventListener("error", endWith(() => note(zone, "upload-error", "alert").append(lost)));
  request.addEventListener("abort", endWith(() => toast("info", "The upload was stopped. Nothing was stored.")));
  request.send(body);
}

/** @param {XMLHttpRequest} request @param {HTMLElement} zone @param {Parameters<typeof send>[3]} then */
function receive(request, zone, then) {
  if (request.status === 401) {
    sessionIsOver();
    return;
  }
  const answer = parsed(request.responseText);
  if (request.status < 400 && answer) {
    then.take(answer);
    return;
  }
  then.fail?.();
  const place = note(zone, "upload-error", "alert");
  const text = document.createElement("p");
  text.textContent = messageOf(request.responseText, request.status);
  place.append(text);
  if (!Array.isArray(answer?.problems)) return;
  const list = document.createElement("ul");
  for (const problem of answer.problems) list.append(itemOf(String(problem)));
  place.append(list);
}

/** @param {string} text @returns {Record<string, unknown>|undefined} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @param {string} text */
function itemOf(text) {
  const item = document.createElement("li");
  item.textContent = text;
  return item;
}

/** @param {HTMLElement} source @param {Record<string, unknown>} answer */
function choose(source, answer) {
  const select = document.getElementById(source.dataset.uploadInto ?? "");
  if (select instanceof HTMLSelectElement) {
    const id = String(answer.id);
    const isThere = [...select.options].some((option) => option.value === id);
    if (!isThere) select.add(new Option(String(answer.label ?? id), id));
    select.value = id;
    for (const kind of ["input", "change"]) select.dispatchEvent(new Event(kind, { bubbles: true }));
  }
  const radio = document.getElementById(source.dataset.uploadChoose ?? "");
  if (radio instanceof HTMLInputElement && !radio.checked) {
    radio.checked = true;
    radio.dispatchEvent(new Event("change", { bubbles: true }));
  }
}

/** @param {HTMLElement} zone @param {string} className @param {string} role */
function note(zone, className, role) {
  const place = document.createElement("div");
  place.className = className;
  place.setAttribute("role", role);
  zone.append(place);
  return place;
}

/**
 * Progress below the field.
 * @param {HTMLElement} zone
 * @param {() => void} stop
 */
function progressIn(zone, stop) {
  const view = document.createElement("div");
  view.className = "upload-progress";
  const text = document.createElement("span");
  text.setAttribute("role", "status");
  text.textContent = "Sending";
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", "Upload");
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "button secondary small", textContent: "Stop" });
  button.addEventListener("click", stop);
  view.append(bar, text, button);
  zone.append(view);
  return {
    remove: () => view.remove(),
    /** @param {number} sent @param {number} total */
    tell(sent, total) {
      if (!total) return;
      bar.max = total;
      bar.value = sent;
      const share = Math.floor((100 * sent) / total);
      // In steps, since each change is read out.
      const words = sent < total ? `Sent ${share - (share % 10)}\u00a0%` : "All sent; the server is checking it";
      if (text.textContent !== words) text.textContent = words;
    },
  };
}
