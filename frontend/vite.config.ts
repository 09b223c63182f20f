import { rmSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import type { Plugin } from 'vite';

// Every browser that runs the page reads woff2; the other two forms of each font
// of KaTeX would triple what is embedded into the binary.
function woff2Only(): Plugin {
  return {
    name: 'woff2-only',
    enforce: 'pre',
    transform(code, id) {
      if (!id.includes('katex') || !/\.css($|\?)/.test(id)) return null;
      return { code: code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\([^)]*\)/g, ''), map: null };
    },
  };
}

// The binary embeds the whole folder, so the parts of earlier builds have to go.
// .gitkeep stays: it lets Go embed the folder before the first build.
function freshAssets(): Plugin {
  return { name: 'fresh-assets', apply: 'build', buildStart: () => rmSync('dist/assets', { recursive: true, force: true }) };
}

export default defineConfig({
  base: './',
  plugins: [freshAssets(), woff2Only(), svelte()],
  build: {
    target: 'es2022',
    emptyOutDir: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  test: { environment: 'jsdom', include: ['src/**/*.test.ts'], restoreMocks: true, testTimeout: 60_000 },
});
