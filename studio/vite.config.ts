import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Two modules with their style sheets under stable names, which are committed. studio.js imports parts.js.
export default defineConfig({
  plugins: [svelte({ compilerOptions: { css: "external" } })],
  build: {
    outDir: "../src/dragoman/studio/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    rolldownOptions: {
      input: { parts: "src/parts.ts", studio: "src/studio.ts" },
      preserveEntrySignatures: "allow-extension",
      output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
    },
  },
  test: { environment: "node", include: ["test/**/*.test.ts"] },
});
