// What a person has chosen, kept behind the # of the address beside the section, so that it is the
// same after a reload. Runs go by their labels: next time they may have other numbers.

export function readChoices() {
  const [section, ...parts] = location.hash.slice(1).split("&");
  const words = new URLSearchParams(parts.join("&"));
  return {
    section, run: words.get("run"), on: new Set(words.getAll("on")), off: new Set(words.getAll("off")),
  };
}

export function keepChoices({ run, on, off }) {
  const words = new URLSearchParams();
  if (run !== null) words.append("run", run);
  for (const label of on) words.append("on", label);
  for (const label of off) words.append("off", label);
  const { section } = readChoices();
  const told = words.toString();
  const kept = `#${section}${told ? `&${told}` : ""}`;
  if (kept !== (location.hash || "#")) history.replaceState(null, "", kept);
}
