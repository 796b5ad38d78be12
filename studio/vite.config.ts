import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The modules and their style sheets have stable names, as they are committed. studio.js imports parts.js. Four
// modules are built by themselves, and import nothing: the page of the service (--mode service), which is small, and
// whose elements are made without innerHTML; and for files the viewers of a run's attention over time (--mode
// evolution), of the arithmetic of a cell (--mode explain) and of ranked translations (--mode triage).
export default defineConfig(({ mode }) => {
  const isService = mode === "service";
  const isAlone = isService || mode === "evolution" || mode === "explain" || mode === "triage";
  return {
    // Short names of style scopes: with the usual ones a tenth of parts.css and parts.js are such names.
    plugins: [svelte({ compilerOptions: { css: "external", fragments: isService ? "tree" : "html", cssHash: ({ hash, filename }) => `s${hash(filename.replace(/^.*\/src\//, "")).slice(0, 3)}` } })],
    build: {
      outDir: "../src/dragoman/studio/static",
      emptyOutDir: !isAlone,
      copyPublicDir: !isAlone,
      target: "es2022",
      modulePreload: false,
      rolldownOptions: {
        input: isAlone ? { [mode]: `src/${mode}.ts` } : { parts: "src/parts.ts", studio: "src/studio.ts" },
        preserveEntrySignatures: "allow-extension",
        output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
      },
    },
    // The limit of time is for a machine on which other work runs.
    test: { environment: "node", include: ["test/**/*.test.ts"], testTimeout: 60_000 },
  };
});
