// The theme that the system asks for, and its colours of maps.
import { colourTable } from "./ramp";

class Theme {
  isDark = $state(false);
  readonly table = $derived(colourTable(this.isDark));
  readonly signedTable = $derived(colourTable(this.isDark, true));

  constructor() {
    const query = matchMedia("(prefers-color-scheme: dark)");
    this.isDark = query.matches;
    query.addEventListener("change", (event) => (this.isDark = event.matches));
  }
}

export const theme = new Theme();
