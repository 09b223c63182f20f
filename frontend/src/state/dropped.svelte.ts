// Files that are dropped on the page. Models are added to the library, and other
// files are attached to the draft.
import { desktop, request } from '../lib/api';
import { readFiles } from '../lib/files';
import { drafts } from './drafts.svelte';
import { route } from './route.svelte';
import { attempt, complain, say } from './toasts.svelte';
import * as msg from '../paraglide/messages.js';

const isModel = (file: File) => /\.gguf$/i.test(file.name);

class Dropped {
  /** Files are dragged over the page. */
  over = $state(false);
  /** The file that is being copied into the library. */
  copying = $state('');
  private leaving = 0;

  /**
   * Handles files that are dragged over the page. The browser repeats this event many times
   * per second.
   */
  hold(event: DragEvent) {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault(); // otherwise the browser would leave the page and show the file
    this.over = true;
    clearTimeout(this.leaving);
    this.leaving = window.setTimeout(() => (this.over = false), 300);
  }

  take(event: DragEvent) {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    this.over = false;
    const { files, folders } = contents(event.dataTransfer);
    if (folders && !desktop()) complain(new Error(msg.dropped_browsers_hide_folder_paths_enter_it()));
    const models = files.filter(isModel);
    const others = files.filter((file) => !isModel(file));
    if (models.length > 0) void (desktop() ? tellWindow(event, models) : this.upload(models));
    if (others.length === 0) return;
    if (route.now.view === 'chat') void attach(route.now.chat, others);
    else if (!desktop()) complain(new Error(msg.dropped_isnt_a_gguf_file({ name: others[0]!.name })));
  }

  /** Browsers do not reveal a file's path, so the file is copied. */
  async upload(files: File[]) {
    for (const file of files) {
      this.copying = file.name;
      await attempt(async () => {
        const answer = await request('POST', `/app/library/upload?name=${encodeURIComponent(file.name)}`, file);
        added(((await answer.json()) as { models: string[] }).models);
      }, 'library');
      this.copying = '';
    }
  }
}

/** Returns the files of a drop, and whether it contains folders. */
function contents(transfer: DataTransfer): { files: File[]; folders: boolean } {
  const files: File[] = [];
  let folders = false;
  for (const item of transfer.items) {
    const file = item.getAsFile();
    if (item.webkitGetAsEntry?.()?.isDirectory) folders = true;
    else if (file) files.push(file);
  }
  return { files, folders };
}

/** Attaches files to a chat's draft. */
export function attach(chat: number, files: Iterable<File>): Promise<boolean> {
  return attempt(async () => {
    const read = await readFiles(files); // before the draft is looked up, because the user may send it in the meantime
    const draft = drafts.of(chat);
    draft.files = [...draft.files, ...read];
  }, 'composer');
}

export function added(names: string[] | undefined) {
  if (names?.length) say(names.length === 1 ? msg.dropped_added({ name: names[0]! }) : msg.dropped_added_models({ count: names.length }));
}

// The system reports dropped files to the window, except on Windows. There, the web
// view looks up the paths of the files that the page passes to it.
function tellWindow(event: DragEvent, files: File[]) {
  const view = (window as { chrome?: { webview?: { postMessageWithAdditionalObjects?: (message: string, files: File[]) => void } } }).chrome?.webview;
  view?.postMessageWithAdditionalObjects?.(`file:drop:${event.x}:${event.y}`, files);
}

export const dropped = new Dropped();
