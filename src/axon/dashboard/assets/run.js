// One run as the page knows it: answers of the server put together.

export class Run {
  constructor(id) {
    this.id = id;
    this.since = 0;
    this.clear();
  }

  clear() {
    this.summary = null;
    this.learning = { cycle: [], ended: [], accuracy: [], loss: [] };
    this.timing = { cycle: [], ended: [], duration: [], deadline: [], late: [], missing: [], other: [] };
    this.devices = new Map();
    this.failures = new Map();
    this.otherFailures = 0;
    this.log = [];
    this.settings = {};
    this.versions = {};
  }

  // Takes in what is new, and gives the devices whose state has become another.
  take(answer) {
    if (answer.whole) this.clear();
    this.since = answer.sequence;
    this.summary = answer.summary;
    for (const name of ["learning", "timing"]) {
      for (const [column, values] of Object.entries(answer[name])) {
        this[name][column] = answer.whole_curves ? values : this[name][column].concat(values);
      }
    }
    const turned = [];
    for (const device of answer.devices) {
      const before = this.devices.get(device.id);
      if (before && device.wrong && !before.wrong) turned.push(device);
      this.devices.set(device.id, device);
    }
    for (const failure of answer.failures) this.failures.set(failure.key, failure);
    this.otherFailures = answer.other_failures;
    this.log = this.log.concat(answer.log).slice(-1000);
    if (answer.settings) this.settings = answer.settings;
    if (answer.versions) this.versions = answer.versions;
    return turned;
  }

  // A curve as points, without what is not known.
  points(name, column, across) {
    const table = this[name];
    const xs = table[across === "cycle" ? "cycle" : "ended"];
    const found = [];
    table[column].forEach((value, at) => {
      if (value !== null && xs[at] !== null) found.push([xs[at], value]);
    });
    return found;
  }
}
