import * as msg from '../paraglide/messages.js';

/** Parameters that are always shown; the others are under More. */
export const mainParameters = ['temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty', 'seed'];

const names: Record<string, string> = { top_p: msg.top_p(), top_k: msg.top_k(), min_p: msg.min_p(), typical_p: msg.chat_panel_typical_p() };

/** The name of a sampling parameter, at the start of a line or within one. */
export function parameterName(name: string, within = false): string {
  const text = names[name] ?? name.replaceAll('_', ' ').replace(/\bdry\b/, 'DRY').replace(/\bxtc\b/, 'XTC');
  if (within && text.charAt(1) !== text.charAt(1).toUpperCase()) return text.charAt(0).toLowerCase() + text.slice(1);
  return text.charAt(0).toUpperCase() + text.slice(1);
}
