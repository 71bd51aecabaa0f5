// What is where: rows of ranks, lanes in them, and the ops that share a key. Times are ticks or ns; x and y are pixels.

const data = JSON.parse(document.getElementById("data").textContent);
const WIDTH = data.fields.length;
const [BEGIN, CAME, END, KIND, SAID, ADDRESS, WHERE, STEP, KEY, MARKED, LABEL, TURNING] = data.fields.map((_, at) => at);
const LANE = 22, GAP = 12, TOP = 26, TAG = 18, MOST_TAGS = 4;
let GUTTER = 216, LANE_NAMES = 90;     // pixels at the left, and those of them that names of lanes take

const view = { from: 0, until: 1, top: 0, folded: true };
let rows = [];     // {name, end, culprit, y, lanes: [{name, ops, holes, y, holeY, tagY, row}]}
let places = [];   // key -> [{lane, at}], at: the first number of an op
let height = 0;

function namesOf(ranks) {
  const runs = [], others = [];
  for (const rank of ranks) {
    const number = /^rank (\d+)$/.exec(data.actors[rank]);
    const last = runs[runs.length - 1];
    if (!number) others.push(data.actors[rank]);
    else if (last && last[1] === rank - 1) last[1] = rank;
    else runs.push([rank, rank]);
  }
  const parts = runs.map(([a, b]) => (b > a + 1 ? `${a} to ${b}` : b > a ? `${a}, ${b}` : `${a}`));
  const many = runs.length > 1 || (runs.length && runs[0][1] > runs[0][0]);
  if (parts.length) others.unshift(`rank${many ? "s" : ""} ${parts.join(", ")}`);
  return others.join(", ");
}

function lay() {
  const source = view.folded ? data.rows
    : data.rows.flatMap((row) => row.ranks.map((rank) => ({ ...row, ranks: [rank] })))
      .sort((one, other) => one.ranks[0] - other.ranks[0]);
  let y = TOP + 4;
  places = [];
  rows = source.map((from) => {
    const row = { ...from, name: namesOf(from.ranks), y, lanes: [] };
    for (const one of from.lanes) {
      const lane = { ...one, y, holeY: 0, tagY: 0, row };
      y += LANE;
      lane.tagLines = marksOf(one.ops);
      if (lane.tagLines) { lane.tagY = y; y += TAG * lane.tagLines + 2; }
      if (one.holes.length) { lane.holeY = y; y += LANE + 2; }
      row.lanes.push(lane);
      for (let at = 0; at < one.ops.length; at += WIDTH) {
        const key = one.ops[at + KEY];
        if (key >= 0) (places[key] = places[key] || []).push({ lane, at });
      }
    }
    y = Math.max(y, row.y + LANE + 10);
    row.until = y;
    y += GAP;
    return row;
  });
  height = y;
}

// The number of lines for words below a lane: one for the culprit or a race, and one for each event of the turning.
function marksOf(ops) {
  let marked = 0, turning = 0;
  for (let at = 0; at < ops.length; at += WIDTH) {
    if (ops[at + MARKED]) marked = 1;
    if (data.texts[ops[at + TURNING]]) turning += 1;
  }
  return Math.min(marked + turning, MOST_TAGS);
}

// The first op of a lane that is not over at a time; ops of a lane are in order and do not overlap.
function firstAt(ops, time) {
  let low = 0, high = ops.length / WIDTH;
  while (low < high) {
    const middle = (low + high) >> 1, end = ops[middle * WIDTH + END];
    if (end >= 0 && end < time) low = middle + 1; else high = middle;
  }
  return low * WIDTH;
}

// At the end of a run, the view has room for the words of what waits without end.
const anyStands = () => rows.some((row) => row.lanes.some(({ ops, holes }) => holes.length
  || ops.some((end, at) => at % WIDTH === END && end < 0)));

function show(from, until) {
  const room = Math.max(2, (until - from) * 0.04);
  view.from = from - room;
  view.until = until + room + (until >= data.last && anyStands() ? Math.max(3, (until - from) * 0.3) : 0);
}

// A time or a duration in words.
function timeText(time) {
  if (data.unit === "tick") return `tick ${time}`;
  const [many, unit] = time >= 1e9 ? [time / 1e9, "s"] : time >= 1e6 ? [time / 1e6, "ms"] : time >= 1e3 ? [time / 1e3, "us"] : [time, "ns"];
  return `${unit === "ns" ? Math.round(many) : many.toFixed(many < 10 ? 3 : many < 100 ? 2 : 1)} ${unit}`;
}

// The op or hole below a point of the canvas.
function below(x, y) {
  const time = timeAt(x), down = y + view.top;
  for (const row of rows) {
    if (down < row.y || down >= row.until) continue;
    for (const lane of row.lanes) {
      if (lane.holeY && down >= lane.holeY && down < lane.holeY + LANE) {
        const hole = lane.holes.find((one) => time >= one[0] && (one[1] < 0 || time < one[1]));
        return hole ? { lane, hole } : null;
      }
      if (down < lane.y || down >= lane.y + LANE) continue;
      const at = firstAt(lane.ops, time);
      if (at < lane.ops.length && lane.ops[at + BEGIN] <= time) return { lane, at };
      if (data.unit === "tick") return null;
      const near = [at - WIDTH, at].filter((one) => one >= 0 && one < lane.ops.length)
        .map((one) => ({ lane, at: one, far: Math.min(...[BEGIN, END].map((of) => Math.abs(xOf(lane.ops[one + of]) - x))) }));
      near.sort((one, other) => one.far - other.far);
      return near.length && near[0].far < 4 ? near[0] : null;
    }
  }
  return null;
}
