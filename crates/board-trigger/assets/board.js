// Keeps an open board up to date, and a few keys. Every page works without it.
"use strict";

/** Milliseconds between looks while no stream tells of changes. */
const LOOK_MS = 5000;
/** Milliseconds after which what changed is fetched, so that several changes are one look. */
const GATHER_MS = 150;

/** The one door for markup: only what the board itself served goes through it. */
const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("board", { createHTML: (text) => text })
  : { createHTML: (text) => text };

const board = document.getElementById("brett");
if (board) watch(board);
const followed = document.getElementById("folge");
if (followed) follow(followed);
choices();
keys();

/** @param {HTMLElement} board */
function watch(board) {
  const live = document.getElementById("live");
  const query = board.dataset.query ? "?" + board.dataset.query : "";
  const title = document.title;
  let tag = "";
  let stream = null;
  let timer = 0;
  let gathering = 0;
  let looking = false;
  let again = false;
  let waiting = null;

  const say = (kind, key) => {
    if (!live) return;
    live.hidden = false;
    live.className = "live " + kind;
    live.textContent = live.dataset[key] || "";
  };

  /** Something in the board that a replacement would take away from whoever uses it. */
  const isHot = () => {
    const focus = document.activeElement;
    if (focus && board.contains(focus) && !focus.matches("a, section")) return true;
    if (board.querySelector("[data-dirty], .tile details[open]")) return true;
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && selection.anchorNode && board.contains(selection.anchorNode));
  };

  const put = (text) => {
    const focus = document.activeElement;
    const card = focus && board.contains(focus) ? focus.closest("[id]") : null;
    const row = board.querySelector(".columns");
    const left = row ? row.scrollLeft : 0;
    const tops = new Map();
    for (const list of board.querySelectorAll(".column > ul")) tops.set(list.parentElement.id, list.scrollTop);
    const open = board.querySelector(".broken[open]");
    board.innerHTML = policy.createHTML(text);
    const now = board.querySelector(".columns");
    if (now) now.scrollLeft = left;
    for (const [id, top] of tops) {
      const list = document.querySelector("#" + CSS.escape(id) + " > ul");
      if (list) list.scrollTop = top;
    }
    const broken = board.querySelector(".broken");
    if (open && broken) broken.open = true;
    const same = card && document.getElementById(card.id);
    const target = same && (same.matches("section") ? same : same.querySelector("h3 a"));
    if (target) target.focus({ preventScroll: true });
    count();
  };

  /** „(2)" in the title while cards need somebody. */
  const count = () => {
    const columns = board.querySelector(".columns");
    const needs = Number((columns && columns.dataset.needs) || 0);
    document.title = needs > 0 ? "(" + needs + ") " + title : title;
  };

  const settle = () => {
    if (waiting === null) return;
    if (isHot()) {
      say("held", "wait");
      return;
    }
    const text = waiting;
    waiting = null;
    put(text);
    say("", "on");
  };

  const look = async () => {
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    try {
      const headers = { Accept: "text/html; fragment" };
      if (tag) headers["If-None-Match"] = tag;
      const answer = await fetch("/fragment/board" + query, { headers, redirect: "manual", credentials: "same-origin", cache: "no-store" });
      if (answer.type === "opaqueredirect" || answer.status === 401 || !answer.headers.has("Board-Api")) {
        say("off", "signedOut");
      } else if (answer.status === 200) {
        const text = await answer.text();
        tag = answer.headers.get("ETag") || "";
        waiting = text;
        settle();
      } else if (answer.status === 304) {
        settle();
        if (waiting === null) say("", "on");
      } else {
        say("off", "off");
      }
    } catch {
      say("off", "off");
    }
    looking = false;
    if (again) {
      again = false;
      look();
    }
  };

  const soon = () => {
    clearTimeout(gathering);
    gathering = window.setTimeout(look, GATHER_MS);
  };

  const start = () => {
    stop();
    look();
    if ("EventSource" in window) {
      stream = new EventSource("/api/board/events");
      stream.addEventListener("rev", soon);
      stream.addEventListener("resync", soon);
    }
    // Also beside a stream: times grow older, and a proxy may hold a stream back without a word.
    timer = window.setInterval(() => {
      if (waiting !== null) settle();
      if (!stream || stream.readyState !== EventSource.OPEN) look();
    }, LOOK_MS);
  };

  const stop = () => {
    if (stream) stream.close();
    stream = null;
    clearInterval(timer);
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  window.addEventListener("online", look);
  window.addEventListener("pageshow", (event) => event.persisted && start());
  window.addEventListener("pagehide", stop);
  board.addEventListener("input", (event) => event.target.setAttribute("data-dirty", ""));
  board.addEventListener("focusout", () => setTimeout(settle, 0));
  count();
  if (!document.hidden) start();
}

/**
 * Keeps the page of one card up to date. What somebody types on it is never replaced: sending it tells what
 * happened meanwhile.
 * @param {HTMLElement} part
 */
function follow(part) {
  let stream = null;
  let timer = 0;
  let looking = false;
  part.addEventListener("input", (event) => event.target.setAttribute("data-dirty", ""));

  const look = async () => {
    if (looking) return;
    looking = true;
    try {
      const answer = await fetch(location.pathname, { headers: { Accept: "text/html; fragment" }, redirect: "manual", credentials: "same-origin", cache: "no-store" });
      const hot = part.querySelector("[data-dirty], [data-chosen], details[open]") || part.contains(document.activeElement);
      if (answer.type === "opaqueredirect") {
        // It is another card by now.
        if (!hot) location.reload();
      } else if (answer.status === 200 && !hot) {
        const page = document.createElement("template");
        page.innerHTML = policy.createHTML(await answer.text());
        const now = page.content.getElementById("folge");
        if (now) {
          part.dataset.rev = now.dataset.rev;
          part.replaceChildren(...now.childNodes);
        }
      }
    } catch {
      // The next look tells.
    }
    looking = false;
  };
  const start = () => {
    stop();
    if ("EventSource" in window) {
      stream = new EventSource("/api/board/events");
      stream.addEventListener("rev", look);
      stream.addEventListener("resync", look);
    }
    timer = window.setInterval(look, LOOK_MS);
  };
  const stop = () => {
    if (stream) stream.close();
    stream = null;
    clearInterval(timer);
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? stop() : start()));
  window.addEventListener("pagehide", stop);
  if (!document.hidden) start();
}

/** With scripts an option is chosen first and sent with the note; a wrong tap sends nothing. Keys 1 to 4 choose. */
function choices() {
  const choose = (button) => {
    const form = button.form;
    const line = form.querySelector(".chosen-line");
    const send = form.querySelector("button.main");
    const was = button.getAttribute("aria-pressed") === "true";
    for (const other of form.querySelectorAll(".choices button")) other.setAttribute("aria-pressed", "false");
    if (was) {
      send.removeAttribute("name");
      form.removeAttribute("data-chosen");
      line.hidden = true;
      return;
    }
    button.setAttribute("aria-pressed", "true");
    send.name = "antwort";
    send.value = button.value;
    form.setAttribute("data-chosen", "");
    line.textContent = line.dataset.text + " " + button.value;
    line.hidden = false;
    send.focus();
  };
  document.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest(".choices button") : null;
    if (!button) return;
    event.preventDefault();
    choose(button);
  });
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (!(at instanceof HTMLElement) || at.matches("textarea, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const fields = at.closest("form.answer");
    const button = fields && fields.querySelectorAll(".choices button")[Number(event.key) - 1];
    if (button && /^[1-4]$/.test(event.key)) {
      event.preventDefault();
      choose(button);
    }
  });
}

function keys() {
  document.addEventListener("keydown", (event) => {
    const at = event.target;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && at instanceof HTMLElement) {
      const form = at.closest("form");
      // The main button carries the option that was chosen.
      if (form) form.requestSubmit(form.querySelector("button.main"));
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (at instanceof HTMLElement && (at.isContentEditable || at.matches("input, select, textarea"))) return;
    const search = document.getElementById("suche");
    if (event.key === "/" && search) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "n" && document.querySelector('a[href="/karten/neu"]')) {
      location.assign("/karten/neu");
    } else if (event.key === "i" && document.querySelector('a[href="/entwuerfe/neu"]')) {
      location.assign("/entwuerfe/neu");
    } else if (event.key === "?") {
      location.assign("/hilfe");
    }
  });
  // A second click does nothing more; the key of the form would make it the same request anyway.
  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (button) button.setAttribute("aria-busy", "true");
  });
}
