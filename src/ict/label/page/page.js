"use strict";
// The page draws what the server says. Every answer goes to the server first, which writes it to disk; the next example
// comes with its confirmation. Names and texts become text nodes, never markup.

const DIGITS = "1234567890";
const LETTERS = "abcdehijklmopqrstuvwxyz"; // without f, g and n, which do something else
const POLL = 1000; // ms

const at = (id) => document.getElementById(id);
let state = null; // the server's
let grid = false;
let looking = null; // an example that was answered before, while it is on the screen
let sought = null; // its row, also while it is on its way
let excluded = new Set(); // rows of the group
let busy = false; // an answer is on its way
let ready = false; // the example can be seen
const pictures = new Map(); // by row: images that are loaded already

// The server.

async function ask(path, said) {
  const options = said === undefined ? {} : {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(said),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The program is not running. All answers up to here are saved. Start it again with the same "
      + "command and open the address that it prints.");
  }
  if (answer.status === 204) return null;
  if (answer.status === 403) {
    throw new Error("The program was started anew: open the address that it printed last.");
  }
  if (!answer.ok && answer.status !== 409) throw new Error(`The program answered with an error (${answer.status}).`);
  return answer.json();
}

async function act(...steps) {
  if (busy) return;
  busy = true;
  try {
    let problem = "";
    for (const [path, said] of steps) {
      const answer = await ask(path, said);
      take(answer.state ?? answer);
      problem = answer.problem ?? "";
      if (problem) break;
    }
    if (!problem) looking = sought = null;
    tell(problem);
  } catch (error) {
    tell(error.message);
  } finally {
    busy = false;
  }
  draw();
}

async function poll() {
  try {
    if (!busy && !document.hidden) {
      const answer = await ask(`/state?seen=${state ? state.version : ""}`);
      if (answer && !busy && (!state || answer.version > state.version)) {
        take(answer);
        draw();
      }
      if (isDown) tell("");
    }
  } catch (error) {
    isDown = true;
    tell(error.message, true);
  }
  setTimeout(poll, POLL);
}

let isDown = false;

function tell(problem, down = false) {
  isDown = down;
  const text = problem || (state ? state.problem : "");
  at("problem").hidden = !text;
  if (at("problem").textContent !== text) at("problem").textContent = text;
}

function take(answer) {
  if (state && state.began !== answer.began) pictures.clear();
  const before = state ? state.group.map((one) => one.row).join() : "";
  state = answer;
  if (state.group.map((one) => one.row).join() !== before) excluded = new Set();
  if (!isDown) tell("");
  if (state.pictures) {
    const rows = (grid ? [] : state.questions).map((one) => one.row);
    rows.forEach((row) => picture(row));
    for (const row of [...pictures.keys()].slice(0, -12)) if (!rows.includes(row)) pictures.delete(row);
  }
}

// What is on the screen.

function element(kind, properties = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function address(row, size) {
  return `/picture/${row}/${size}?${state.began}`;
}

function picture(row) {
  if (!pictures.has(row)) pictures.set(row, element("img", { src: address(row, "large"), decoding: "sync" }));
  return pictures.get(row);
}

function current() {
  return looking ?? (state.questions[0] || null);
}

function keyOf(place) {
  return place < 10 ? DIGITS[place] : LETTERS[place - 10] ?? "";
}

function content(one) {
  if (one.unreadable) return element("p", { className: "message" }, one.unreadable);
  if (one.text !== undefined) return element("p", { className: "text", dir: "auto" }, one.text || "(an empty text)");
  const rows = one.cells.map(([name, value]) => element("tr", {},
    element("th", { scope: "row" }, name), element("td", {}, value)));
  return element("table", { className: "cells" }, element("tbody", {}, ...rows));
}

function message(title, ...words) {
  return element("p", { className: "message" }, element("b", {}, title), ...words);
}

const percent = (share) => `${Math.round(100 * share)} %`;
const many = (n) => n.toLocaleString("en");
const count = (n, one, several) => `${many(n)} ${n === 1 ? one : several}`;

function draw() {
  if (!state) return;
  drawStatus();
  drawExample();
  drawClasses();
  drawActions();
  drawPast();
  drawProgress();
}

function drawStatus() {
  const { stage, done, total, labels, name } = state.learning;
  const words = {
    reading: total ? `Looking at the ${name}: ${many(done)} of ${many(total)}. Random checks meanwhile.`
      : `Reading the ${name}…`,
    first: "Looking for typical examples…",
    learning: `Learning from ${labels ? "more than " : ""}${count(labels, "label", "labels")}…`,
    waiting: labels ? `Learned from ${count(labels, "label", "labels")}.` : "Ready: typical examples come first.",
    failed: "The model is not learning any more.",
  };
  if (at("status").textContent !== words[stage]) at("status").textContent = words[stage];
  at("one").setAttribute("aria-pressed", String(!grid));
  at("many").setAttribute("aria-pressed", String(grid));
}

function drawExample() {
  const box = at("example");
  if (grid && !looking) return drawGrid(box);
  const one = current();
  const key = one ? `${one.row} ${state.began}` : `none ${state.open} ${state.learning.stage}`;
  drawAbout(one);
  box.classList.toggle("past", looking !== null);
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.dataset.row = one ? one.row : "";
  box.classList.remove("grid");
  box.scrollTop = 0;
  ready = false;
  if (!one) {
    box.replaceChildren(state.learning.stage === "reading"
      ? message("One moment", "The first questions come as soon as the examples are read.")
      : message("Everything is answered", "Fit the model now, or go back to an answer with ←."));
  } else if (state.pictures) {
    const shown = picture(one.row);
    shown.alt = `The photo ${one.name}`;
    const seen = () => { if (box.dataset.key === key) ready = true; };
    const unseen = () => {
      if (box.dataset.key === key) box.replaceChildren(message("This photo cannot be shown", `${one.name}: skip it.`));
    };
    box.replaceChildren(shown);
    if (shown.complete && shown.naturalWidth) seen();
    else if (shown.complete && !shown.naturalWidth) unseen();
    else {
      shown.onload = seen;
      shown.onerror = unseen;
    }
  } else {
    box.replaceChildren(content(one));
    ready = !one.unreadable;
  }
}

function drawAbout(one) {
  const kind = at("kind");
  kind.className = one && one.kind === "random" ? "check" : "";
  if (!one) kind.replaceChildren();
  else if (looking) {
    const before = state.past.find((other) => other.row === one.row);
    const label = before ? before.label || { skip: "skipped", flag: "flagged" }[before.kind] : "taken back";
    kind.replaceChildren(element("b", {}, "Answered: "), label, ". A class corrects it; → goes on.");
  } else if (one.kind === "random") kind.replaceChildren(element("b", {}, "Random check"), ": it measures the model");
  else kind.replaceChildren(element("b", {}, "Suggested"), ": the model learns from it");
  const guess = at("guess");
  guess.hidden = !(one && at("guesses").checked && one.guess && !looking);
  if (!guess.hidden) {
    guess.replaceChildren("The model guesses ", element("b", {}, one.guess.label), ` (${percent(one.guess.chance)})`);
  }
}

function drawGrid(box) {
  const rows = state.group.map((one) => one.row);
  const key = `grid ${rows.join()} ${state.began} ${state.groupGuess ? state.groupGuess.label : ""}`;
  const kind = at("kind");
  at("guess").hidden = true;
  kind.className = "";
  if (rows.length && state.groupGuess) {
    kind.replaceChildren("Are all of these ", element("b", {}, state.groupGuess.label), "? Click those that are not.");
  } else if (rows.length) kind.replaceChildren(element("b", {}, `${rows.length} that are alike`), ". Choose their class.");
  else kind.replaceChildren();
  ready = rows.length > 0;
  box.classList.remove("past");
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    box.dataset.row = "";
    box.scrollTop = 0;
    box.classList.toggle("grid", rows.length > 0);
    box.replaceChildren(rows.length ? element("div", { id: "thumbs" }, ...state.group.map(thumb))
      : message("No group is left", "Groups are made of examples that the model finds alike, after it has learned."));
  }
  for (const one of box.querySelectorAll("#thumbs button")) {
    const isIn = !excluded.has(Number(one.dataset.row));
    one.setAttribute("aria-pressed", String(isIn));
    one.querySelector(".out").hidden = isIn;
  }
}

function thumb(one) {
  const shown = state.pictures
    ? element("img", { src: address(one.row, "small"), alt: "" })
    : content(one);
  const made = element("button", { type: "button", "aria-label": `Include ${one.name}`, title: one.name }, shown,
    element("span", { className: "out", hidden: true }, "left out"));
  made.dataset.row = one.row;
  made.addEventListener("click", () => {
    if (excluded.has(one.row)) excluded.delete(one.row);
    else excluded.add(one.row);
    draw();
  });
  return made;
}

function drawClasses() {
  const shown = state.classes.map((one, place) => ({ ...one, key: keyOf(place) })).filter((one) => !one.hidden);
  const names = JSON.stringify(shown.map((one) => [one.name, one.key]));
  const box = at("classes");
  if (box.dataset.names !== names) {
    box.dataset.names = names;
    box.replaceChildren(...shown.map((one) => {
      const made = element("button", { type: "button" },
        ...(one.key ? [element("kbd", {}, one.key.toUpperCase())] : []),
        element("span", { className: "label" }, one.name), element("span", { className: "n", "aria-hidden": "true" }));
      made.dataset.name = one.name;
      made.addEventListener("click", () => choose(one.name));
      return made;
    }));
  }
  const before = looking && state.past.find((one) => one.row === looking.row);
  for (const [place, one] of [...box.children].entries()) {
    one.setAttribute("aria-pressed", String(Boolean(before && before.label === one.dataset.name)));
    one.querySelector(".n").textContent = many(shown[place].labels);
  }
}

function drawActions() {
  const group = grid && !looking;
  const rows = state.group.filter((one) => !excluded.has(one.row));
  at("accept").hidden = !group || !state.groupGuess;
  at("accept").disabled = !rows.length;
  if (state.groupGuess) {
    at("accept").replaceChildren(`Accept ${rows.length} as ${state.groupGuess.label} `, element("kbd", {}, "Enter"));
  }
  at("flag").hidden = group;
  const first = !state.classes.some((one) => !one.hidden);
  at("new").className = first ? "main" : "";
  at("new").firstChild.data = first ? "Name its class " : "New class ";
  at("undo").disabled = !state.canUndo;
  at("skip").disabled = group ? !state.group.length : !current();
  at("flag").disabled = !current();
}

function drawPast() {
  const shown = state.past.slice(-12);
  at("past").hidden = !shown.length;
  const key = JSON.stringify([shown.map((one) => [one.row, one.label, one.kind]), state.began]);
  const box = at("answers");
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    box.replaceChildren(...shown.map((one) => {
      const label = one.label || { skip: "skipped", flag: "flagged" }[one.kind];
      const made = element("button", { type: "button", title: one.name, "aria-label": `${one.name}: ${label}` },
        state.pictures ? element("img", { src: address(one.row, "small"), alt: "" })
          : element("span", { className: "of" }, one.name),
        element("span", {}, label));
      made.dataset.row = one.row;
      made.addEventListener("click", () => look(one.row));
      return element("li", {}, made);
    }));
    box.scrollLeft = box.scrollWidth;
  }
  for (const one of box.querySelectorAll("button")) {
    one.setAttribute("aria-current", String(Boolean(looking) && looking.row === Number(one.dataset.row)));
  }
  at("newer").disabled = !looking;
}

function drawProgress() {
  const { estimate, advice, classes, learning, fit } = state;
  at("accuracy").textContent = estimate ? percent(estimate.accuracy) : "Not known yet";
  at("accuracy").className = estimate ? "" : "unknown";
  at("interval").hidden = at("brief").hidden = !estimate;
  if (estimate) {
    at("span").style.left = `${100 * estimate.low}%`;
    at("span").style.width = `${100 * (estimate.high - estimate.low)}%`;
    at("mark").style.left = `${100 * estimate.accuracy}%`;
    const [low, high] = [estimate.low, estimate.high].map((one) => Math.round(100 * one));
    at("brief").textContent = `${percent(estimate.accuracy)} (${low} to ${high})`;
    at("checked").textContent = `${low} to ${high} %, from ${count(estimate.n, "random check", "random checks")}`;
  } else {
    at("checked").textContent = "It is measured on random checks, as soon as two classes have labels.";
  }
  at("stable").className = advice.stable ? "done" : "";
  at("stable").textContent = advice.stable ? "The guesses are stable" : "The guesses still change";
  at("precise").className = advice.precise ? "done" : "";
  at("precise").textContent = state.target === null
    ? (advice.precise ? "The accuracy is known well" : "The accuracy is not known well yet")
    : (advice.precise ? `At least ${percent(state.target)}, as you asked` : `Not surely ${percent(state.target)} yet`);
  const more = advice.more === null ? "" : `About ${count(advice.more, "more label", "more labels")} for one more point.`;
  at("when").className = advice.stop ? "stop" : "";
  at("advice").textContent = (advice.stop ? "You can stop here. " : "") + (more || "It is too early to say what more labels bring.");

  const rows = classes.filter((one) => !one.hidden).map((one) => element("tr", {},
    element("th", { scope: "row" }, one.name), element("td", {}, many(one.labels)), element("td", {}, many(one.checks))));
  at("counts").tBodies[0].replaceChildren(...rows);
  at("counts").hidden = !rows.length;
  const alone = classes.filter((one) => one.checks && !one.labels).map((one) => one.name);
  at("left").textContent = (alone.length && learning.labels
    ? `Only checks have ${alone.join(", ")} so far: the model does not know it yet. ` : "")
    + `${many(state.answered)} labeled, ${many(state.open)} to go.`;
  at("fit").disabled = fit.running;
  at("fit").textContent = fit.running ? "Fitting…" : "Fit now";
  at("command").textContent = state.command;
  at("fitted").hidden = !fit.text;
  at("fitted").textContent = fit.text;
  at("remarks").hidden = !state.remarks.length;
  at("remarks").querySelector("ul").replaceChildren(...state.remarks.map((one) => element("li", {}, one)));
}

// What a person does.

function choose(label) {
  if (!ready) return;
  if (grid && !looking) answerGroup(label);
  else if (current()) act(["/answer", { rows: [current().row], label }]);
}

function answerGroup(label) {
  const rows = state.group.map((one) => one.row);
  const chosen = rows.filter((row) => !excluded.has(row));
  const rest = rows.filter((row) => excluded.has(row));
  if (!chosen.length) return;
  act(["/answer", { rows: chosen, label }], ...(rest.length ? [["/pass", { rows: rest }]] : []));
}

function accept() {
  if (grid && !looking && state.group.length && state.groupGuess) answerGroup(state.groupGuess.label);
}

function skip() {
  if (grid && !looking) {
    if (state.group.length) act(["/pass", { rows: state.group.map((one) => one.row) }]);
  } else if (current()) act(["/skip", { rows: [current().row] }]);
}

function flag() {
  if (!(grid && !looking) && current()) act(["/flag", { rows: [current().row] }]);
}

function undo() {
  if (state.canUndo) act(["/undo", {}]);
}

function setGrid(on) {
  grid = on;
  lookAhead();
}

async function look(row) {
  sought = row;
  try {
    const found = await ask(`/example/${row}`);
    if (sought !== row) return;
    looking = found;
    draw();
  } catch (error) {
    tell(error.message);
  }
}

function lookAhead() {
  looking = sought = null;
  draw();
}

function step(by) {
  const rows = state.past.map((one) => one.row);
  const place = sought === null ? rows.length : rows.indexOf(sought);
  if (place + by >= rows.length || place < 0) lookAhead();
  else if (place + by >= 0) look(rows[place + by]);
}

function name(on) {
  at("naming").hidden = !on;
  at("name").value = "";
  if (on) at("name").focus();
}

const KEYS = {
  " ": skip, Backspace: undo, Enter: accept, f: flag, n: () => name(true), g: () => setGrid(!grid),
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), Escape: lookAhead,
  "?": () => at("keys").showModal(),
};

// Of a class, by its key. A digit is known by its place too: on French keyboards it takes Shift.
function placeOf(pressed, code) {
  const digit = DIGITS.includes(pressed) ? pressed : code.startsWith("Digit") ? code.slice(5) : "";
  if (digit) return DIGITS.indexOf(digit);
  return LETTERS.includes(pressed) ? 10 + LETTERS.indexOf(pressed) : -1;
}

document.addEventListener("keydown", (event) => {
  if (!state || event.ctrlKey || event.metaKey || event.altKey || at("keys").open) return;
  if (event.target.tagName === "INPUT" && event.target.type === "text") {
    if (event.key === "Escape") name(false);
    return;
  }
  const onThumb = event.target.closest("#thumbs") !== null;
  const onButton = event.target.closest("button, input") !== null;
  if (onButton && (event.key === " " || (event.key === "Enter" && !onThumb))) return; // the button's own
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const one = state.classes[placeOf(pressed, event.code)];
  const does = KEYS[pressed] ?? (one && !one.hidden ? () => choose(one.name) : null);
  if (!does) return;
  event.preventDefault();
  if (!event.repeat) does();
});

// After a click by mouse or touch the keys are for the page again, not for the button.
document.addEventListener("click", (event) => {
  if (event.detail > 0) event.target.closest("button, input[type=checkbox]")?.blur();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) draw(); });

at("one").addEventListener("click", () => setGrid(false));
at("many").addEventListener("click", () => setGrid(true));
at("guesses").addEventListener("change", (event) => { sessionStorage.setItem("guesses", event.target.checked); draw(); });
at("help").addEventListener("click", () => at("keys").showModal());
at("accept").addEventListener("click", accept);
at("skip").addEventListener("click", skip);
at("undo").addEventListener("click", undo);
at("flag").addEventListener("click", flag);
at("new").addEventListener("click", () => name(at("naming").hidden));
at("unnamed").addEventListener("click", () => name(false));
at("older").addEventListener("click", () => step(-1));
at("newer").addEventListener("click", () => step(1));
at("fit").addEventListener("click", () => act(["/fit", {}]));
at("naming").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = at("name").value.trim();
  name(false);
  if (given) choose(given);
});

at("guesses").checked = sessionStorage.getItem("guesses") === "true"; // as before a reload
poll();
