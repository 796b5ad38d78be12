// Read a safetensors file: eight bytes of length, a JSON header, and the numbers.
export type Numbers = Uint8Array | Float32Array | Float64Array | Int32Array;
export interface Tensor {
  shape: number[];
  data: Numbers;
}
export interface SafetensorsFile {
  metadata: Record<string, string>;
  tensors: Map<string, Tensor>;
}
interface TensorHeader {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

const TYPES = { U8: Uint8Array, F32: Float32Array, F64: Float64Array, I32: Int32Array } as const;
const MAX_HEADER_BYTES = 10_000_000;

export function readSafetensors(buffer: ArrayBuffer): SafetensorsFile {
  if (buffer.byteLength < 8) throw new Error("the file is too short to be a trace");
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  if (length > MAX_HEADER_BYTES || length > buffer.byteLength - 8) throw new Error("this file is not a trace");
  const text = new TextDecoder().decode(new Uint8Array(buffer, 8, length));
  const { __metadata__: metadata, ...headers } = JSON.parse(text) as Record<string, TensorHeader> & {
    __metadata__?: unknown;
  };
  const tensors = new Map<string, Tensor>();
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(headers)) {
    // A copy, as a view would have to begin at a multiple of its element size.
    const bytes = buffer.slice(8 + length + data_offsets[0], 8 + length + data_offsets[1]);
    if (dtype === "F16") {
      tensors.set(name, { shape, data: decodeHalf(new Uint16Array(bytes)) });
      continue;
    }
    const Type = TYPES[dtype as keyof typeof TYPES];
    if (!Type) throw new Error(`${name} has the type ${dtype}, which this page cannot read`);
    tensors.set(name, { shape, data: new Type(bytes) });
  }
  return { metadata: (metadata ?? {}) as Record<string, string>, tensors };
}

/** Return the float16 numbers in `words` as float32. */
export function decodeHalf(words: Uint16Array): Float32Array {
  const numbers = new Float32Array(words.length);
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    const exponent = (word >> 10) & 31;
    const fraction = word & 1023;
    const size =
      exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (exponent - 15);
    numbers[i] = word & 0x8000 ? -size : size;
  }
  return numbers;
}
