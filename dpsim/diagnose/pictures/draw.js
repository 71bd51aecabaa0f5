// Drawing: bands of steps, lanes with their ops, holes, and lines between what belongs together.

const MOVES = "#2f6fb7", KERNEL = "#86aedb", HOSTED = "#9aa8b8", WAITS = "#f5a524", RED = "#c62828", TURN = "#6a1b9a", INK = "#1b232d";
const COLOURS = [HOSTED, KERNEL, MOVES, MOVES, KERNEL, "#6f93bd", INK];
const MOST_LINES = 500;
const canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
let wide = 1, high = 1, hatch = null, chosen = -1;

function xOf(time) { return GUTTER + ((time - view.from) / (view.until - view.from)) * (wide - GUTTER); }
function timeAt(x) { return view.from + ((x - GUTTER) / (wide - GUTTER)) * (view.until - view.from); }

function resize() {
  const ratio = window.devicePixelRatio || 1;
  wide = canvas.clientWidth;
  high = canvas.clientHeight;
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
}

function hatched() {
  if (hatch) return hatch;
  const tile = document.createElement("canvas"), own = tile.getContext("2d");
  tile.width = tile.height = 8;
  own.fillStyle = WAITS;
  own.fillRect(0, 0, 8, 8);
  own.strokeStyle = "#fbd28c";
  own.lineWidth = 3;
  for (const shift of [-8, 0, 8]) { own.beginPath(); own.moveTo(shift, 8); own.lineTo(shift + 8, 0); own.stroke(); }
  return (hatch = pen.createPattern(tile, "repeat"));
}

function drawSteps() {
  data.steps.forEach(([step, begin], at) => {
    const from = Math.max(xOf(begin), GUTTER), until = at + 1 < data.steps.length ? xOf(data.steps[at + 1][1]) : wide;
    if (until < GUTTER || from > wide || until - from < 1) return;
    if (at % 2) { pen.fillStyle = "#f4f7fa"; pen.fillRect(from, TOP - 4, until - from, high); }
    write(`step ${step}`, from + 4, 14, until - from - 6, "#5a6774");
  });
}

function drawBorders() {
  pen.fillStyle = "#e3e8ed";
  for (const row of rows) pen.fillRect(GUTTER, row.until - view.top + GAP / 2, wide, 1);
}

function drawLane(lane) {
  const ops = lane.ops, y = lane.y - view.top + 2, tall = LANE - 4, size = ops.length;
  let last = -1, lastColour = "";
  for (let at = firstAt(ops, view.from); at < size; at += WIDTH) {
    const begin = ops[at + BEGIN];
    if (begin > view.until) break;
    const queued = begin > data.last, over = ops[at + END], x = Math.max(xOf(begin), GUTTER);
    const until = over < 0 && !queued ? wide + 4 : Math.min(xOf(queued ? begin + 0.9 : over), wide + 4);
    const colour = COLOURS[ops[at + KIND]], stuck = over < 0 && !queued;
    if (until - x < 1.5 && !stuck && !ops[at + MARKED] && ops[at + TURNING] < 0 && ops[at + KIND] !== 6) {
      const pixel = Math.floor(x);
      if (pixel === last && colour === lastColour) continue;
      last = pixel;
      lastColour = colour;
      pen.fillStyle = ops[at + CAME] > begin ? WAITS : colour;
      pen.fillRect(pixel, y, 1, tall);
      continue;
    }
    drawOp(lane, at, { x, until, y, tall, colour, stuck, queued });
  }
}

function drawOp(lane, at, { x, until, y, tall, colour, stuck, queued }) {
  const ops = lane.ops, came = ops[at + CAME], gap = until - x > 4 ? 1 : 0;
  if (queued) return;
  if (stuck) {
    pen.fillStyle = hatched();
    pen.fillRect(x, y, until - x, tall);
  } else {
    const moves = Math.min(Math.max(xOf(came), x), until);
    pen.fillStyle = WAITS;
    pen.fillRect(x, y, moves - x, tall);
    pen.fillStyle = colour;
    pen.fillRect(moves, y, Math.max(until - moves - gap, 0.5), tall);
  }
  if (chosen >= 0 && ops[at + KEY] === chosen) { pen.fillStyle = "rgba(255,255,255,0.45)"; pen.fillRect(x, y, until - x, tall); }
  if (ops[at + MARKED]) outline(RED, x + 0.5, y - 0.5, Math.max(until - x - gap - 1, 2), tall + 1);
  if (ops[at + TURNING] >= 0) outline(TURN, x - 1.5, y - 2.5, Math.max(until - x - gap + 3, 4), tall + 5);
  if (until - x > 16) writeInBar(lane, at, { x, until, y, tall, stuck, moves: stuck ? until : Math.min(Math.max(xOf(came), x), until) });
  if (ops[at + KIND] === 6 && at + WIDTH >= ops.length) write("ended", until + 4, y + tall / 2 + 4, wide - until - 6, INK, STRONG);
}

function outline(colour, x, y, across, tall) {
  pen.strokeStyle = colour;
  pen.lineWidth = 2.5;
  pen.strokeRect(x, y, across, tall);
  pen.lineWidth = 1;
}

// The words of an op lie in its wider part where the other one is dark: in what waits, or in what moves.
function writeInBar(lane, at, { x, until, y, tall, stuck, moves }) {
  const dark = !stuck && lane.ops[at + KIND] >= 2 && moves < until, moving = dark && until - moves >= moves - x;
  const from = moving ? moves : x, end = dark && !moving ? moves : Math.min(until, wide - (stuck ? reserved : 0));
  const font = lane.ops[at + LABEL] && stuck ? STRONG : "";
  write(barTexts(lane, at), from + 4, y + tall / 2 + 4, end - from - 6, moving ? "#fff" : INK, font);
}

function drawHole(lane, hole) {
  const [begin, over, words, address, where, , culprit] = hole, y = lane.holeY - view.top + 2, tall = LANE - 4;
  const x = Math.max(xOf(begin), GUTTER), until = over < 0 ? wide - 3 : Math.min(xOf(over), wide - 3);
  if (until < GUTTER || x > wide) return;
  pen.setLineDash([5, 3]);
  pen.lineWidth = culprit ? 2 : 1;
  pen.strokeStyle = culprit ? RED : "#7f8b98";
  pen.strokeRect(x + 1, y, Math.max(until - x - 2, 6), tall);
  pen.setLineDash([]);
  pen.lineWidth = 1;
  const who = lane.row.name, name = data.texts[address], did = `did not make ${name}`;
  const said = data.texts[words];
  const whole = said.startsWith(name) ? said : `${name}: ${said}`, at = data.texts[where] ? `, which its peers made at ${data.texts[where]}` : "";
  const texts = [`${who} did not make ${whole}${at}`, `${who} did not make ${whole}`, `${who} ${did}`, did,
    `did not make ${shortName(name)}`, shortName(name)];
  const font = culprit ? BOLD : "";
  if (until - x > 60) write(texts, x + 6, y + tall / 2 + 4, until - x - 8 - (over < 0 ? reserved : 0), culprit ? RED : "#5a6774", font, 1, true);
  else write(texts, until + 5, y + tall / 2 + 4, wide - until - 8, culprit ? RED : "#5a6774", font, 1, true);
}

function draw() {
  pen.clearRect(0, 0, wide, high);
  findWaits();
  drawSteps();
  drawBorders();
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, TOP - 4, wide - GUTTER, high);
  pen.clip();
  const seen = rows.filter((row) => row.until - view.top > 0 && row.y - view.top < high);
  for (const row of seen) for (const lane of row.lanes) drawLane(lane);
  drawLinks();
  drawPairs();
  drawTurns();
  drawWaits();
  for (const row of seen) for (const lane of row.lanes) for (const hole of lane.holes) drawHole(lane, hole);
  for (const row of seen) for (const lane of row.lanes) drawTags(lane);
  pen.restore();
  drawNames();
  sayScale();
}
