// A canvas as sharp as the screen, and round numbers for its axes.

export function prepared(canvas, height) {
  const width = Math.max(1, canvas.parentElement.clientWidth);
  const scale = window.devicePixelRatio || 1;
  const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  return { context, width, height };
}

// About so many round numbers between two others.
export function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high * (1 + 1e-9); at += 1) {
    found.push(Number((at * step).toPrecision(12)));
  }
  return found;
}

// A text cut to a width; canvases have no ellipsis of their own.
export function clipped(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text.slice(0, 80);
  while (kept && context.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}

// Draws at most once a frame, however often it is asked to.
export function framed(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}

export function whenResized(node, redraw) {
  new ResizeObserver(redraw).observe(node);
}
