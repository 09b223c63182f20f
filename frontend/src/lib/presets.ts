import * as msg from '../paraglide/messages.js';

const names: Record<string, string> = { off: msg.model_settings_uncompressed(), quality: msg.preset_card_quality(), balanced: msg.balanced(), small: msg.small() };

/** The KV presets, as options of a list. */
export const kvPresets = Object.entries(names).map(([value, label]) => ({ value, label }));

/** Names a KV preset. An unknown one keeps its key. */
export const kvPresetName = (key: string): string => names[key] ?? key;
