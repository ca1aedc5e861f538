/** A rectangle with a title and lines below it. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly title: string;
  readonly lines?: readonly string[];
  /** A class of `style`: `accent` or `faint`. */
  readonly look?: 'accent' | 'faint' | undefined;
}

export interface Arrow {
  /** Path data of SVG, such as `M0,0 L10,0`. */
  readonly path: string;
  readonly label?: string;
  /** The middle of the label. */
  readonly at?: readonly [number, number] | undefined;
  readonly isDashed?: boolean;
}

const LINE = 16;

/** The colors follow the mode of the reader; the background is part of the picture, so that it fits them in both. */
const style = `
    svg { color-scheme: light dark; --back: #ffffff; --ink: #1f2328; --soft: #59636e; --box: #f3f5f8; --edge: #8c959f; --accent: #ddf4e4; --mark: #1a7f37 }
    @media (prefers-color-scheme: dark) {
      svg { --back: #0d1117; --ink: #e6edf3; --soft: #9198a1; --box: #1b2129; --edge: #6e7681; --accent: #12311c; --mark: #3fb950 }
    }
    text { font: 13px system-ui, sans-serif; fill: var(--ink); text-anchor: middle }
    .title { font-weight: 600 }
    .line, .label { font-size: 12px; fill: var(--soft) }
    .label { paint-order: stroke; stroke: var(--back); stroke-width: 5px }
    rect { fill: var(--box); stroke: var(--edge) }
    .back { fill: var(--back); stroke: none }
    .accent { fill: var(--accent); stroke: var(--mark) }
    .faint { fill: none; stroke-dasharray: 5 4 }
    path { fill: none; stroke: var(--edge); stroke-width: 1.5 }
    .dashed { stroke-dasharray: 5 4 }
    marker path { fill: var(--edge); stroke: none }
  `;

/** Returns a picture with `title` as its text for screen readers. Boxes cover the ends of arrows. */
export function picture(
  size: readonly [number, number],
  title: string,
  { boxes, arrows }: { readonly boxes: readonly Box[]; readonly arrows: readonly Arrow[] },
): string {
  const [width, height] = size;
  const faint = boxes.filter(({ look }) => look === 'faint');
  const solid = boxes.filter(({ look }) => look !== 'faint');
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
  <title>${escaped(title)}</title>
  <style>${style}</style>
  <defs>
    <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z"/></marker>
  </defs>
  <rect class="back" width="${width}" height="${height}"/>
${[...faint.map(drawBox), ...arrows.map(drawArrow), ...solid.map(drawBox), ...arrows.map(drawLabel)].join('')}</svg>
`;
}

function drawBox({ x, y, width, height, title, lines = [], look }: Box): string {
  const middle = x + width / 2;
  const top = look === 'faint' ? y + LINE + 2 : y + height / 2 + 5 - (lines.length * LINE) / 2;
  const rest = lines.map((line, index) => text('line', middle, top + (index + 1) * LINE, line));
  const shape = `<rect${look === undefined ? '' : ` class="${look}"`} x="${x}" y="${y}" width="${width}" height="${height}" rx="6"/>`;
  return `  ${shape}\n${[text('title', middle, top, title), ...rest].join('')}`;
}

function drawArrow({ path, isDashed = false }: Arrow): string {
  return `  <path${isDashed ? ' class="dashed"' : ''} d="${path}" marker-end="url(#tip)"/>\n`;
}

function drawLabel({ label, at }: Arrow): string {
  return label === undefined || at === undefined ? '' : text('label', at[0], at[1], label);
}

function text(look: string, x: number, y: number, words: string): string {
  return words === '' ? '' : `  <text class="${look}" x="${x}" y="${y}">${escaped(words)}</text>\n`;
}

function escaped(words: string): string {
  return words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
