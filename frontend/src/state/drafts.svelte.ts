import type { Attachment } from '../lib/types';

interface Draft {
  text: string;
  files: Attachment[];
}

/** What was written and not sent. */
class Drafts {
  /** Messages that are being edited, by id. */
  edits = $state<Record<number, string>>({});
  private list = new Map<number, Draft>();

  /** What is written in a chat; 0 is the chat that is not there yet. */
  of(chat: number): Draft {
    let draft = this.list.get(chat);
    if (!draft) {
      const fresh = $state<Draft>({ text: '', files: [] });
      draft = fresh;
      this.list.set(chat, draft);
    }
    return draft;
  }

  /** Has a message sent and takes it back when that fails, before what was written meanwhile. */
  async sent(chat: number, send: (text: string, files: Attachment[]) => Promise<boolean>) {
    const draft = this.of(chat);
    const { text, files } = draft;
    draft.text = '';
    draft.files = [];
    if (await send(text.trim(), $state.snapshot(files))) return;
    draft.text = draft.text ? `${text}\n${draft.text}` : text;
    draft.files = [...files, ...draft.files];
  }

  /** Has what was written for the chat that was not there yet belong to it. */
  made(chat: number) {
    const draft = this.of(0);
    this.list.set(chat, draft);
    this.list.delete(0);
  }
}

export const drafts = new Drafts();
