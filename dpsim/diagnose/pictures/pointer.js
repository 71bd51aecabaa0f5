// What a reader does: zoom, move, point at an op, fold equal ranks.

const tip = document.getElementById("tip");
let dragged = null, kept = false, wanted = false;

function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => { wanted = false; draw(); });
}

function zoom(factor, x) {
  const time = timeAt(x), most = data.last * 1.3 + 40;
  const span = Math.min(Math.max((view.until - view.from) * factor, 3), most * 1.2);
  const share = (time - view.from) / (view.until - view.from);
  view.from = time - span * share;
  view.until = view.from + span;
  redraw();
}

function move(time, down) {
  const span = view.until - view.from;
  view.from = Math.min(Math.max(view.from + time, -span / 2), data.last + span / 2);
  view.until = view.from + span;
  view.top = Math.min(Math.max(view.top + down, 0), Math.max(height - high, 0));
  redraw();
}

function inTicks(begin, came, end) {
  if (end < 0) return `waits from tick ${begin} on, without end`;
  return came > begin ? `waits from tick ${begin} to ${came}, then runs until tick ${end}` : `runs from tick ${begin} to ${end}`;
}

function inTime(begin, came, end) {
  const from = `at ${timeText(begin)}`;
  if (end < 0) return `${from}: waits without end`;
  const waits = came > begin ? `waits ${timeText(came - begin)}` : "";
  return `${from}: ${[waits, end > came || !waits ? `runs ${timeText(end - came)}` : ""].filter(Boolean).join(", then ")}`;
}

function wordsOf(found) {
  const { lane, at, hole } = found, texts = data.texts;
  if (hole) return [`MISSING on ${lane.row.name}: ${texts[hole[2]]}`, `its peers made ${texts[hole[3]]} at:`, texts[hole[4]]];
  const ops = lane.ops, [begin, came, end] = [ops[at + BEGIN], ops[at + CAME], ops[at + END]];
  const times = begin > data.last ? "does not begin" : data.unit === "tick" ? inTicks(begin, came, end) : inTime(begin, came, end);
  const step = ops[at + STEP] >= 0 ? `step ${ops[at + STEP]}, ` : "";
  return [texts[ops[at + SAID]], `${lane.row.name}, ${lane.name}, ${step}${texts[ops[at + ADDRESS]]}`,
    texts[ops[at + WHERE]], times, end < 0 ? behind(lane) : "", texts[ops[at + TURNING]] || "", texts[ops[at + LABEL]]];
}

// What a stream or a host has behind an op that never ends.
function behind(lane) {
  const names = [];
  for (let at = 0; at < lane.ops.length; at += WIDTH) if (lane.ops[at + BEGIN] > data.last) names.push(data.texts[lane.ops[at + ADDRESS]]);
  return names.length ? `behind it: ${names.join(", ")}` : "";
}

function point(x, y) {
  const found = below(x, y), key = !found ? -1 : found.hole ? found.hole[5] : found.lane.ops[found.at + KEY];
  if (key !== chosen) { chosen = key; redraw(); }
  tip.style.display = found ? "block" : "none";
  if (!found) return;
  tip.textContent = wordsOf(found).filter(Boolean).join("\n");
  const { offsetWidth: width, offsetHeight: tall } = tip;
  tip.style.left = `${Math.max(Math.min(x + 14, wide - width - 6), 0)}px`;
  tip.style.top = `${y + 18 + tall > high ? Math.max(y - tall - 10, 0) : y + 18}px`;
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.shiftKey) move(0, event.deltaY || event.deltaX);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX / wide) * (view.until - view.from), 0);
  else zoom(Math.exp(event.deltaY / 400), Math.max(event.offsetX, GUTTER));
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => { dragged = { x: event.offsetX, y: event.offsetY, far: false }; });
canvas.addEventListener("pointermove", (event) => {
  if (!dragged) { if (!kept) point(event.offsetX, event.offsetY); return; }
  const [right, down] = [event.offsetX - dragged.x, event.offsetY - dragged.y];
  if (Math.abs(right) + Math.abs(down) < 3 && !dragged.far) return;
  dragged = { x: event.offsetX, y: event.offsetY, far: true };
  move((-right / (wide - GUTTER)) * (view.until - view.from), -down);
});
canvas.addEventListener("pointerup", (event) => {
  if (dragged && !dragged.far) { kept = false; point(event.offsetX, event.offsetY); kept = tip.style.display === "block"; }
  dragged = null;
});
canvas.addEventListener("pointerleave", () => { dragged = null; if (!kept) tip.style.display = "none"; });
window.addEventListener("keydown", (event) => {
  const span = view.until - view.from, middle = (wide + GUTTER) / 2;
  const does = { "+": () => zoom(0.7, middle), "=": () => zoom(0.7, middle), "-": () => zoom(1.4, middle),
    ArrowLeft: () => move(-span / 5, 0), ArrowRight: () => move(span / 5, 0),
    ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60) }[event.key];
  if (does) { event.preventDefault(); does(); }
});
// Moves the picture down to the first row of a culprit, if that row is below the window.
function reveal() {
  const row = rows.find((one) => one.culprit);
  if (row && row.until - view.top > high) view.top = Math.max(Math.min(row.until + GAP - high, height - high), 0);
}

document.getElementById("here").addEventListener("click", () => { show(...data.focus); reveal(); redraw(); });
document.getElementById("turn").addEventListener("click", () => { show(...data.turn); redraw(); });
document.getElementById("near").addEventListener("click", () => { show(...data.near); redraw(); });
document.getElementById("whole").addEventListener("click", () => { show(0, data.last); redraw(); });
document.getElementById("fold").addEventListener("click", (event) => {
  view.folded = !view.folded;
  event.target.textContent = view.folded ? "each rank a row" : "fold equal ranks";
  view.top = 0;
  lay();
  fitColumns();
  redraw();
});
window.addEventListener("resize", () => { resize(); move(0, 0); });  // a higher window has room for rows above

const report = document.getElementById("report");
for (const line of data.lines) report.appendChild(document.createElement("div")).textContent = line || " ";
report.className = /^(VIOLATED|HANG|FAILED)/.test(data.lines[0] || "") ? "bad" : "";
if (/^HELD/.test(data.lines[0] || "")) document.getElementById("here").hidden = true;
if (!data.turn) document.getElementById("turn").hidden = true;
if (!data.steps.length) document.getElementById("near").hidden = true;
lay();
fitColumns();
showKeys();
resize();
show(...data.focus);
reveal();
draw();
