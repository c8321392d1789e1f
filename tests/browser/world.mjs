// A demo of its own and a browser to look at it with: what the walk and the screenshots share.
//
// Whatever the browser complains about, and whatever it asks of anybody but the board, is collected: the pages
// promise to need nobody else and to keep to their own content policy.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { once } from "node:events";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

/** The top of the checkout. */
export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
/** Where the programs lie; `cargo xtask test` says it. */
const PROGRAMS = process.env.BOARD_TEST_BIN ?? path.join(ROOT, "target/debug");
/** The one of Debian. */
const CHROMIUM = "/usr/bin/chromium";
/** Nobody but the board is asked for anything: no updates, no lists, no probes of the network. */
const ARGUMENTS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** Milliseconds within which the demo must tell its address. */
const START_MS = 30_000;
/** Milliseconds within which it must end after it was asked to. */
const END_MS = 20_000;
/** Milliseconds for whatever a page should show at once. */
const SHOWN_MS = 10_000;

/** The demo: everything it makes lies in a directory that goes with it. */
export class Demo {
  /** Starts it and waits for its address. */
  static async start() {
    const demo = new Demo();
    demo.dir = await mkdtemp(path.join(tmpdir(), "board-browser-"));
    const told = [];
    demo.process = spawn(path.join(PROGRAMS, "boardctl"), ["demo", "--port", "0", "--dir", demo.dir], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    demo.ended = once(demo.process, "exit");
    // A program that cannot be started ends without an exit; the closed pipes below say so.
    demo.process.on("error", (error) => told.push(String(error)));
    demo.process.stderr.on("data", (text) => told.push(text));
    const timer = setTimeout(() => demo.process.kill("SIGKILL"), START_MS);
    const lines = createInterface({ input: demo.process.stdout });
    for await (const line of lines) {
      told.push(line + "\n");
      const address = /^ready (http:\S+)/.exec(line);
      if (address) {
        demo.url = new URL(address[1]);
        break;
      }
    }
    clearTimeout(timer);
    if (!demo.url) {
      await rm(demo.dir, { recursive: true, force: true });
      throw new Error(`boardctl demo told no address:\n${told.join("")}`);
    }
    // Read on, so that the pipe never fills.
    demo.process.stdout.resume();
    return demo;
  }

  /** The repository that it made. */
  get repository() {
    return path.join(this.dir, "werkstatt-tagebuch");
  }

  /** Ends it as Ctrl-C does, and removes what it made. */
  async stop() {
    const timer = setTimeout(() => this.process.kill("SIGKILL"), END_MS);
    this.process.kill("SIGINT");
    await this.ended;
    clearTimeout(timer);
    await rm(this.dir, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Starts the browser. */
export function browse() {
  return chromium.launch({ executablePath: CHROMIUM, args: ARGUMENTS });
}

/**
 * Opens a page of a fresh profile. `complaints` is everything that must not have happened.
 *
 * @param {import("playwright-core").Browser} browser
 * @param {Demo} demo
 * @param {import("playwright-core").BrowserContextOptions} options
 */
export async function visit(browser, demo, options = {}) {
  const context = await browser.newContext({ locale: "de-DE", timezoneId: "Europe/Berlin", ...options });
  context.setDefaultTimeout(SHOWN_MS);
  const complaints = [];
  context.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== demo.url.origin) complaints.push(`asked of somebody else: ${url.href}`);
  });
  context.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} for ${response.url()}`);
  });
  // A breach of the content policy is told on the console, with and without scripts.
  context.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(`console: ${message.text()}`);
  });
  context.on("weberror", (error) => complaints.push(`script: ${error.error()}`));
  const page = await context.newPage();
  page.on("dialog", (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    dialog.dismiss().catch(() => {});
  });
  return { context, page, complaints };
}
