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

  /** Writes changes to the file; null takes a setting out, so that its default holds. */
  save(changes: Record<string, Value>): Promise<void> {
    const listed = post<Listed>('/app/settings', { changes }).catch((err) => {
      throw err instanceof Error ? Object.assign(err, { message: inWords(err.message) }) : err;
    });
    return this.take(listed);
  }

  /** Takes an answer, unless that to a later question has come or is on its way. */
  private async take(answer: Promise<Listed>) {
    const turn = ++this.asked;
    const listed = await answer;
    if (turn !== this.asked) return;
    this.fields = listed.fields;
    this.path = listed.path;
  }
}

export const settings = new Settings();

/** What was typed into the field of a setting, as a value; nothing stands for the default. */
export function typed({ kind }: Field, text: string): Value {
  const trimmed = text.trim();
  if (kind === 'list') {
    const list = trimmed.split('\n').map((s) => s.trim()).filter(Boolean);
    return list.length > 0 ? list : null;
  }
  if (trimmed === '') return null;
  return (kind === 'int' || kind === 'float') && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

/** What there is to know of a setting, in the words of this page: the text is that of the command line. */
export function explained(field: Field, fields: Field[]): string {
  return field.help
    .replace(' May be given several times.', '')
    .replace('Unset: ', 'Automatic: ')
    .replace(/--([a-z][a-z-]*)/g, (written, flag) => {
      const other = fields.find((f) => f.flag === flag);
      return other ? `“${label(other.name)}”` : written;
    });
}

/** What the server says of settings, in the words of this page. */
export function inWords(text: string): string {
  return text.replace(/^(?:engine|sampling|server|library|app)\.[a-z_]+/gm, (name) => label(name)).replace(': bad value:', ':');
}

/** The words for a setting, out of its key. */
export function label(name: string): string {
  const known: Record<string, string> = {
    'engine.ctx_size': 'Context length',
    'engine.kv_cells': 'Tokens of all chats together',
    'engine.parallel': 'Conversations at the same time',
    'engine.mmap': 'Map the model file',
    'engine.mlock': 'Lock the weights in memory',
    'engine.repack': 'Lay weights out for the CPU',
    'engine.gpu_layers': 'Layers on the GPU',
    'engine.batch_size': 'Batch size',
    'engine.ubatch_size': 'Rows of one step',
    'engine.lora': 'LoRA adapters',
    'engine.kv_policy': 'Boundary V and other layer policies',
    'engine.boundary_by': 'What a layer policy counts',
    'engine.auto_asymmetric': 'Raise keys where they are shared',
    'engine.swa_bypass': 'Leave sliding windows at f16',
    'engine.kv_strict': 'Refuse other types than asked',
    'engine.sparse_v': 'Sparse V',
    'engine.exact_window': 'Newest tokens kept exact',
    'engine.exact_sinks': 'First tokens kept exact',
    'engine.kv_auto': 'Bits shared out over the layers',
    'engine.kv_calibrate': 'Measure keys before their first use',
    'engine.innerq': 'Even out the channels of keys',
    'engine.attn_math': 'Arithmetic of attention',
    'engine.context_shift': 'Drop the middle of a full chat',
    'sampling.top_k': 'Top K',
    'sampling.top_p': 'Top P',
    'sampling.min_p': 'Min P',
    'sampling.predict': 'Longest answer',
    'server.api_key': 'API keys',
    'server.allowed_host': 'Allowed host names',
    'server.allowed_origin': 'Allowed origins',
    'server.keep_alive': 'Keep an idle model loaded for',
    'server.slot_save_path': 'Folder of saved conversations',
    'server.state_budget': 'Disk for saved states of chats',
    'server.chat_template_kwargs': 'Variables of the chat template',
    'server.reasoning': 'Thinking before the answer',
    'server.request_log': 'Log requests',
    'library.hub_url': 'Model hub',
    'library.folders': 'Folders with models',
    'app.log_level': 'Log level',
  };
  const key = name.slice(name.indexOf('.') + 1).replaceAll('_', ' ');
  if (name.startsWith('engine.') && key.endsWith(' temperature')) return 'Attention temperature';
  return known[name] ?? key.charAt(0).toUpperCase() + key.slice(1);
}
