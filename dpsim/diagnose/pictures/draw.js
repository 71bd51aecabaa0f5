// Drawing: bands of steps, lanes with their ops, holes, and lines between what belongs together.

const MOVES = "#2f6fb7", KERNEL = "#86aedb", HOSTED = "#9aa8b8", WAITS = "#f5a524", RED = "#c62828", INK = "#1b232d";
const COLOURS = [HOSTED, KERNEL, MOVES, MOVES, KERNEL, "#6f93bd"];
const MOST_LINES = 500;
const canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
let wide = 1, high = 1, hatch = null, chosen = -1;
let tags = [];     // words of marked ops that have no room for them

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

function write(text, x, y, room, colour, font) {
  pen.font = font || "11px system-ui, 'DejaVu Sans', sans-serif";
  if (room < 14) return;
  let most = text.length;
  if (pen.measureText(text).width > room) {
    most = Math.floor((most * (room - 10)) / pen.measureText(text).width);
    if (most < 2) return;
    text = text.slice(0, most) + "\u2026";
  }
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

function drawSteps() {
  data.steps.forEach(([step, begin], at) => {
    const from = Math.max(xOf(begin), GUTTER), until = at + 1 < data.steps.length ? xOf(data.steps[at + 1][1]) : wide;
    if (until < GUTTER || from > wide || until - from < 1) return;
    if (at % 2) { pen.fillStyle = "#f4f7fa"; pen.fillRect(from, TOP - 4, until - from, high); }
    write(`step ${step}`, from + 4, 14, until - from - 6, "#5a6774");
  });
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
    if (until - x < 1.5 && !stuck && !ops[at + MARKED]) {
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
  if (queued) {
    pen.fillStyle = "rgba(255,255,255,0.75)";
    pen.fillRect(x, y + tall - 4, Math.max(until - x - 2, 1), 3);
    return;
  }
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
  if (ops[at + MARKED]) {
    pen.strokeStyle = RED;
    pen.lineWidth = 2.5;
    pen.strokeRect(x + 0.5, y - 0.5, Math.max(until - x - gap - 1, 2), tall + 1);
    pen.lineWidth = 1;
    if (until - x < 90 && !data.pairs.length) tags.push([data.texts[ops[at + ADDRESS]], until + 3, y + tall / 2]);
  }
  if (until - x > 16) {
    const label = data.texts[ops[at + LABEL]], name = data.texts[ops[at + ADDRESS]];
    const text = label ? `${name}  ${label}` : name, light = !stuck && ops[at + KIND] >= 2 && came <= ops[at + BEGIN];
    const room = Math.min(until, wide) - x - 6;
    write(text, x + 4, y + tall / 2 + 4, room, light ? "#fff" : INK, label ? "bold 11px system-ui, 'DejaVu Sans', sans-serif" : "");
  }
}

function drawHole(lane, hole) {
  const [begin, over, said, address, , , culprit] = hole, y = lane.holeY - view.top + 2, tall = LANE - 4;
  const x = Math.max(xOf(begin), GUTTER), until = over < 0 ? wide - 3 : Math.min(xOf(over), wide - 3);
  if (until < GUTTER || x > wide) return;
  pen.setLineDash([5, 3]);
  pen.lineWidth = culprit ? 2 : 1;
  pen.strokeStyle = culprit ? MOVES : "#7f8b98";
  pen.strokeRect(x + 1, y, Math.max(until - x - 2, 6), tall);
  pen.setLineDash([]);
  pen.lineWidth = 1;
  const who = lane.row.name, text = culprit ? `${who} did not make ${data.texts[address]}: ${data.texts[said]}` : `${who} did not come to ${data.texts[said]}`;
  const font = culprit ? "bold 12px system-ui, 'DejaVu Sans', sans-serif" : "";
  if (until - x > 60) write(text, x + 6, y + tall / 2 + 4, until - x - 8, culprit ? RED : "#5a6774", font);
  else write(text, until + 5, y + tall / 2 + 4, wide - until - 8, culprit ? RED : "#5a6774", font);
  if (culprit) drawWaits(lane, hole, x, y + tall / 2);
}

// From each op that waits for a hole an arrow to it.
function drawWaits(lane, hole, x, y) {
  for (const place of places[hole[5]] || []) {
    const ops = place.lane.ops;
    if (ops[place.at + END] >= 0 || ops[place.at + BEGIN] > data.last) continue;
    const from = place.lane.y - view.top + LANE / 2, at = Math.max(xOf(ops[place.at + BEGIN]), x, GUTTER) + 3;
    arrow(at, from + (from < y ? 9 : -9), at, y + (from < y ? -10 : 10), "#d98200", 2);
  }
}

function arrow(x, y, toX, toY, colour, thick) {
  const turn = Math.atan2(toY - y, toX - x);
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = thick;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(toX - 5 * Math.cos(turn), toY - 5 * Math.sin(turn));
  pen.stroke();
  pen.beginPath();
  pen.moveTo(toX, toY);
  for (const side of [2.7, -2.7]) pen.lineTo(toX + 8 * Math.cos(turn + side), toY + 8 * Math.sin(turn + side));
  pen.fill();
  pen.lineWidth = 1;
}

// Lines between the parts of each collective and transfer in view; of one alone if there are too many.
function drawLinks() {
  let drawn = 0;
  const each = (key) => {
    const parts = places[key];
    if (!parts || parts.length < 2) return;
    const { lane, at } = parts[0], begin = lane.ops[at + BEGIN], over = lane.ops[at + END];
    if ((over >= 0 && over < view.from) || begin > view.until || begin > data.last) return;
    if (++drawn > MOST_LINES && key !== chosen) return;
    if (lane.ops[at + KIND] === 2) linkParts(parts, key === chosen); else linkPair(parts, key === chosen);
  };
  if (places.length && view.until - view.from < MOST_LINES * 4) places.forEach((_, key) => each(key));
  else if (chosen >= 0) each(chosen);
}

function linkParts(parts, strong) {
  const there = parts.filter((one) => one.lane.ops[one.at + BEGIN] <= data.last);
  const ys = there.map((one) => one.lane.y - view.top + LANE / 2);
  const late = there.reduce((one, other) => (other.lane.ops[other.at + BEGIN] > one.lane.ops[one.at + BEGIN] ? other : one));
  const came = late.lane.ops[late.at + CAME], x = xOf(came >= 0 ? came : late.lane.ops[late.at + BEGIN]);
  if (x < GUTTER || x > wide) return;
  pen.strokeStyle = strong ? INK : "rgba(47,111,183,0.45)";
  pen.lineWidth = strong ? 2 : 1;
  pen.beginPath();
  pen.moveTo(x, Math.min(...ys));
  pen.lineTo(x, Math.max(...ys));
  pen.stroke();
  pen.lineWidth = 1;
}

function linkPair(parts, strong) {
  const [one, other] = parts, sends = (part) => /^send/.test(data.texts[part.lane.ops[part.at + SAID]]);
  const from = sends(one) ? one : other, to = from === one ? other : one;
  const x = xOf(from.lane.ops[from.at + BEGIN] + 0.5), came = to.lane.ops[to.at + CAME];
  if (came < 0 || from.lane === to.lane) return;
  const end = xOf(came), y = from.lane.y - view.top + LANE / 2, toY = to.lane.y - view.top + LANE / 2;
  if (x < GUTTER || end < GUTTER) return;
  arrow(x, y, end, toY + (toY > y ? -8 : 8), strong ? INK : "rgba(47,111,183,0.6)", strong ? 2 : 1);
}

// Two accesses that have no order.
function drawPairs() {
  for (const pair of data.pairs) {
    const row = rows.find((one) => one.ranks.includes(pair.rank));
    const ends = pair.lanes.map((name, at) => {
      const lane = row && row.lanes.find((one) => one.name === name);
      return lane && { x: xOf(pair.begins[at] + 0.5), y: lane.y - view.top + LANE / 2 };
    });
    if (!ends[0] || !ends[1]) continue;
    const [one, other] = ends, middle = { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
    pen.strokeStyle = RED;
    pen.lineWidth = 2;
    pen.setLineDash([6, 4]);
    pen.beginPath();
    pen.moveTo(one.x, one.y);
    pen.lineTo(other.x, other.y);
    pen.stroke();
    pen.setLineDash([]);
    pen.lineWidth = 1;
    const over = one.y <= other.y ? 0 : 1;
    tag(pair.names[over], ends[over].x, ends[over].y - 20);
    tag(pair.names[1 - over], ends[1 - over].x, ends[1 - over].y + 22);
    const close = Math.abs(one.x - other.x) < 130;
    tag("no order", close ? Math.max(one.x, other.x) + 16 : middle.x - 34, middle.y);
  }
}

function tag(text, x, y) {
  pen.font = "bold 12px system-ui, 'DejaVu Sans', sans-serif";
  const room = pen.measureText(text).width + 8, left = Math.max(Math.min(x, wide - room - 4), GUTTER + 2);
  pen.fillStyle = "rgba(255,255,255,0.9)";
  pen.fillRect(left, y - 8, room, 17);
  pen.fillStyle = RED;
  pen.fillText(text, left + 4, y + 4);
}

function drawNames() {
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, GUTTER, high);
  for (const row of rows) {
    const y = row.y - view.top;
    if (row.until - view.top < 0 || y > high) continue;
    const more = [row.culprit ? "culprit" : "", row.end === "finished" ? "" : row.end].filter(Boolean).join(", ");
    const font = "bold 12px system-ui, 'DejaVu Sans', sans-serif";
    write(row.name, 8, y + 15, GUTTER - 102, row.culprit ? RED : INK, font);
    if (row.until - row.y > LANE + 4) write(more, 8, y + 31, GUTTER - 102, row.culprit ? RED : "#5a6774");
    for (const lane of row.lanes) write(lane.name, GUTTER - 90, lane.y - view.top + 15, 86, "#5a6774");
    if (row.culprit) { pen.fillStyle = RED; pen.fillRect(0, y, 4, row.until - row.y); }
    pen.fillStyle = "#e3e8ed";
    pen.fillRect(0, row.until - view.top + GAP / 2, wide, 1);
  }
}

function draw() {
  pen.clearRect(0, 0, wide, high);
  tags = [];
  drawSteps();
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, TOP - 4, wide - GUTTER, high);
  pen.clip();
  const seen = rows.filter((row) => row.until - view.top > 0 && row.y - view.top < high);
  for (const row of seen) for (const lane of row.lanes) drawLane(lane);
  drawLinks();
  for (const row of seen) for (const lane of row.lanes) for (const hole of lane.holes) drawHole(lane, hole);
  drawPairs();
  for (const [text, x, y] of tags.slice(0, 40)) tag(text, x, y);
  pen.restore();
  drawNames();
}
