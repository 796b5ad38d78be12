// The map and the cell that are looked at; every part reads the selection and may change it.
import { KINDS, mapsOf, type AttentionMap, type Head, type Kind, type Measure, type Rows, type Trace } from "./trace";
import { defaultChoice, hasMeasure, largestOf, viewMap, type Choice } from "./view";

export class Selection {
  kind = $state<Kind>("cross");
  layer = $state(0);
  head = $state<Head>("mean");
  rows = $state<Rows>("written");
  measure = $state<Measure>("attention");
  byWord = $state(false);
  hideSinks = $state(false);
  row = $state(0);
  column = $state(0);
  /** A cell was chosen on purpose: the pointer that passes over others does not change it. */
  isFixed = $state(false);
  /** The value that has the strongest colour; null: the largest of each map. */
  scale = $state<number | null>(null);
  trace = $state.raw<Trace>() as Trace;

  readonly choice: Choice = $derived({
    kind: this.kind,
    layer: this.layer,
    head: this.head,
    rows: this.rows,
    measure: this.measure,
    byWord: this.byWord && this.kind === "cross",
    hideSinks: this.hideSinks,
  });
  readonly map: AttentionMap = $derived(mapsOf(this.trace, this.kind)[this.layer]!);
  readonly view = $derived(viewMap(this.trace, this.choice));

  /** Show a trace; without a cell, the cursor begins at the largest value. */
  constructor(trace: Trace, choice: Partial<Choice> = {}, cell: [number, number] | null = null) {
    this.open(trace, choice);
    if (cell) this.moveTo(...cell);
    else this.moveToLargest();
  }

  /** Show another trace; keep what was chosen as far as the trace has it. */
  open(trace: Trace, choice: Partial<Choice> = this.choice): void {
    this.trace = trace;
    const fallback = defaultChoice(trace);
    const wanted = { ...fallback, ...choice };
    const kind = mapsOf(trace, wanted.kind).length ? wanted.kind : fallback.kind;
    const layers = mapsOf(trace, kind);
    this.kind = kind;
    this.layer = Math.min(wanted.layer, layers.length - 1);
    this.head = wanted.head === "mean" || wanted.head < layers[this.layer]!.heads ? wanted.head : "mean";
    this.rows = wanted.rows;
    this.measure = hasMeasure(trace, wanted.measure) ? wanted.measure : "attention";
    this.byWord = wanted.byWord;
    this.hideSinks = wanted.hideSinks;
    this.moveTo(this.row, this.column);
  }

  choose(kind: Kind, layer: number, head: Head): void {
    Object.assign(this, { kind, layer, head });
    this.moveTo(this.row, this.column);
  }

  /** Choose another layer; from the last layer of a kind on to the next kind. */
  moveLayer(by: number): void {
    const all = KINDS.flatMap((kind) => mapsOf(this.trace, kind));
    const next = all[(all.indexOf(this.map) + by + all.length) % all.length]!;
    this.choose(next.kind, next.layer, this.head === "mean" || this.head < next.heads ? this.head : 0);
  }

  moveHead(by: number): void {
    const places: Head[] = ["mean", ...Array(this.map.heads).keys()];
    this.head = places[(places.indexOf(this.head) + by + places.length) % places.length]!;
  }

  moveTo(row: number, column: number): void {
    const { rows, columns } = this.view;
    this.row = Math.max(0, Math.min(rows.length - 1, row));
    this.column = Math.max(0, Math.min(columns.length - 1, column));
  }

  /** Choose a cell on purpose. */
  fix(row: number, column: number): void {
    this.moveTo(row, column);
    this.isFixed = true;
  }

  /** Show a cell that the pointer passes over, unless one was chosen. */
  preview(row: number, column: number): void {
    if (!this.isFixed) this.moveTo(row, column);
  }

  moveToLargest(): void {
    const { values, columns } = this.view;
    const at = values.indexOf(largestOf(values));
    this.moveTo(Math.floor(at / columns.length), at % columns.length);
  }

  /** Show tokens as they are written, marks too; words and hidden marks have no key, so the cursor moves to the largest. */
  showTokens(): void {
    const row = this.view.steps[this.row] ?? 0;
    const hasKeys = !this.byWord && !this.hideSinks;
    this.rows = "written";
    this.byWord = this.hideSinks = false;
    if (hasKeys) return;
    const { values, columns } = this.view;
    const weights = values.subarray(row * columns.length, (row + 1) * columns.length);
    this.moveTo(row, weights.indexOf(largestOf(weights)));
  }

  toggleRows(): void {
    if (this.kind !== "encoder") this.rows = this.rows === "written" ? "read" : "written";
    this.moveTo(this.row, this.column);
  }

  toggleMeasure(): void {
    if (hasMeasure(this.trace, "norm")) this.measure = this.measure === "attention" ? "norm" : "attention";
  }
}
