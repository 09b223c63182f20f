/** Returns the two-letter mark and the hue that stand for an architecture's family. */
export function family(arch: string): { mark: string; hue: number } {
  const name = arch.replace(/[^a-z]/gi, '') || '?';
  let hue = 0;
  for (const c of name.slice(0, 4)) hue = (hue * 31 + c.charCodeAt(0)) % 360; // gemma and gemma3 share a hue
  return { mark: name.charAt(0).toUpperCase() + name.slice(1, 2), hue };
}

interface Sized {
  quant: string;
  size: number;
  fit: string;
}

/** Weight types, best choice first. The first one with a file that fits is recommended. */
const order = ['Q4_K_M', 'Q5_K_M', 'Q4_K_S', 'IQ4_XS', 'MXFP4', 'Q6_K', 'Q8_0', 'Q4_0', 'Q4_1', 'Q3_K_M'];

/** Returns the recommended file of a repository, or undefined if none fits. */
export function recommended<F extends Sized>(files: F[]): F | undefined {
  const rank = (f: F) => (order.includes(f.quant) ? order.indexOf(f.quant) : order.length);
  return files.filter((f) => f.fit === 'fits').sort((a, b) => rank(a) - rank(b) || b.size - a.size)[0];
}
