import { rmSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';
import type { Plugin } from 'vite';

// Every browser that runs the page supports woff2. The other two formats of each
// KaTeX font would triple their size in the binary.
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

// The binary embeds the whole folder, so files of earlier builds must be
// removed. .gitkeep stays, because Go can then embed the folder before the first
// build.
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
