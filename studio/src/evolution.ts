// The viewer of a run's attention over time, in the self-contained file of dragoman evolve --html.
import { mount } from "svelte";
import "./parts.css";
import { fromBase64 } from "./lib/base64";
import type { Evolution } from "./lib/evolution";
import { openTrace } from "./lib/trace";
import type { Choice } from "./lib/view";
import EvolutionViewer from "./parts/EvolutionViewer.svelte";

/** What dragoman/inspection/evolution_file.py writes: for some sentences, the trace files of all snapshots in base64. */
interface EvolutionFile {
  evolution: Evolution;
  choice: Partial<Choice>;
  traces: { sentence: number; files: string[] }[];
}

const { evolution, choice, traces } = JSON.parse(document.getElementById("dragoman-evolution")!.textContent) as EvolutionFile;
const load = async (at: number, sentence: number) => openTrace(fromBase64(traces.find((one) => one.sentence === sentence)!.files[at]!));
mount(EvolutionViewer, { target: document.querySelector("main")!, props: { evolution, choice, load, sentences: traces.map(({ sentence }) => sentence) } });
