// The main loop walked by clicking, in a real browser: once as most people do, once without any script.
//
// What a click does to files and jobs is tested elsewhere; this says that a person can do it at all, and sees
// what came of it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Demo, browse, visit } from "./world.mjs";

/** Milliseconds that a build and its review may take; the scripted agent needs about ten seconds. */
const DRIVEN_MS = 60_000;
/** Milliseconds between two looks by hand. */
const LOOK_MS = 500;

const SUM = "tagebuch-monatssumme";
const CSV = "tagebuch-csv-export";
const NOTE = "Etiketten für die Schubladen";

let browser;
before(async () => (browser = await browse()));
after(() => browser?.close());

/** A test in a demo and a browser profile of its own; at its end nothing may have been complained about. */
function walk(name, options, steps) {
  test(name, { timeout: 3 * DRIVEN_MS }, async () => {
    const demo = await Demo.start();
    try {
      const { context, page, complaints } = await visit(browser, demo, options);
      await steps(page, demo);
      await context.close();
      assert.deepEqual(complaints, []);
    } finally {
      await demo.stop();
    }
  });
}

const tile = (page, column, id) => page.locator(`#spalte-${column} #card-${id}`);
const button = (page, name) => page.getByRole("button", { name, exact: true });

async function open(page, demo) {
  await page.goto(demo.url.href);
  await page.getByRole("heading", { name: "Geplant" }).waitFor();
  assert.equal(page.url(), demo.url.origin + "/", "the token is gone from the address");
  await tile(page, "geplant", SUM).waitFor();
}

async function addIdea(page) {
  await page.getByRole("link", { name: "Karte", exact: true }).click();
  await page.getByLabel("Titel").fill(NOTE);
  await page.getByLabel("Text").fill("Mit Nummer und **Inhalt**.");
  await page.locator("form.form button.main").click();
  await page.getByRole("heading", { level: 1, name: NOTE }).waitFor();
  assert.equal(await page.locator(".document strong").textContent(), "Inhalt");
  await page.getByRole("navigation", { name: "Seiten" }).getByRole("link", { name: "Board" }).click();
  await page.locator("#spalte-backlog").getByRole("link", { name: NOTE }).waitFor();
}

async function openCard(page, column, id) {
  await tile(page, column, id).locator("h3 a").click();
  await page.locator(".card-head h1").waitFor();
}

async function start(page) {
  await button(page, "Starten").click();
  await button(page, "Rückgängig").waitFor();
}

/** The phase that the page of a card tells. */
const phase = (page) => page.locator(".card-head .phase-now");

async function startTakeBackAndStart(page) {
  assert.equal(await phase(page).textContent(), "Geplant");
  await start(page);
  await button(page, "Rückgängig").click();
  await button(page, "Starten").waitFor();
  assert.equal(await phase(page).textContent(), "Geplant");
  await start(page);
}

async function readAndDeploy(page) {
  assert.equal(await phase(page).textContent(), "Bereit für Deployment");
  const reports = page.getByRole("region", { name: "Berichte" });
  await reports.getByRole("heading", { name: "Befunde nach Priorität" }).waitFor();
  const changes = page.getByRole("region", { name: "Änderungen" });
  await changes.locator("summary", { hasText: "befehle/summe.sh" }).waitFor();
  await changes.locator(".line-add", { hasText: "# tagebuch summe JAHR-MONAT" }).first().waitFor();
  await page.getByText("Lässt sich jetzt ohne Konflikt übernehmen.").waitFor();
  await button(page, "Deployed").click();
  await page.locator(".card-head .phase-now", { hasText: /^Deployed$/ }).waitFor();
}

walk("a card is walked to its deployment by clicking, and the board follows by itself", {}, async (page, demo) => {
  await open(page, demo);
  await addIdea(page);
  await openCard(page, "geplant", SUM);
  await startTakeBackAndStart(page);
  // From here on nothing is loaded by hand: the card moves over the open board.
  await page.getByRole("link", { name: "Board", exact: true }).first().click();
  await tile(page, "laeuft", SUM).waitFor();
  await tile(page, "review", SUM).waitFor({ timeout: DRIVEN_MS });
  await tile(page, "bereit", SUM).waitFor({ timeout: DRIVEN_MS });
  await openCard(page, "bereit", SUM);
  await readAndDeploy(page);
});

walk("a review with findings brings the card back to whoever started it", {}, async (page, demo) => {
  await open(page, demo);
  await openCard(page, "geplant", CSV);
  await start(page);
  await page.getByRole("link", { name: "Board", exact: true }).first().click();
  await tile(page, "braucht_dich", CSV).waitFor({ timeout: DRIVEN_MS });
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  await openCard(page, "braucht_dich", CSV);
  assert.equal(await phase(page).textContent(), "Planung mit Feedback");
  await page.getByRole("region", { name: "Berichte" }).getByText("steht ungeschützt im Export").waitFor();
});

walk("the whole walk needs no script", { javaScriptEnabled: false }, async (page, demo) => {
  await open(page, demo);
  await addIdea(page);
  await openCard(page, "geplant", SUM);
  await startTakeBackAndStart(page);
  const deadline = Date.now() + DRIVEN_MS;
  while ((await phase(page).textContent()) !== "Bereit für Deployment") {
    assert.ok(Date.now() < deadline, `still in „${await phase(page).textContent()}“`);
    await page.waitForTimeout(LOOK_MS);
    await page.reload();
  }
  await readAndDeploy(page);
});

/** Milliseconds after which every page has looked at the board again at least once. */
const LOOKED_MS = 6_000;
const TOPIC = "Jahresbericht";
const HALF = "tagebuch geraete 2026 zeigt zuerst";

/** Begins a conversation and comes to the planner's first question. */
async function ask(page, demo) {
  await open(page, demo);
  await page.getByRole("link", { name: "Karte (interaktiv)", exact: true }).click();
  await page.getByLabel("Thema").fill(TOPIC);
  await button(page, "Gespräch beginnen").click();
  await page.getByText("Wer soll das vor allem benutzen?").waitFor({ timeout: DRIVEN_MS });
}

/** The card that came of it stands in Geplant, with its conversation, and nothing started. */
async function planned(page) {
  await page.locator(".card-head .phase-now", { hasText: /^Geplant$/ }).waitFor({ timeout: DRIVEN_MS });
  await page.getByRole("heading", { level: 1, name: TOPIC }).waitFor();
  await button(page, "Starten").waitFor();
}

walk("a topic becomes an intent by buttons and a field, and no change of the board disturbs who is typing", {}, async (page, demo) => {
  await ask(page, demo);
  await button(page, "die Betreuung").click();
  await button(page, "Antworten").click();
  await page.getByText("Woran erkennst du, dass es fertig ist?").waitFor({ timeout: DRIVEN_MS });
  const answer = page.getByRole("textbox", { name: "Antwort" });
  await answer.pressSequentially(HALF);
  // Meanwhile somebody else starts a card, and the page looks again.
  const other = await page.context().newPage();
  await open(other, demo);
  await openCard(other, "geplant", SUM);
  await start(other);
  await other.close();
  await page.bringToFront();
  await page.waitForTimeout(LOOKED_MS);
  assert.equal(await answer.inputValue(), HALF);
  assert.ok(await answer.evaluate((field) => field === document.activeElement), "the field keeps the focus");
  await page.keyboard.type(" die Drehbank");
  await button(page, "Antworten").click();
  await page.getByText(HALF + " die Drehbank").first().waitFor();
  await planned(page);
});

walk("the conversation needs no script", { javaScriptEnabled: false }, async (page, demo) => {
  const until = async (text) => {
    const deadline = Date.now() + DRIVEN_MS;
    while (!(await page.getByText(text).count())) {
      assert.ok(Date.now() < deadline, `no „${text}“`);
      await page.waitForTimeout(LOOK_MS);
      await page.reload();
    }
  };
  await open(page, demo);
  await page.getByRole("link", { name: "Karte (interaktiv)", exact: true }).click();
  await page.getByLabel("Thema").fill(TOPIC);
  await button(page, "Gespräch beginnen").click();
  await until("Wer soll das vor allem benutzen?");
  await button(page, "die Betreuung").click();
  await until("Woran erkennst du, dass es fertig ist?");
  await page.getByRole("textbox", { name: "Antwort" }).fill(HALF);
  await button(page, "Antworten").click();
  // The address of the draft leads on to the card that it became.
  const deadline = Date.now() + DRIVEN_MS;
  while (!page.url().includes("/karten/")) {
    assert.ok(Date.now() < deadline, "no card");
    await page.waitForTimeout(LOOK_MS);
    await page.reload();
  }
  await planned(page);
});
