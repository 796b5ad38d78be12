// The colours of maps: a table of 256 colours for each theme, so that a cell is one look-up.
import { largestOf } from "./view";

const LIGHT = [[247, 250, 253], [203, 222, 238], [117, 174, 212], [34, 110, 176], [8, 44, 98]] as const;
const DARK = [[27, 32, 41], [28, 62, 102], [42, 112, 172], [124, 184, 228], [238, 247, 255]] as const;

// Below zero purple, above zero orange: distinct from the blue of weights, and for the colour-blind.
const LIGHT_SIGNED = [[63, 20, 110], [139, 116, 184], [247, 247, 247], [232, 146, 48], [125, 58, 5]] as const;
const DARK_SIGNED = [[214, 198, 255], [118, 92, 184], [27, 32, 41], [176, 96, 16], [255, 205, 138]] as const;

export function colourTable(isDark: boolean, isSigned = false): Uint32Array {
  const stops = isSigned ? (isDark ? DARK_SIGNED : LIGHT_SIGNED) : isDark ? DARK : LIGHT;
  return Uint32Array.from({ length: 256 }, (_, i) => {
    const at = (i / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(at));
    const [r, g, b] = [0, 1, 2].map((c) => Math.round(stops[low]![c]! + (at - low) * (stops[low + 1]![c]! - stops[low]![c]!))) as [number, number, number];
    return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  });
}

/** Paint a matrix with one pixel per cell, from `lowest` to `largest`; CSS enlarges the canvas without smoothing. */
export function paint(canvas: HTMLCanvasElement, values: Float32Array, columns: number, table: Uint32Array, largest = largestOf(values), lowest = 0): void {
  const rows = columns ? values.length / columns : 0;
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  const context = canvas.getContext("2d");
  if (!context || !values.length) return;
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const unit = largest > lowest ? 255 / (largest - lowest) : 0;
  for (let i = 0; i < values.length; i++) pixels[i] = table[Math.min(255, Math.round((values[i]! - lowest) * unit))]!;
  context.putImageData(image, 0, 0);
}
