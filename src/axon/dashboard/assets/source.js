// Where the facts come from: the server that serves this page, or the page itself.

async function ask(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer.json();
}

class Served {
  constructor() {
    this.live = true;
    this.note = "";
  }

  runs() {
    return ask("api/runs");
  }

  // How many cycles of a run its timeline has.
  total(run) {
    return run.summary.cycles;
  }

  run(id, since) {
    return ask(`api/run?run=${id}&since=${since}`);
  }

  timeline(id, first, count, devices) {
    return ask(`api/timeline?run=${id}&first=${first}&count=${count}&devices=${devices.join(",")}`);
  }

  // Calls `news` with all runs whenever something has changed, `state` when the line breaks.
  follow(news, state) {
    const stream = new EventSource("api/events");
    stream.onmessage = (event) => news(JSON.parse(event.data));
    stream.onopen = () => state(true);
    stream.onerror = () => {
      state(false);
      // One that was refused is not tried again by itself.
      if (stream.readyState === EventSource.CLOSED) {
        setTimeout(() => this.follow(news, state), 3000);
      }
    };
  }

  async cancel(task, token) {
    const answer = await fetch("api/cancel", {
      method: "POST",
      headers: { "content-type": "application/json", "x-axon-token": token },
      body: JSON.stringify({ task }),
    });
    if (!answer.ok) throw new Error(await answer.text());
  }
}

class Embedded {
  constructor(data) {
    this.data = data;
    this.live = false;
    this.note = data.note;
  }

  async runs() {
    return this.data.runs;
  }

  async run(id) {
    return this.data.run[id];
  }

  total(run) {
    return this.data.timeline[run.id].cycles.length;
  }

  async timeline(id, first, count, devices) {
    const all = this.data.timeline[id];
    const wanted = new Set(devices);
    const cycles = all.cycles.slice(first, first + count).map((cycle) => ({
      ...cycle,
      cells: cycle.cells && cycle.cells.filter((cell) => wanted.has(cell[0])),
    }));
    return { id, first, cycles, reasons: all.reasons };
  }

  follow() {}
}

export function openSource() {
  const embedded = document.getElementById("axon-data");
  return embedded ? new Embedded(JSON.parse(embedded.textContent)) : new Served();
}
