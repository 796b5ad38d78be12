import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The modules and their style sheets have stable names, as they are committed. studio.js imports parts.js. The page of
// the service is built by itself (--mode service): it is small, and its elements are made without innerHTML.
export default defineConfig(({ mode }) => {
  const isService = mode === "service";
  return {
    plugins: [svelte({ compilerOptions: { css: "external", fragments: isService ? "tree" : "html" } })],
    build: {
      outDir: "../src/dragoman/studio/static",
      emptyOutDir: !isService,
      copyPublicDir: !isService,
      target: "es2022",
      modulePreload: false,
      rolldownOptions: {
        input: isService ? { service: "src/service.ts" } : { parts: "src/parts.ts", studio: "src/studio.ts" },
        preserveEntrySignatures: "allow-extension",
        output: { entryFileNames: "[name].js", chunkFileNames: "[name].js", assetFileNames: "[name][extname]" },
      },
    },
    test: { environment: "node", include: ["test/**/*.test.ts"] },
  };
});
