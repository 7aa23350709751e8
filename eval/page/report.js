// The player: two sounds run in step and one of them is heard; spectrograms of both and their difference; figures of the clip.
"use strict";
(() => {
  const RATE = 24000, SIZE = 512, RANGE_DB = 70, DIFFERENCE_DB = 12, FLOOR = 1e-9, REFERENCE = "fp32 reference";
  const store = document.getElementById("sounds");
  if (!store) return;
  const data = JSON.parse(store.textContent);
  const $ = (id) => document.getElementById(id);
  const clipMenu = $("clip"), levelMenu = $("level"), playButton = $("play"), canvas = $("picture");
  const sides = [...document.querySelectorAll("button.ab")];
  const decoded = new Map();
  let pair = null, picture = null, side = "A", context = null, playing = null, position = 0, asked = 0;

  data.clips.forEach((clip, i) => clipMenu.add(new Option(`${clip.voice}: ${clip.text.slice(0, 60)}`, i)));
  const sized = (name) => (data.bytes?.[name] ? `${name}, ${(data.bytes[name] / 1e6).toFixed(1)} MB` : name);
  data.levels.forEach((name) => levelMenu.add(new Option(sized(name), name)));

  async function decode(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const buffer = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(bytes.buffer);
    return buffer.getChannelData(0);
  }

  async function signal(clip, name) {
    const key = `${clip.id} ${name}`;
    if (!decoded.has(key)) {
      const kept = clip.sounds[name], own = await decode(kept.flac);
      if (kept.difference) {
        const reference = await signal(clip, REFERENCE);
        decoded.set(key, own.map((value, i) => value + reference[i]));
      } else decoded.set(key, own);
    }
    return decoded.get(key);
  }

  // Power spectra in dB, one Float32Array of SIZE / 2 bins a column.
  function spectra(samples, columns) {
    const window = Float64Array.from({ length: SIZE }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / SIZE));
    const found = [], hop = Math.max(1, (samples.length - SIZE) / Math.max(1, columns - 1));
    for (let column = 0; column < columns; column++) {
      const start = Math.round(column * hop), re = new Float64Array(SIZE), im = new Float64Array(SIZE);
      for (let i = 0; i < SIZE; i++) re[i] = (samples[start + i] || 0) * window[i];
      transform(re, im);
      found.push(Float32Array.from({ length: SIZE / 2 }, (_, k) => 10 * Math.log10(re[k] * re[k] + im[k] * im[k] + FLOOR)));
    }
    return found;
  }

  function transform(re, im) {
    for (let i = 1, j = 0; i < SIZE; i++) {
      let bit = SIZE >> 1;
      for (; j & bit; bit >>= 1) j ^= bit;
      j ^= bit;
      if (i < j) { [re[i], re[j]] = [re[j], re[i]]; [im[i], im[j]] = [im[j], im[i]]; }
    }
    for (let length = 2; length <= SIZE; length <<= 1) {
      const angle = (-2 * Math.PI) / length;
      for (let start = 0; start < SIZE; start += length)
        for (let k = 0; k < length / 2; k++) {
          const c = Math.cos(angle * k), s = Math.sin(angle * k), a = start + k, b = a + length / 2;
          const x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
          re[b] = re[a] - x; im[b] = im[a] - y; re[a] += x; im[a] += y;
        }
    }
  }

  const HEAT = [[0, 0, 4], [40, 17, 89], [114, 31, 129], [182, 54, 121], [241, 96, 93], [254, 175, 119], [252, 253, 191]];
  const COLD_HOT = [[33, 102, 172], [103, 169, 207], [247, 247, 247], [239, 138, 98], [178, 24, 43]];
  function colour(scale, part) {
    const at = Math.min(0.9999, Math.max(0, part)) * (scale.length - 1), i = Math.floor(at), rest = at - i;
    return scale[i].map((value, k) => value + (scale[i + 1][k] - value) * rest);
  }

  function panel(columns, value, scale) {
    const image = document.createElement("canvas");
    image.width = columns; image.height = SIZE / 2;
    const draw = image.getContext("2d"), pixels = draw.createImageData(columns, SIZE / 2);
    for (let x = 0; x < columns; x++)
      for (let k = 0; k < SIZE / 2; k++) {
        const place = 4 * ((SIZE / 2 - 1 - k) * columns + x);
        pixels.data.set([...colour(scale, value(x, k)), 255], place);
      }
    draw.putImageData(pixels, 0, 0);
    return image;
  }

  // White on a dark strip: readable on the dark spectrograms and on the light difference.
  function label(draw, text, x, y, dots) {
    draw.fillStyle = "rgba(0,0,0,.65)"; draw.fillRect(x, y, draw.measureText(text).width + 12 * dots, 18 * dots);
    draw.fillStyle = "#fff"; draw.fillText(text, x + 6 * dots, y + 13 * dots);
  }

  function paint() {
    const width = canvas.clientWidth, height = canvas.clientHeight, dots = window.devicePixelRatio || 1;
    if (!pair || !width) return; // drawn when the canvas gets its width
    canvas.width = Math.round(width * dots); canvas.height = Math.round(height * dots);
    const columns = Math.min(600, Math.round(width)), a = spectra(pair.a, columns), b = spectra(pair.b, columns);
    const top = a.reduce((most, column) => Math.max(most, column.reduce((x, y) => Math.max(x, y))), -1e9), low = top - RANGE_DB;
    const heat = (all) => (x, k) => (all[x][k] - low) / RANGE_DB;
    const difference = (x, k) => 0.5 + (Math.max(b[x][k], low) - Math.max(a[x][k], low)) / (2 * DIFFERENCE_DB);
    const images = [panel(columns, heat(a), HEAT), panel(columns, heat(b), HEAT), panel(columns, difference, COLD_HOT)];
    const titles = ["A: fp32", `B: ${levelMenu.value}`, `B less A, −${DIFFERENCE_DB} dB (blue) to +${DIFFERENCE_DB} dB (red)`];
    picture = document.createElement("canvas");
    picture.width = canvas.width; picture.height = canvas.height;
    const draw = picture.getContext("2d"), each = picture.height / 3;
    draw.font = `${12 * dots}px system-ui, sans-serif`;
    images.forEach((image, i) => {
      draw.drawImage(image, 0, Math.round(i * each), picture.width, Math.round(each - 2 * dots));
      label(draw, titles[i], 0, Math.round(i * each), dots);
      for (const [text, y] of [[`${RATE / 2000} kHz`, 0], ["0 kHz", each - 38 * dots]])
        label(draw, text, picture.width - draw.measureText(text).width - 12 * dots, Math.round(i * each + y), dots);
    });
    const seconds = pair.a.length / RATE; // the axis of time, along the bottom
    for (let second = 1; second < seconds; second++) {
      const x = (second / seconds) * picture.width;
      label(draw, `${second} s`, x, picture.height - 18 * dots, dots);
      draw.fillRect(x, picture.height - 18 * dots, dots, 18 * dots);
    }
    show();
  }

  function now() {
    if (!playing) return position;
    return (context.currentTime - playing.started) % (pair.a.length / RATE);
  }

  function show() {
    if (!picture) return;
    const draw = canvas.getContext("2d");
    draw.drawImage(picture, 0, 0);
    const x = (now() / (pair.a.length / RATE)) * canvas.width;
    draw.fillStyle = "#000"; draw.fillRect(x - 2, 0, 6, canvas.height); // seen on the light difference too
    draw.fillStyle = "#fff"; draw.fillRect(x, 0, 2, canvas.height);
    const tenths = Math.round(10 * Math.max(0, now())) / 10;
    if (!playing || Math.floor(tenths) !== Math.floor(canvas.ariaValueNow)) { // not at every frame: a screen reader says it
      canvas.ariaValueMax = (pair.a.length / RATE).toFixed(1); canvas.ariaValueNow = tenths; canvas.ariaValueText = `${tenths} s`;
    }
    if (playing) requestAnimationFrame(show);
  }

  function heard() {
    sides.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.side === side)));
    if (playing) ["A", "B"].forEach((name) => playing.gains[name].gain.setTargetAtTime(name === side ? 1 : 0, context.currentTime, 0.002));
  }

  function start() {
    context = context || new AudioContext({ sampleRate: RATE });
    context.resume();
    const gains = {}, sources = [], begin = context.currentTime + 0.03;
    for (const [name, samples] of [["A", pair.a], ["B", pair.b]]) {
      const buffer = context.createBuffer(1, samples.length, RATE), source = context.createBufferSource(), gain = context.createGain();
      buffer.copyToChannel(Float32Array.from(samples), 0);
      source.buffer = buffer; source.loop = true;
      gain.gain.value = name === side ? 1 : 0;
      source.connect(gain).connect(context.destination);
      source.start(begin, position);
      gains[name] = gain; sources.push(source);
    }
    playing = { gains, sources, started: begin - position };
    playButton.textContent = "Stop"; // its name tells the state
    show();
  }

  function stop() {
    if (!playing) return;
    position = Math.max(0, now());
    playing.sources.forEach((source) => source.stop());
    playing = null;
    playButton.textContent = "Play";
  }

  function figures(clip, level) {
    const own = clip.figures[level] || {}, table = document.createElement("table"), body = table.createTBody();
    const head = table.createTHead().insertRow();
    for (const name of ["this sentence", level, "another seed"]) { const cell = document.createElement("th"); cell.scope = "col"; cell.textContent = name; head.append(cell); }
    table.createCaption().textContent = "Figures of this sentence.";
    const told = (value, digits) => (value === undefined ? "–" : (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits));
    for (const metric of data.metrics) {
      if (own[metric.name] === undefined && clip.seed[metric.name] === undefined) continue;
      const row = body.insertRow();
      const name = document.createElement("th");
      name.scope = "row"; name.textContent = `${metric.title}, ${metric.unit}`; row.append(name);
      row.insertCell().textContent = told(own[metric.name], metric.digits);
      row.insertCell().textContent = told(clip.seed[metric.name], metric.digits);
    }
    $("figures").replaceChildren(table);
  }

  async function choose() {
    const turn = ++asked, clip = data.clips[clipMenu.value], level = levelMenu.value, was = playing !== null;
    const a = await signal(clip, REFERENCE), b = await signal(clip, level);
    if (turn !== asked) return;
    stop();
    const same = pair && pair.clip === clip;
    if (!same) position = 0;
    pair = { clip, a, b };
    sides[1].textContent = `B: ${level}`;
    $("said").textContent = `${clip.voice}: “${clip.text}”`;
    figures(clip, level);
    if (was) start(); // before the picture, which takes a tenth of a second
    paint();
    document.documentElement.dataset.ready = "true";
  }

  clipMenu.addEventListener("change", choose);
  levelMenu.addEventListener("change", choose);
  playButton.addEventListener("click", () => (playing ? stop() : pair && start()));
  sides.forEach((button) => button.addEventListener("click", () => { side = button.dataset.side; heard(); }));
  function seek(seconds) {
    const was = playing !== null, length = pair.a.length / RATE;
    stop();
    position = Math.min(length - 0.1, Math.max(0, seconds));
    if (was) start(); else show();
  }
  canvas.addEventListener("click", (event) => { if (pair) seek((event.offsetX / canvas.clientWidth) * (pair.a.length / RATE)); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -0.5, ArrowDown: -0.5, ArrowRight: 0.5, ArrowUp: 0.5, Home: -Infinity, End: Infinity }[event.key];
    if (!pair || step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    seek(Math.max(0, now()) + step);
  });
  // A click leaves the focus on what was clicked, where the next key would press or open it again: after a pointer, keys are the player's.
  let pointed = false;
  document.addEventListener("pointerdown", () => { pointed = true; }, true);
  document.addEventListener("keydown", () => { pointed = false; }, true);
  for (const type of ["click", "change"])
    document.addEventListener(type, (event) => { if (pointed && (type === "change" || event.target.tagName !== "SELECT")) event.target.blur(); });
  document.addEventListener("keydown", (event) => {
    const own = event.key === " " ? ["SELECT", "BUTTON", "SUMMARY"] : ["SELECT"]; // space presses the button that the keyboard chose
    if (own.includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (key === " " && pair) { event.preventDefault(); if (playing) stop(); else start(); }
    if (key === "a" || key === "b") { side = key.toUpperCase(); heard(); }
  });
  let wide = 0;
  new ResizeObserver(() => { if (canvas.clientWidth !== wide) { wide = canvas.clientWidth; paint(); } }).observe(canvas);
  choose();
})();
