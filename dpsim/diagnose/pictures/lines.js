// Lines: what belongs together, who waits for whom, and two accesses that have no order.

const WAIT_LINE = "#8a4b00", COLUMN = 14;
let waits = [];    // {from: {x, y}, to: {x, y}, x}: the arrows of the waits without end, x: the column of an arrow or -1
let reserved = 0;  // pixels at the right that columns of arrows take

// An op of a lane by its rank, its lane and its begin. Of several that begin together it is the one that stands, else the last.
function placed([rank, name, begin]) {
  const row = rows.find((one) => one.ranks.includes(rank));
  let found = null;
  for (const lane of row ? row.lanes : []) {
    if (lane.name !== name && !lane.name.startsWith(`${name} (`)) continue;
    for (let at = 0; at < lane.ops.length; at += WIDTH) {
      if (lane.ops[at + BEGIN] === begin && !(found && stands(found))) found = { lane, at };
    }
  }
  return found;
}

const stands = ({ lane, at }) => lane.ops[at + END] < 0 && lane.ops[at + BEGIN] <= data.last;
const middleOf = (lane) => lane.y - view.top + LANE / 2;

// The waits in view. Arrows to one op or hole share a column at the right, where no words are.
function findWaits() {
  const found = new Map(), columns = new Map();
  const add = (from, target, to) => {
    if (!stands(from) || from.lane.ops[from.at + BEGIN] > view.until) return;
    const key = `${from.lane.y} ${from.at} ${target}`;
    if (!found.has(key)) found.set(key, { from, to, target });
  };
  for (const row of rows) for (const lane of row.lanes) for (const hole of lane.holes) {
    for (const from of places[hole[5]] || []) add(from, `hole ${lane.y} ${hole[5]}`, { y: lane.holeY - view.top + LANE / 2, over: -1 });
  }
  for (const one of data.arrows) {
    const from = placed(one.from), to = placed(one.to);
    if (from && to && from.lane !== to.lane) add(from, `op ${to.lane.y} ${to.at}`, { y: middleOf(to.lane), over: to.lane.ops[to.at + END] });
  }
  waits = [...found.values()].map(({ from, to, target }) => {
    if (to.over >= 0) return { from, to, x: -1 };
    if (!columns.has(target)) columns.set(target, columns.size);
    return { from, to, x: columns.get(target) };
  });
  reserved = columns.size ? 12 + COLUMN * columns.size : 0;
}

function drawWaits() {
  for (const { from, to, x } of waits) {
    const down = to.y > middleOf(from.lane), y = middleOf(from.lane) + (down ? 8 : -8), begin = Math.max(xOf(from.lane.ops[from.at + BEGIN]), GUTTER) + 4;
    const over = to.over >= 0 ? xOf(to.over) : 0, at = x >= 0 ? Math.max(wide - 12 - COLUMN * x, begin) : Math.max(over, begin);
    pen.fillStyle = WAIT_LINE;
    pen.beginPath();
    pen.arc(at, y, 3, 0, 2 * Math.PI);
    pen.fill();
    const near = to.y > y ? -6 : 6;
    arrow(at, y, x >= 0 ? at : over - 2, to.y + near, WAIT_LINE, 2);
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
  if (places.length && view.until - view.from < MOST_LINES * 4 * data.typical) places.forEach((_, key) => each(key));
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

const senderOf = (parts) => parts.find((part) => /^(send|set) /.test(data.texts[part.lane.ops[part.at + SAID]])) || parts[1];

function linkPair(parts, strong) {
  const from = senderOf(parts);
  for (const to of parts) if (to !== from) linkTo(from, to, strong);
}

// One message, or one value that a rank sets in a store and perhaps several ranks get.
function linkTo(from, to, strong) {
  const sent = [BEGIN, END].map((of) => from.lane.ops[from.at + of]);
  const x = xOf((sent[0] + Math.max(...sent)) / 2), came = to.lane.ops[to.at + CAME];
  if (came < 0 || from.lane === to.lane) return;
  const end = xOf(came), y = from.lane.y - view.top + LANE / 2, toY = to.lane.y - view.top + LANE / 2;
  if (x < GUTTER || end < GUTTER) return;
  const turning = from.lane.ops[from.at + TURNING] >= 0, thick = strong || turning;
  arrow(x, y, end, toY + (toY > y ? -8 : 8), turning ? TURN : strong ? INK : "rgba(47,111,183,0.6)", thick ? 2 : 1);
}

// Two accesses that have no order.
function drawPairs() {
  for (const pair of data.pairs) {
    const row = rows.find((one) => one.ranks.includes(pair.rank));
    const ends = pair.lanes.map((name, at) => {
      const lane = row && row.lanes.find((one) => one.name === name);
      return lane && { x: xOf(pair.middles[at]), y: lane.y - view.top + LANE / 2 };
    });
    if (!ends[0] || !ends[1]) continue;
    dashed(RED, ...ends);
  }
}

function dashed(colour, one, other) {
  pen.strokeStyle = colour;
  pen.lineWidth = 2;
  pen.setLineDash([6, 4]);
  pen.beginPath();
  pen.moveTo(one.x, one.y);
  pen.lineTo(other.x, other.y);
  pen.stroke();
  pen.setLineDash([]);
  pen.lineWidth = 1;
}

// Two events whose swap lets the run finish.
function drawTurns() {
  for (const [from, to] of turnPairs()) {
    const edge = to.y > from.y ? LANE / 2 : -LANE / 2;  // the words in the boxes stay free
    dashed(TURN, { x: from.x, y: from.y + edge }, { x: to.x, y: to.y - edge });
  }
}

function turnPairs() {
  const ends = new Map();
  for (const row of rows) for (const lane of row.lanes) for (let at = 0; at < lane.ops.length; at += WIDTH) {
    const turning = lane.ops[at + TURNING];
    if (data.texts[turning]) ends.set(turning, { x: xOf(lane.ops[at + BEGIN]), y: middleOf(lane), lane });
  }
  return data.turns.map(([one, other]) => [ends.get(one), ends.get(other)])
    .filter(([from, to]) => from && to && from.lane !== to.lane);
}
