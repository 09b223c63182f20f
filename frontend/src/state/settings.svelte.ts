import { get, post } from '../lib/api';
import type { Field, Value } from '../lib/types';

interface Listed {
  fields: Field[];
  path: string;
}

class Settings {
  fields = $state<Field[]>([]);
  path = $state('');

  find(name: string): Field | undefined {
    return this.fields.find((f) => f.name === name);
  }

  value(name: string): Value {
    return this.find(name)?.value ?? null;
  }

  private asked = 0;

  refresh(): Promise<void> {
    return this.take(get<Listed>('/app/settings'));
  }

  /** Saves changes to the file. null removes a setting, so that its default applies. */
  save(changes: Record<string, Value>): Promise<void> {
    const listed = post<Listed>('/app/settings', { changes }).catch((err) => {
      throw err instanceof Error ? Object.assign(err, { message: inWords(err.message) }) : err;
    });
    return this.take(listed);
  }

  /** Uses a response, unless there was a later request. */
  private async take(answer: Promise<Listed>) {
    const turn = ++this.asked;
    const listed = await answer;
    if (turn !== this.asked) return;
    this.fields = listed.fields;
    this.path = listed.path;
  }
}

export const settings = new Settings();

/** Converts typed text to a setting's value. Empty text means the default. */
export function typed({ kind }: Field, text: string): Value {
  const trimmed = text.trim();
  if (kind === 'list') {
    const list = trimmed.split('\n').map((s) => s.trim()).filter(Boolean);
    return list.length > 0 ? list : null;
  }
  if (trimmed === '') return null;
  return (kind === 'int' || kind === 'float') && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

/** Replaces setting names in the server's text by this page's labels. */
export function inWords(text: string): string {
  return text.replace(/^(?:engine|sampling|server|library|app)\.[a-z_]+/gm, (name) => label(name)).replace(': bad value:', ':');
}

/** Makes a label from a setting's key. */
export function label(name: string): string {
  const known: Record<string, string> = {
    'engine.ctx_size': 'Context length',
    'engine.kv_cells': 'Total tokens, all chats',
    'engine.parallel': 'Parallel chats',
    'engine.mmap': 'Load from disk (mmap)',
    'engine.mlock': 'Lock model in memory',
    'engine.repack': 'Repack weights for the CPU',
    'engine.gpu_layers': 'GPU layers',
    'engine.batch_size': 'Batch size',
    'engine.ubatch_size': 'Micro-batch size',
    'engine.max_step': 'Longest pause while others type',
    'engine.lora': 'LoRA adapters',
    'engine.kv_policy': 'Layer policy (Boundary V)',
    'engine.boundary_by': 'Layer policy counts',
    'engine.auto_asymmetric': 'Protect shared keys',
    'engine.swa_bypass': 'Keep sliding-window layers at f16',
    'engine.kv_strict': 'Require exact types',
    'engine.sparse_v': 'Sparse V',
    'engine.exact_window': 'Uncompressed recent tokens',
    'engine.exact_sinks': 'Uncompressed first tokens',
    'engine.kv_auto': 'Automatic bits per layer',
    'engine.kv_calibrate': 'Calibrate keys',
    'engine.innerq': 'Equalise key channels',
    'engine.attn_math': 'Attention precision',
    'engine.context_shift': 'Context shift',
    'sampling.top_k': 'Top K',
    'sampling.top_p': 'Top P',
    'sampling.min_p': 'Min P',
    'sampling.predict': 'Maximum response',
    'server.api_key': 'API keys',
    'server.allowed_host': 'Allowed host names',
    'server.allowed_origin': 'Allowed origins',
    'server.keep_alive': 'Unload idle models after',
    'server.slot_save_path': 'Folder for saved chat states',
    'server.state_budget': 'Disk limit for chat states',
    'server.chat_template_kwargs': 'Template variables (JSON)',
    'server.reasoning': 'Reasoning',
    'server.request_log': 'Log requests',
    'library.hub_url': 'Model hub',
    'library.hub_token': 'Hub access token',
    'library.folders': 'Model folders',
    'app.log_level': 'Log level',
  };
  const key = name.slice(name.indexOf('.') + 1).replaceAll('_', ' ');
  if (name.startsWith('engine.') && key.endsWith(' temperature')) return 'Attention temperature';
  return known[name] ?? key.charAt(0).toUpperCase() + key.slice(1);
}
