"use strict";
// One run at a time: its course in phases, and its network at the moment that the slider chooses.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const pick = $("run"), slider = $("slider");
  if (!pick) return;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (n) => n.toLocaleString("en-US");
  const count = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;
  const kinds = ["frozen", "candidate", "plastic", "grown"];
  const shown = { frozen: true, candidate: true, plastic: true, grown: true };
  let run, moments, moment, theme, timer = null;

  // Colours ----------------------------------------------------------------------------------------
  function taskColour(task) {
    const count = run.course.length;
    if (count <= 7) return theme.tasks[task];
    // Many tasks are an order, not a set: one ramp from blue over green to yellow, even in lightness.
    const stops = [[59, 82, 139], [33, 144, 141], [94, 201, 98], [253, 200, 40]];
    const at = (task / (count - 1)) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
    return `rgb(${stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))).join(",")})`;
  }
  function readTheme() {
    theme = { tasks: [0, 1, 2, 3, 4, 5, 6].map((i) => style(`--task-${i}`)) };
    for (const name of ["paper", "ink", "soft", "line", "plastic", "input", "grown"]) theme[name] = style(`--${name}`);
  }

  // Moments: what the slider counts ------------------------------------------------------------------
  function allMoments() {
    if (run.picture) {
      return run.picture.frames.map((frame, i) => ({ kind: frame.kind, task: frame.task, phase: frame.phase, frame: i }));
    }
    return run.course.flatMap((task, t) => task.phases.map((_, p) => ({ kind: "phase", task: t, phase: p + 1 })));
  }
  function describe(m) {
    const name = run.course[m.task] ? run.course[m.task].name : "";
    if (m.kind === "start") return "Before the first task: every unit is plastic";
    if (m.kind === "task") return `Task ${m.task + 1} (${name}) is learned: candidates became stable, the rest started anew`;
    const tau = run.course[m.task].tau[m.phase - 1];
    return `Task ${m.task + 1} (${name}), after phase ${m.phase}` + (tau === undefined ? "" : `: tau ${(100 * tau).toFixed(1)} %`);
  }

  // The course: validation accuracy per epoch, tau per phase -------------------------------------------
  function drawCourse() {
    const box = $("course"), width = Math.max(box.clientWidth, 300), left = 40, right = 8;
    const narrow = width < 560, top = 22, high = narrow ? 130 : 170, gap = 26, low = 70;
    const starts = [];
    let phases = 0;
    for (const task of run.course) { starts.push(phases); phases += Math.max(task.phases.length, 1); }
    const x = (p) => left + (p / phases) * (width - left - right);
    const values = run.course.flatMap((task) => task.phases.flat());
    const floor = Math.min(90, 10 * Math.floor(Math.min(...values, 100) / 10));
    const y = (v) => top + (1 - (v - floor) / (100 - floor)) * high;
    const z = (t) => top + high + gap + (1 - t) * low;
    const parts = [];
    const line = (a, b, c, d, cls) => parts.push(`<line x1="${a}" y1="${b}" x2="${c}" y2="${d}" class="${cls}"/>`);
    const text = (a, b, s, more = "") => parts.push(`<text x="${a}" y="${b}" ${more}>${s}</text>`);
    for (const v of [floor, (floor + 100) / 2, 100]) { line(left, y(v), width - right, y(v), "rule"); text(left - 6, y(v) + 4, v, 'text-anchor="end"'); }
    const hasTau = run.course.some((task) => task.tau.length);
    if (hasTau) for (const t of [0, 0.5, 1]) { line(left, z(t), width - right, z(t), "rule"); text(left - 6, z(t) + 4, 100 * t, 'text-anchor="end"'); }
    const bottom = hasTau ? z(0) : y(floor);
    run.course.forEach((task, t) => {
      const colour = taskColour(t), begin = starts[t];
      if (t) line(x(begin), top - 12, x(begin), bottom, "rule");
      const room = x(begin + Math.max(task.phases.length, 1)) - x(begin);
      if (room > 46) text(x(begin) + 3, top - 8, `task ${t + 1}`, 'class="name"');
      else if (room > 14) text(x(begin) + 2, top - 8, t + 1, 'class="name"');
      const points = task.phases.flatMap((phase, p) => phase.map((v, e) => `${x(begin + p + (e + 1) / phase.length).toFixed(1)},${y(v).toFixed(1)}`));
      parts.push(`<polyline points="${points.join(" ")}" fill="none" stroke="${colour}" stroke-width="1.1" opacity=".55"/>`);
      task.phases.forEach((phase, p) => {
        const best = Math.max(...phase);
        if (phases < 400) parts.push(`<circle cx="${x(begin + p + 1).toFixed(1)}" cy="${y(best).toFixed(1)}" r="2.4" fill="${colour}"/>`);
      });
      if (task.tau.length) {
        const steps = task.tau.map((v, p) => `${p ? "L" : "M"}${x(begin + p + 1).toFixed(1)},${z(v).toFixed(1)}`).join(" ");
        parts.push(`<path d="${steps}" class="tau"/>`);
        task.tau.forEach((v, p) => parts.push(`<circle cx="${x(begin + p + 1).toFixed(1)}" cy="${z(v).toFixed(1)}" r="1.8" fill="${theme.soft}"/>`));
      }
    });
    text(left, top + high + 14, narrow ? "validation accuracy in %" : "validation accuracy in %; a dot is the best epoch of a phase, the thin line every epoch");
    if (hasTau) text(left, z(0) + 14, narrow ? "tau in %" : "tau in %: the share of activation that stable units and candidates must hold");
    const at = moments[moment];
    if (at) {
      const where = at.kind === "start" ? 0 : at.kind === "task" ? starts[at.task] + run.course[at.task].phases.length : starts[at.task] + at.phase;
      line(x(where), top - 4, x(where), bottom, "cursor");
    }
    const height = bottom + 20;
    box.innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="Validation accuracy and tau over ${phases} phases of ${run.course.length} tasks">${parts.join("")}</svg>`;
  }

  // The network ----------------------------------------------------------------------------------------
  let rows = [], order = [], place = [];
  function build() {
    const box = $("network");
    box.textContent = "";
    rows = [];
    $("network-part").hidden = !run.picture;
    if (!run.picture) return;
    const groups = run.picture.units.length;
    for (let g = 0; g < groups; g++) {
      rows.push(addRow(box, "units", g));
      if (g < groups - 1) rows.push(addRow(box, "links", g));
    }
    order = run.picture.units.map((n, g) => {
      const became = run.picture.became[g], all = Array.from({ length: n }, (_, i) => i);
      if (g === 0 || g === groups - 1) return all;
      const key = (i) => (became[i] < 0 ? 1e9 : became[i]);
      return all.sort((a, b) => key(a) - key(b) || a - b);
    });
    place = order.map((list) => { const at = new Int32Array(list.length); list.forEach((unit, i) => (at[unit] = i)); return at; });
    unfold();
  }
  function addRow(box, kind, index) {
    const row = document.createElement("div"), canvas = document.createElement("canvas"), words = document.createElement("div");
    row.className = `row ${kind}`; words.className = "text";
    canvas.setAttribute("role", "img");
    row.append(canvas, words);
    box.append(row);
    return { kind, index, canvas, words };
  }

  // Frames are stored as changes; unfolding them once makes every jump of the slider cheap.
  let unitsAt = [], linksAt = [];
  function unfold() {
    const p = run.picture, groups = p.units.length;
    let units = p.units.map((n, g) => new Uint8Array(n).fill(g === 0 ? 1 : 0));
    let links = p.pairs.map((pair) => new Uint8Array(pair[0].length));
    unitsAt = []; linksAt = [];
    for (const frame of p.frames) {
      units = units.map((bits, g) => (g === 0 ? bits : bits.slice()));
      frame.protected.forEach((list, g) => { for (const i of list) units[g + 1][i] ^= 1; });
      links = links.map((bits) => bits.slice());
      frame.layers.forEach((layer, i) => { for (const k of layer.flips) links[i][k] ^= 1; });
      unitsAt.push(units); linksAt.push(links);
    }
    if (groups < 2) unitsAt = [];
  }
  // 0 plastic, 1 candidate, 2 stable
  function state(g, unit, frame) {
    if (g === 0) return 2;
    const task = run.picture.became[g][unit], now = run.picture.frames[frame];
    if (task >= 0 && (task < now.task || (task === now.task && now.kind === "task"))) return 2;
    return unitsAt[frame][g][unit] ? 1 : 0;
  }
  function unitColour(g, unit, frame) {
    if (g === 0) return theme.input;
    const s = state(g, unit, frame);
    return s === 0 ? theme.plastic : taskColour(s === 2 ? run.picture.became[g][unit] : run.picture.frames[frame].task);
  }

  function layout(n, width) {
    const least = width < 480 ? 4 : 6, lines = Math.max(1, Math.ceil((n * least) / width));
    const columns = Math.ceil(n / lines), slot = width / columns;
    return { lines, columns, slot, cell: Math.max(2, Math.min(Math.floor(slot), 14)) };
  }
  const middle = (g, unit, width) => {
    const l = layout(run.picture.units[g], width);
    return (Math.floor(place[g][unit] / l.lines) + 0.5) * l.slot;
  };
  function prepare(canvas, height) {
    const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    return [pen, width];
  }

  function drawUnits(row, frame) {
    const g = row.index, n = run.picture.units[g], last = g === run.picture.units.length - 1;
    const l = layout(n, row.canvas.clientWidth), labels = last && data.outputs[run.stream];
    const [pen] = prepare(row.canvas, l.lines * (l.cell + 1) + (labels && l.lines === 1 ? 15 : 1));
    const counts = [0, 0, 0];
    for (let i = 0; i < n; i++) {
      const unit = order[g][i], s = state(g, unit, frame), x = (Math.floor(i / l.lines) + 0.5) * l.slot - l.cell / 2, y = (i % l.lines) * (l.cell + 1);
      counts[s]++;
      const colour = unitColour(g, unit, frame), inner = l.cell > 3 ? l.cell - 1 : l.cell;
      if (s === 1) {  // a ring: chosen, not yet stable
        pen.fillStyle = colour; pen.fillRect(x, y, inner, inner);
        pen.fillStyle = theme.paper;
        const edge = inner > 6 ? 2 : 1.2;
        pen.fillRect(x + edge, y + edge, inner - 2 * edge, inner - 2 * edge);
      } else { pen.fillStyle = colour; pen.fillRect(x, y, inner, inner); }
      if (labels && l.lines === 1 && l.slot >= 7 && String(labels[unit] || "").length * 6 <= l.slot) {
        pen.fillStyle = theme.soft; pen.font = "10px system-ui, sans-serif"; pen.textAlign = "center";
        pen.fillText(labels[unit], x + l.cell / 2, l.lines * (l.cell + 1) + 10);
      }
    }
    const name = run.groups[g];
    if (g === 0) {
      const what = count(n, run.convolutions ? "channel" : "unit");
      row.words.innerHTML = `<b>${name}</b> ${what}`;
      row.canvas.setAttribute("aria-label", `${name}: ${what}`);
    } else {
      const chosen = last ? `${number(counts[1])} of this task` : count(counts[1], "candidate");
      const told = [`${number(counts[2])} stable`, counts[1] ? chosen : "", `${number(counts[0])} ${last ? "unused" : "plastic"}`].filter(Boolean).join(", ");
      row.words.innerHTML = `<b>${name}</b> ${count(n, "unit")}:<br>${told}`;
      row.canvas.setAttribute("aria-label", `${name}: ${count(n, "unit")}, ${told}`);
    }
  }

  function drawLinks(row, frame) {
    const i = row.index, p = run.picture, [targets, sources] = p.pairs[i], bits = linksAt[frame][i];
    const before = frame && p.frames[frame].kind === "phase" ? linksAt[frame - 1][i] : null;
    const width0 = row.canvas.clientWidth, height = width0 < 480 ? 84 : 104, [pen, width] = prepare(row.canvas, height);
    const drawn = { frozen: [], candidate: [], plastic: [], grown: [] };
    for (let k = 0; k < bits.length; k++) {
      if (!bits[k]) continue;
      const s = state(i + 1, targets[k], frame);
      drawn[s === 2 ? "frozen" : s === 1 ? "candidate" : before && !before[k] ? "grown" : "plastic"].push(k);
    }
    const total = kinds.reduce((sum, kind) => sum + drawn[kind].length, 0);
    const faint = Math.min(1, Math.max(0.16, 60 / Math.max(total, 1)));
    const strength = { plastic: faint, candidate: faint * 2, frozen: faint * 2, grown: 0.85 };
    for (const kind of ["plastic", "candidate", "frozen", "grown"]) {
      if (!shown[kind]) continue;
      pen.globalAlpha = Math.min(strength[kind], 1);
      pen.lineWidth = kind === "grown" ? 0.9 : 1;
      for (const k of drawn[kind]) {
        pen.strokeStyle = kind === "plastic" ? theme.soft : kind === "grown" ? theme.grown : unitColour(i + 1, targets[k], frame);
        const a = middle(i, sources[k], width), b = middle(i + 1, targets[k], width);
        pen.beginPath(); pen.moveTo(a, 0);
        pen.bezierCurveTo(a, height * 0.45, b, height * 0.55, b, height); pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    const c = p.frames[frame].layers[i], share = p.share[i] / p.strides[i], one = Math.round(1 / share);
    const about = p.strides[i] > 1 ? "about " : "";
    const sample = total === 0 ? "" : one <= 1 ? "<br>all are drawn" : `<br>drawn: 1 in ${number(one)}`;
    row.words.innerHTML = `<b>${number(c.live)}</b> connections: ${about}${number(c.frozen)} frozen, ` +
      (c.candidate ? `${number(c.candidate)} into candidates, ` : "") + `${number(c.plastic)} plastic` +
      (c.grown ? `, of these <b>${number(c.grown)}</b> grown in this phase` : "") + sample;
    row.canvas.setAttribute("aria-label", row.words.textContent);
  }

  function draw() {
    const m = moments[moment];
    $("moment").textContent = m ? describe(m) : "";
    slider.setAttribute("aria-valuetext", m ? describe(m) : "");
    drawCourse();
    if (run.picture && m) for (const row of rows) (row.kind === "units" ? drawUnits : drawLinks)(row, m.frame);
  }

  // Controls -------------------------------------------------------------------------------------------
  function legend() {
    const tasks = run.course.map((task, t) => `<li><span><i style="background:${taskColour(t)}"></i>${escape_(`${t + 1} ${task.name}`)}</span></li>`);
    const c = taskColour(Math.min(1, run.course.length - 1));
    $("units-legend").innerHTML = tasks.join("") +
      `<li><span><i style="border:2px solid ${c}"></i>candidate</span></li><li><span><i style="background:${theme.plastic}"></i>plastic</span></li>`;
    const colour = { plastic: theme.soft, grown: theme.grown };
    const word = { frozen: "frozen (into stable units)", candidate: "into candidates", plastic: "plastic", grown: "grown in this phase" };
    $("links-legend").innerHTML = kinds.map((kind) =>
      `<li><label><input type="checkbox" value="${kind}" ${shown[kind] ? "checked" : ""}><i class="line ${colour[kind] ? "" : "many"}" style="${colour[kind] ? `background:${colour[kind]};` : ""}opacity:${kind === "candidate" || kind === "plastic" ? 0.55 : 1}"></i>${word[kind]}</label></li>`).join("");
  }
  function escape_(text) {
    const span = document.createElement("span");
    span.textContent = text;
    return span.innerHTML;
  }
  function choose(index) {
    run = data.runs[index];
    readTheme();
    moments = allMoments();
    moment = moments.length - 1;
    slider.max = String(Math.max(moments.length - 1, 0));
    slider.value = String(moment);
    legend(); build(); draw();
  }
  function go(to) {
    moment = Math.max(0, Math.min(moments.length - 1, to));
    slider.value = String(moment);
    draw();
  }
  function stop() { clearInterval(timer); timer = null; $("play").textContent = "Play"; }
  pick.addEventListener("change", () => { stop(); choose(Number(pick.value)); });
  slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
  $("back").addEventListener("click", () => { stop(); go(moment - 1); });
  $("next").addEventListener("click", () => { stop(); go(moment + 1); });
  $("play").addEventListener("click", () => {
    if (timer) return stop();
    if (moment === moments.length - 1) go(0);
    $("play").textContent = "Stop";
    timer = setInterval(() => (moment < moments.length - 1 ? go(moment + 1) : stop()), 350);
  });
  $("links-legend").addEventListener("change", (event) => { shown[event.target.value] = event.target.checked; draw(); });
  let wait = null;
  window.addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(draw, 80); });
  const repaint = () => { readTheme(); legend(); draw(); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  window.addEventListener("beforeprint", () => { stop(); document.documentElement.classList.add("printing"); repaint(); });
  window.addEventListener("afterprint", () => { document.documentElement.classList.remove("printing"); repaint(); });
  choose(0);
})();
