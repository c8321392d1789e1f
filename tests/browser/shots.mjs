// Takes pictures of the pages, wide and narrow, light and dark, German and English, to look at them.
//
//     node tests/browser/shots.mjs            into target/shots/
//     node tests/browser/shots.mjs --readme   also docs/board.png
//
// No test: how a page looks is judged by eye.

import { mkdir, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { Demo, ROOT, browse, visit } from "./world.mjs";

const INTO = path.join(process.env.CARGO_TARGET_DIR ?? path.join(ROOT, "target"), "shots");
/** Milliseconds that the board may take to get where a picture wants it. */
const DRIVEN_MS = 90_000;
const SIZES = { wide: { width: 1400, height: 800 }, narrow: { width: 390, height: 844 } };
const SCHEMES = ["light", "dark"];
const LANGUAGES = ["de", "en"];

/** More intents than the demo brings, so that several columns have cards. */
const MORE = {
  "wartung-faellig": ["Fällige Wartungen anzeigen", "Ein Befehl nennt die Geräte, deren letzte Wartung zu lange her ist."],
  "eintrag-berichtigen": ["Einträge berichtigen", "Ein falscher Eintrag lässt sich durch einen zweiten aufheben."],
  "geraete-namen": ["Einheitliche Namen der Geräte", "Zwei Schreibweisen eines Geräts werden beim Eintragen erkannt."],
  "liste-nach-monat": ["Liste auf einen Monat beschränken", "Der Befehl liste nimmt einen Monat."],
  "pruefung-im-verein": ["Prüfungen auch auf dem Vereinsrechner", "Die Prüfungen laufen mit dem awk des Vereinsrechners."],
};

async function write(demo, slug, [title, aim]) {
  const text = `# Intent: ${title}\n\n## Ziel\n\n${aim}\n\n## Erfolgskriterien\n\n- Eine Prüfung zeigt es.\n`;
  await writeFile(path.join(demo.repository, "docs/intent", `${slug}.md`), text);
}

async function start(page, demo, id, button = "Starten") {
  await page.goto(`${demo.url.origin}/karten/${id}`);
  await page.getByRole("button", { name: button, exact: true }).click();
  await page.locator(".card-head .notice, .card-head .state").first().waitFor();
}

async function idea(page, demo, title) {
  await page.goto(`${demo.url.origin}/karten/neu`);
  await page.getByLabel("Titel").fill(title);
  await page.locator("form.form button.main").click();
  await page.locator(".card-head").waitFor();
}

const arrived = (page, column, id) => page.locator(`#spalte-${column} #card-${id}`).waitFor({ timeout: DRIVEN_MS });

/** Lets the agent take its time from its next run on, so that it is still at work in all the pictures. */
async function slow(demo) {
  const agent = path.join(demo.dir, "agent/agent.sh");
  const text = await readFile(agent, "utf8");
  const slower = text.replace('sleep "$DEMO_SECONDS"', "sleep 6");
  if (slower === text) throw new Error(`${agent} does not pause where it is expected to`);
  // A running shell goes on reading the file that it began with.
  await writeFile(`${agent}.new`, slower, { mode: (await stat(agent)).mode });
  await rename(`${agent}.new`, agent);
}

/** Every size, scheme and language of one page. */
async function shots(browser, demo, name, address) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of SCHEMES) {
      for (const language of LANGUAGES) {
        await shot(browser, demo, address, path.join(INTO, `${name}-${size}-${colorScheme}-${language}.png`), {
          viewport,
          colorScheme,
          locale: language === "de" ? "de-DE" : "en-GB",
        });
      }
    }
  }
}

async function shot(browser, demo, address, file, options) {
  const { context, page } = await visit(browser, demo, options);
  await page.goto(demo.url.href);
  if (options.locale.startsWith("en") && (await page.locator("html").getAttribute("lang")) !== "en") {
    await page.getByRole("button", { name: "English" }).click();
    await page.locator('html[lang="en"]').waitFor();
  }
  await page.goto(demo.url.origin + address);
  const board = address === "/";
  if (board) await page.locator("#live:not([hidden])").waitFor();
  await page.screenshot({ path: file, fullPage: !board });
  await context.close();
}

/** A board in the middle of its work. */
async function busy(browser) {
  const demo = await Demo.start();
  try {
    const { context, page } = await visit(browser, demo, { viewport: SIZES.wide });
    await page.goto(demo.url.href);
    await idea(page, demo, "Etiketten für die Schubladen");
    await idea(page, demo, "Aushang mit den Wartungen des Monats");
    for (const [slug, words] of Object.entries(MORE)) await write(demo, slug, words);
    await page.goto(demo.url.origin);
    for (const slug of Object.keys(MORE)) await arrived(page, "geplant", slug);
    for (const id of ["tagebuch-monatssumme", "tagebuch-csv-export", "liste-nach-monat"]) await start(page, demo, id);
    await page.goto(demo.url.origin);
    await arrived(page, "bereit", "tagebuch-monatssumme");
    await arrived(page, "bereit", "liste-nach-monat");
    await arrived(page, "braucht_dich", "tagebuch-csv-export");
    await page.goto(`${demo.url.origin}/karten/liste-nach-monat`);
    await page.getByRole("button", { name: "Deployed", exact: true }).click();
    await page.locator(".card-head .phase-now", { hasText: /^Deployed$/ }).waitFor();
    await shots(browser, demo, "card", "/karten/tagebuch-monatssumme");
    await shots(browser, demo, "card-back", "/karten/tagebuch-csv-export");
    await start(page, demo, "geraete-namen");
    await page.goto(demo.url.origin);
    await arrived(page, "laeuft", "geraete-namen");
    await page.locator("#spalte-laeuft #card-geraete-namen.is-run").waitFor();
    await slow(demo);
    await start(page, demo, "wartung-faellig");
    await page.goto(demo.url.origin);
    await page.locator("#spalte-laeuft #card-wartung-faellig.is-run").waitFor();
    await arrived(page, "review", "geraete-namen");
    await start(page, demo, "tagebuch-suche");
    await page.goto(demo.url.origin);
    await page.locator("#spalte-laeuft #card-tagebuch-suche .undo").waitFor();
    await page.locator("#live:not([hidden])").waitFor();
    await page.mouse.move(0, 0);
    if (process.argv.includes("--readme")) {
      await page.screenshot({ path: path.join(ROOT, "docs/board.png") });
    }
    await shots(browser, demo, "board", "/");
    await shots(browser, demo, "jobs", "/jobs");
    await context.close();
  } finally {
    await demo.stop();
  }
}

/** A board without a single card. */
async function empty(browser) {
  const demo = await Demo.start();
  try {
    for (const kind of ["intent", "research"]) {
      const dir = path.join(demo.repository, "docs", kind);
      for (const name of await readdir(dir)) await rm(path.join(dir, name));
    }
    const { context, page } = await visit(browser, demo);
    await page.goto(demo.url.href);
    await page.locator(".empty").waitFor({ timeout: DRIVEN_MS });
    await context.close();
    await shots(browser, demo, "empty", "/");
  } finally {
    await demo.stop();
  }
}

await mkdir(INTO, { recursive: true });
const browser = await browse();
try {
  await busy(browser);
  await empty(browser);
} finally {
  await browser.close();
}
console.log(INTO);
