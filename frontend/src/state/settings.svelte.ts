import { get, post } from '../lib/api';
import type { Field, Value } from '../lib/types';
import * as msg from '../paraglide/messages.js';

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

/** Replaces setting names in the server's text with this page's labels. */
export function inWords(text: string): string {
  return text.replace(/^(?:engine|sampling|server|library|app)\.[a-z_]+/gm, (name) => label(name)).replace(': bad value:', ':');
}

/** Makes a label from a setting's key. */
export function label(name: string): string {
  const known: Record<string, string> = {
    'engine.ctx_size': msg.context_length(),
    'engine.kv_cells': msg.settings_total_tokens_all_chats(),
    'engine.parallel': msg.settings_parallel_chats(),
    'engine.mmap': msg.settings_load_from_disk_mmap(),
    'engine.mlock': msg.settings_lock_model_in_memory(),
    'engine.repack': msg.settings_repack_weights_for_the_cpu(),
    'engine.gpu_layers': msg.settings_gpu_layers(),
    'engine.batch_size': msg.settings_batch_size(),
    'engine.ubatch_size': msg.settings_micro_batch_size(),
    'engine.max_step': msg.settings_longest_pause_while_others_type(),
    'engine.draft': msg.settings_speculative_decoding(),
    'engine.cache_type_k_draft': msg.settings_draft_model_keys(),
    'engine.cache_type_v_draft': msg.settings_draft_model_values(),
    'engine.mmproj': msg.settings_image_projector(),
    'engine.image_min_tokens': msg.settings_minimum_tokens_per_image(),
    'engine.image_max_tokens': msg.settings_maximum_tokens_per_image(),
    'engine.lora': msg.settings_lo_ra_adapters(),
    'engine.kv_policy': msg.settings_layer_policy_boundary_v(),
    'engine.boundary_by': msg.settings_layer_policy_counts(),
    'engine.auto_asymmetric': msg.settings_protect_shared_keys(),
    'engine.swa_bypass': msg.settings_keep_sliding_window_layers_at_f16(),
    'engine.kv_strict': msg.settings_require_exact_types(),
    'engine.sparse_v': msg.settings_sparse_v(),
    'engine.kv_memory': msg.settings_memory_of_one_chat(),
    'engine.exact_window': msg.settings_uncompressed_recent_tokens(),
    'engine.exact_sinks': msg.settings_uncompressed_first_tokens(),
    'engine.kv_auto': msg.settings_automatic_bits_per_layer(),
    'engine.kv_calibrate': msg.settings_calibrate_keys(),
    'engine.innerq': msg.settings_equalise_key_channels(),
    'engine.attn_math': msg.settings_attention_precision(),
    'engine.context_shift': msg.settings_context_shift(),
    'engine.reuse_shifted': msg.settings_reuse_shifted(),
    'sampling.top_k': msg.top_k(),
    'sampling.top_p': msg.top_p(),
    'sampling.min_p': msg.min_p(),
    'sampling.predict': msg.maximum_response(),
    'server.unix_socket': msg.settings_unix_socket(),
    'server.tls_cert': msg.settings_tls_certificate(),
    'server.tls_key': msg.settings_tls_key(),
    'server.key_file': msg.settings_key_file(),
    'server.api_key': msg.settings_api_keys(),
    'server.allowed_host': msg.settings_allowed_host_names(),
    'server.allowed_origin': msg.settings_allowed_origins(),
    'server.keep_alive': msg.settings_unload_idle_models_after(),
    'server.memory': msg.settings_memory_limit(),
    'server.prefix_disk': msg.settings_stored_prompts_disk(),
    'server.prefix_memory': msg.settings_stored_prompts_memory(),
    'server.share_prefixes': msg.settings_stored_prompts_share(),
    'server.reasoning_budget': msg.settings_reasoning_limit(),
    'server.reasoning_budget_message': msg.settings_reasoning_limit_message(),
    'server.allow_image_urls': msg.settings_image_urls(),
    'server.slot_save_path': msg.settings_folder_for_saved_chat_states(),
    'server.state_budget': msg.settings_disk_limit_for_chat_states(),
    'server.chat_template_kwargs': msg.settings_template_variables_json(),
    'server.reasoning': msg.reasoning(),
    'server.request_log': msg.settings_log_requests(),
    'library.hub_url': msg.settings_model_hub(),
    'library.hub_token': msg.settings_hub_access_token(),
    'library.folders': msg.settings_model_folders(),
    'app.chat_titles': msg.settings_chat_titles(),
    'app.log_level': msg.settings_log_level(),
  };
  const key = name.slice(name.indexOf('.') + 1).replaceAll('_', ' ');
  if (name.startsWith('engine.') && key.endsWith(' temperature')) return msg.settings_attention_temperature();
  return known[name] ?? key.charAt(0).toUpperCase() + key.slice(1);
}
