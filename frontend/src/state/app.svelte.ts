import { ApiError, connect, explain, get, names, post } from '../lib/api';
import { stream } from '../lib/sse';
import type { Download, Measuring, Model, Notice, Parameter, Preset, Progress } from '../lib/types';
import { chats } from './chats.svelte';
import { drafts } from './drafts.svelte';
import { layout } from './layout.svelte';
import { renderer } from './markdown.svelte';
import { open } from './open.svelte';
import { go, route } from './route.svelte';
import { say } from './toasts.svelte';
import * as msg from '../paraglide/messages.js';

/** Settings that every view shows. */
interface Shared {
  parameters: Parameter[];
  predict: number;
  theme: Theme;
}

/** The state that the page requests whenever its event stream opens. */
interface Snapshot extends Shared {
  models: Model[];
  downloads: Download[];
  notices: Notice[];
  presets: Preset[];
  welcomed: boolean;
  version: string;
}

export type Theme = 'system' | 'light' | 'dark';

class App {
  phase = $state<'starting' | 'locked' | 'ready' | 'broken'>('starting');
  failure = $state('');
  online = $state(true);
  models = $state<Model[]>([]);
  downloads = $state<Download[]>([]);
  /** The running measurement, or the result of the last one since this window opened. */
  measuring = $state<Measuring>();
  notices = $state<Notice[]>([]);
  presets = $state<Preset[]>([]);
  parameters = $state<Parameter[]>([]);
  /** The configured maximum length of an answer in tokens; 0 means no limit. */
  predict = $state(0);
  theme = $state<Theme>('system');
  welcomed = $state(true);
  version = $state('');
  /** Progress of reading a file that is being added to the library. */
  importing = $state<Progress>();
  /** Incremented when settings were saved, here or in another window. */
  settled = $state(0);

  /** The active colour theme. */
  look = $derived(this.theme !== 'system' ? this.theme : layout.dark ? 'dark' : 'light');
  loaded = $derived(this.models.filter((m) => m.state === 'loaded'));
  usable = $derived(this.models.filter((m) => !m.error));

  model(name: string): Model | undefined {
    return this.models.find((m) => m.name === name);
  }

  /** Opens a new chat with a model. */
  chatWith: (name: string) => void = () => go({ view: 'chat', chat: 0 });

  private started = false;

  /** Starts the page. Returns only after an error, for example if the server requires a key. */
  async start(key?: string) {
    if (this.started) return;
    this.started = true;
    try {
      await connect(key);
      await this.listen();
    } catch (err) {
      const locked = err instanceof ApiError && err.status === 401;
      this.phase = locked ? 'locked' : 'broken';
      this.failure = !locked ? explain(err) : key ? msg.app_incorrect_api_key() : '';
    }
    this.started = false;
  }

  private async refresh() {
    const now = await get<Snapshot>('/app/state');
    this.models = now.models;
    this.downloads = now.downloads;
    this.notices = now.notices;
    this.presets = now.presets;
    this.share(now);
    this.welcomed = now.welcomed;
    this.version = now.version;
    this.importing = this.measuring = undefined; // the stream reports running work when it opens
  }

  private share(now: Shared) {
    this.parameters = now.parameters;
    this.predict = now.predict;
    this.theme = now.theme;
  }

  /** Reads the window's event stream and reconnects when it breaks. */
  private async listen() {
    for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
      try {
        let begun = false;
        for await (const event of stream('/app/events', new AbortController().signal)) {
          if (begun) {
            this.take(event.name, JSON.parse(event.data));
            continue;
          }
          // The stream is open and announces changes from now on. Load everything
          // older now.
          void drafts.start();
          await Promise.all([this.refresh(), chats.refresh()]);
          open.recover();
          renderer.fetch();
          this.phase = 'ready';
          this.online = begun = true;
          wait = 500;
        }
      } catch (err) {
        if (this.phase !== 'ready' || (err instanceof ApiError && err.status === 401)) throw err;
      }
      this.online = false;
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  /**
   * Opens a new chat with the first model. For later models, only reports that the model is
   * ready.
   */
  private arrived(name: string) {
    const now = route.now;
    if (this.usable.some((m) => m.name !== name) || now.view !== 'chat' || now.chat) {
      say(msg.app_is_ready({ name }), { label: msg.chat(), run: () => this.chatWith(name) });
      return;
    }
    this.chatWith(name);
    void post(`/app/models/${encodeURIComponent(name)}/load`).catch(() => undefined); // if this fails, the first message reports the error
  }

  private take(name: string, data: unknown) {
    switch (name) {
      case 'models':
        this.models = data as Model[];
        break;
      case 'downloads':
        this.downloads = data as Download[];
        break;
      case 'quality':
        this.measuring = data as Measuring;
        break;
      case 'notices':
        this.notices = data as Notice[];
        break;
      case 'presets':
        this.presets = data as Preset[];
        break;
      case 'settings':
        this.share(data as Shared);
        this.settled++;
        break;
      case 'chats':
        void chats.refresh().catch(() => undefined); // if this fails, the next change loads the list again
        break;
      case 'import':
        this.importing = data as Progress;
        if (this.importing.phase === 'done') this.importing = undefined;
        break;
      case 'arrived': {
        const { name } = data as { name: string };
        this.arrived(name);
        break;
      }
      case 'chat':
        open.changed(data as { chat: number; message: number });
        break;
    }
  }
}

export const app = new App();

names.has = (word) => app.models.some((m) => m.name === word);
