// The JSON of the page's endpoints, as app/api/page writes it.

export type Role = 'system' | 'user' | 'assistant' | 'tool';
export type Status = 'done' | 'running' | 'stopped' | 'error';

export interface Attachment {
  name: string;
  type: string;
  text: string;
}

export interface Stats {
  prompt_tokens?: number;
  cached_tokens?: number;
  resumed_tokens?: number;
  output_tokens?: number;
  first_ms?: number;
  total_ms?: number;
  tokens_per_s?: number;
  finish?: string;
  full?: boolean;
}

export interface ToolCall {
  id?: string;
  type?: string;
  function: { name: string; arguments: string };
}

export interface Message {
  id: number;
  chat: number;
  parent: number;
  role: Role;
  content: string;
  reasoning?: string;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  attachments?: Attachment[];
  status: Status;
  error?: string;
  model?: string;
  stats: Stats;
  created: string;
  updated: string;
  depth: number;
  branches: number[] | null;
}

/** What a chat sends besides its messages; a field that is missing has its default. */
export interface ChatSettings {
  sampling?: Record<string, number>;
  max_tokens?: number;
  thinking?: boolean;
}

export interface Chat {
  id: number;
  title: string;
  folder: number;
  pinned: boolean;
  model: string;
  system: string;
  settings: ChatSettings;
  created: string;
  updated: string;
}

export interface Folder {
  id: number;
  name: string;
  position: number;
}

export interface Preset {
  id: number;
  name: string;
  system: string;
  settings: ChatSettings;
}

export interface Hit {
  chat: number;
  title: string;
  message: number;
  role?: Role;
  snippet: string;
  marks: [number, number][];
  updated: string;
}

export type ModelState = 'unloaded' | 'loading' | 'loaded' | 'unloading' | 'failed';

export interface Model {
  name: string;
  path: string;
  paths: string[];
  size: number;
  licence?: string;
  ref?: string;
  source?: string;
  linked: boolean;
  added?: string;
  error?: string;
  arch: string;
  title?: string;
  quant: string;
  parameters: number;
  context: number;
  layers: number;
  embedding: number;
  heads: number;
  kv_heads: number;
  head_dim: number;
  vocab: number;
  state: ModelState;
  /** Share of a load that is under way, from 0 to 1. */
  progress?: number;
  /** Why the last load did not work, and what to do. */
  failure?: string;
  /** Tokens that the loaded model may hold. */
  loaded_context?: number;
  loaded_bytes?: number;
  /** Settings of a load have changed since this model was loaded. */
  stale?: boolean;
  /** The calibration that comes before a load, while it is measured. */
  measuring?: Share;
  /** The calibration in the background, which the next load uses. */
  preparing?: Share & { state: 'waiting' | 'measuring' | 'done' | 'failed'; error?: string };
}

/** How far something is, from 0 to 1, and about how many seconds are left; 0: not known. */
export interface Share {
  share: number;
  left_s: number;
}

export interface ModelDetail extends Model {
  sha256?: string;
  template?: string;
  template_hash?: string;
  template_note?: string;
  problem?: string;
}

export interface Progress {
  name: string;
  file: string;
  phase: 'check' | 'download' | 'done';
  done: number;
  total: number;
  speed: number;
}

export interface Download {
  ref: string;
  file: string;
  done: number;
  total: number;
  speed: number;
  state: 'running' | 'paused' | 'failed' | 'done';
  phase?: string;
  error?: string;
}

export interface Field {
  name: string;
  flag?: string;
  env: string[];
  kind: 'bool' | 'int' | 'float' | 'text' | 'list' | 'size' | 'time' | 'innerq';
  auto?: boolean;
  default: string;
  min?: number;
  max?: number;
  unit?: string;
  choices?: string[];
  from?: string;
  secret?: boolean;
  applies: 'load' | 'start' | 'now';
  group: string;
  help: string;
  value: Value;
  origin: 'default' | 'file' | 'environment' | 'flag';
}

export type Value = null | boolean | number | string | string[];

export interface Parameter {
  name: string;
  help: string;
  min: number;
  max: number;
  default: number;
  integer: boolean;
}

export interface Notice {
  id: string;
  level: 'info' | 'warning' | 'error';
  text: string;
}

export interface PlanSide {
  wanted: string;
  active: string;
  reason: string;
  bytes: number;
  head_dim: number;
  padded: number;
  row_bytes: number;
  exact: string;
  exact_bytes: number;
  saturated: number;
  channels: string;
  /** Nats of divergence with this cache alone at the least bits; 0: not measured. */
  sensitivity: number;
}

export interface PlanLayer {
  layer: number;
  k: PlanSide;
  v: PlanSide;
  sparse_v: { considered: number; skipped: number };
  kv_heads: number;
  window: number;
  cells: number;
  exact_window: number;
  exact_sinks: number;
}

export interface Plan {
  model: string;
  ctx: number;
  wanted: { k: string; v: string };
  policy: number;
  layers: PlanLayer[];
  bytes: number;
  bytes_f16: number;
  passing_bytes: number;
  /** What the exact part of all layers would take with one conversation at a time. */
  exact_alone: number;
  state_bytes: number;
  events: string[];
}

export interface TypeSide {
  bytes: number;
  active?: string;
  reason?: string;
}

/** A cache type; bytes are of one token of the model that was asked about. */
export interface CacheType {
  name: string;
  aliases: string[];
  group: 'safe' | 'balanced' | 'small' | 'experimental';
  note: string;
  bits: number;
  k: TypeSide;
  v: TypeSide;
}

export interface CachePreset {
  name: string;
  note: string;
  /** A token of the model, all layers. */
  bytes?: number;
  k?: string;
  v?: string;
}

export interface Machine {
  /** What computes: cpu, metal, cuda or hip. */
  backend: string;
  device: string;
  detail: string;
  memory: number;
  free: number;
  threads: number;
}

export interface Curve {
  name: string;
  k: string;
  v: string;
  bytes: number[];
  most: number;
}

export interface Outlook {
  plan: Plan;
  weights: number;
  context: number;
  lengths: number[];
  curves: Curve[];
  machine: Machine;
  budget: number;
  /** What the log of a load would warn of. */
  warnings: string[];
}

/** A pair of types against f16; null where it was not measured. */
export interface Measured {
  k: string;
  v: string;
  /** Mean divergence in nats. */
  kld: number | null;
  kld_stderr: number;
  /** Share of equal choices in decoding. */
  agreement: number | null;
  agreement_stderr: number;
  /** Share of texts that were given back exactly. */
  copy: number | null;
}

export interface Quality {
  pairs: Measured[];
  best: { k: string; v: string; bytes: number; ctx: number; found: boolean } | null;
}

export interface Measuring {
  model: string;
  state: 'running' | 'done' | 'cancelled' | 'failed';
  doing?: string;
  share: number;
  left_s: number;
  error?: string;
}

export interface HubFile {
  name: string;
  quant: string;
  size: number;
  ref: string;
  fit: 'fits' | 'tight' | 'large' | 'unknown';
}

export interface HubRepo {
  id: string;
  /** Its page on the hub. */
  url?: string;
  licence?: string;
  gated: boolean;
  downloads: number;
  likes: number;
  updated?: string;
  error?: string;
  models: HubFile[] | null;
}
