// Words: names of rows and lanes, names of ops in their bars, and words below what is marked.

const PLAIN = "11px system-ui, 'DejaVu Sans', sans-serif", STRONG = "bold 11px system-ui, 'DejaVu Sans', sans-serif";
const BOLD = "bold 12px system-ui, 'DejaVu Sans', sans-serif", GREY = "#5a6774";

// A text for that room, cut behind a share of it: 1 at the end. "" if nothing of it has room.
function fitting(text, room, share) {
  const width = pen.measureText(text).width;
  if (width <= room) return text;
  const most = Math.floor((text.length * (room - 10)) / width), head = Math.ceil(most * share);
  return most < 2 ? "" : `${text.slice(0, head)}\u2026${text.slice(text.length - most + head)}`;
}

// The first of the texts that has room; else the last of them, cut. `apart`: no line strikes through the words.
function write(texts, x, y, room, colour, font, share = 1, apart = false) {
  pen.font = font || PLAIN;
  if (room < 14) return;
  const all = [].concat(texts), found = all.find((text) => pen.measureText(text).width <= room);
  const text = found === undefined ? fitting(all[all.length - 1], room, share) : found;
  if (apart) { pen.fillStyle = "#fff"; pen.fillRect(x - 3, y - 11, pen.measureText(text).width + 6, 14); }
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
}

// An op's name without the beginning that it has in common with others of its part.
const shortName = (name) => name.replace(/^[\w.]*\.(?=\w)/, "");

// The words in the bar of an op, the longest first. A collective that waits names its group.
function barTexts(lane, at) {
  const ops = lane.ops, texts = data.texts, name = texts[ops[at + ADDRESS]], label = texts[ops[at + LABEL]];
  if (!label) return [name, shortName(name)];
  const all = [name, shortName(name)], ends = [...all.map((one) => `${one}  ${label}`), label];
  if (ops[at + KIND] !== 2 && ops[at + KIND] !== 3) return ends;
  if (texts[ops[at + SAID]].startsWith(name)) return [`${texts[ops[at + SAID]]}:  ${label}`, ...ends];
  const said = texts[ops[at + SAID]].replace(/ \w+\[\d+\]/, ""), group = (/ on .*$/.exec(said) || [""])[0];
  return [...all.map((one) => `${one} ${said}:  ${label}`), ...all.map((one) => `${one}${group}:  ${label}`), ...ends];
}

// The column of the lanes is as wide as their names, within bounds.
function fitColumns() {
  pen.font = PLAIN;
  const widths = rows.flatMap((row) => row.lanes.map((lane) => pen.measureText(lane.name).width));
  LANE_NAMES = Math.min(Math.max(90, ...widths.map((one) => one + 12)), 190);
  GUTTER = 126 + LANE_NAMES;
}

// The words of a lane's marked ops: of one call site at the first of them in view, of two accesses at each.
function redTags(lane) {
  const ops = lane.ops, found = [];
  for (const pair of data.pairs) pair.lanes.forEach((name, at) => {
    if (lane.name !== name || !lane.row.ranks.includes(pair.rank)) return;
    found.push({ x: xOf(pair.begins[at]), text: `${pair.names[at]} has no order with ${pair.names[1 - at]}` });
  });
  if (found.length || !lane.tagY) return found;
  const marked = [];
  for (let at = 0; at < ops.length; at += WIDTH) if (ops[at + MARKED]) marked.push(at);
  const first = marked.find((at) => ops[at + END] < 0 || ops[at + END] > view.from);
  if (first === undefined || ops[first + BEGIN] > view.until) return [];
  const name = data.texts[ops[first + ADDRESS]], said = data.texts[ops[first + SAID]];
  const more = marked.length > 1 ? `  (${marked.length} calls, outlined)` : "";
  const where = data.texts[ops[first + WHERE]], at = where && !said.includes(where) ? ` at ${where}` : "";
  const who = data.undecided ? "" : "culprit: ";
  return [{ x: xOf(ops[first + BEGIN]), text: `${who}${said.startsWith(name) ? said : `${name}  ${said}`}${at}${more}` }];
}

// The words of a lane's events whose swap lets the run finish, as far as they are in view.
function turningTags(lane) {
  const found = [];
  for (let at = 0; at < lane.ops.length; at += WIDTH) {
    const text = data.texts[lane.ops[at + TURNING]], x = xOf(lane.ops[at + BEGIN]);
    if (text && x >= GUTTER - 2 && x <= wide) found.push({ x: x + 2, text, colour: TURN });
  }
  return found;
}

const tagsOf = (lane) => [...redTags(lane), ...turningTags(lane)];

// Each in a line below the lane: the first line where it overlaps no other words.
function drawTags(lane) {
  if (!lane.tagY) return;
  const free = Array(lane.tagLines).fill(GUTTER + 2);
  pen.font = BOLD;
  for (const { x, text, colour } of tagsOf(lane).sort((one, other) => one.x - other.x)) {
    const room = pen.measureText(text).width, best = Math.min(x, wide - room - 4);
    const fits = free.findIndex((from) => from <= best), line = fits < 0 ? free.indexOf(Math.min(...free)) : fits;
    const left = Math.max(best, free[line]), y = lane.tagY - view.top + TAG * line;
    pen.fillStyle = "#fff";  // no line strikes through the words
    pen.fillRect(left - 3, y + 3, room + 6, TAG - 2);
    pen.fillStyle = colour || RED;
    pen.fillRect(Math.max(x, GUTTER) + 1, lane.tagY - view.top - 3, 2, 8 + TAG * line);
    pen.fillText(text, left, y + 15);
    free[line] = left + room + 12;
  }
}

function sayScale() {
  if (data.unit !== "tick") document.getElementById("scale").textContent = `${timeText(view.until - view.from)} in view`;
}

function drawNames() {
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, GUTTER, high);
  for (const row of rows) {
    const y = row.y - view.top;
    if (row.until - view.top < 0 || y > high) continue;
    const more = [row.culprit ? "culprit" : "", row.end === "finished" ? "" : row.end].filter(Boolean).join(", ");
    write(row.name, 8, y + 15, 110, row.culprit ? RED : INK, BOLD, 0.6);
    if (row.until - row.y > LANE + 4) write(more, 8, y + 31, 110, row.culprit ? RED : GREY);
    for (const lane of row.lanes) write(lane.name, 126, lane.y - view.top + 15, LANE_NAMES - 6, GREY, PLAIN, 0.5);
    if (row.culprit) { pen.fillStyle = RED; pen.fillRect(0, y, 4, row.until - row.y); }
    pen.fillStyle = "#e3e8ed";
    pen.fillRect(0, row.until - view.top + GAP / 2, GUTTER, 1);
  }
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, GUTTER, TOP - 4);
  if (data.undecided) write("no single culprit", 8, 15, GUTTER - 12, INK, BOLD);
}

// Whether an arrow of the turning leads from a message to its receive.
function isTurningMessage(parts) {
  if (!parts || parts.length < 2 || parts[0].lane.ops[parts[0].at + KIND] === 2) return false;
  const from = senderOf(parts);
  return from.lane.ops[from.at + TURNING] >= 0 && parts.some((to) => to.lane !== from.lane && to.lane.ops[to.at + CAME] >= 0);
}

// Keys of the legend, of what the picture has.
function showKeys() {
  const lanes = rows.flatMap((row) => row.lanes), holes = lanes.flatMap((lane) => lane.holes);
  const any = (test) => lanes.some((lane) => {
    for (let at = 0; at < lane.ops.length; at += WIDTH) if (test(lane.ops, at)) return true;
    return false;
  });
  const has = {
    host: any((ops, at) => ops[at + KIND] === 0), kernel: any((ops, at) => ops[at + KIND] === 1 || ops[at + KIND] === 4),
    meets: any((ops, at) => ops[at + KIND] === 2 || ops[at + KIND] === 3), message: any((ops, at) => ops[at + KIND] === 5),
    ended: any((ops, at) => ops[at + KIND] === 6), waits: any((ops, at) => ops[at + CAME] > ops[at + BEGIN]),
    stuck: any((ops, at) => ops[at + END] < 0 && ops[at + BEGIN] <= data.last),
    members: places.some((parts) => parts && parts.length > 1), arrow: holes.length > 0 || data.arrows.length > 0,
    left: holes.some((hole) => hole[6]), hole: holes.some((hole) => !hole[6]),
    marked: !data.pairs.length && !data.undecided && any((ops, at) => ops[at + MARKED]),
    decided: data.undecided && any((ops, at) => ops[at + MARKED]), pair: data.pairs.length > 0,
    turning: any((ops, at) => ops[at + TURNING] >= 0), turns: turnPairs().length > 0, sent: places.some(isTurningMessage),
    row: rows.some((row) => row.culprit), undecided: data.undecided,
    ticks: data.unit === "tick", clock: data.unit !== "tick",
    open: data.openEnds && any((ops, at) => ops[at + KIND] >= 1 && ops[at + KIND] <= 4),
  };
  for (const key of document.querySelectorAll("[data-key]")) key.hidden = !has[key.dataset.key];
}
