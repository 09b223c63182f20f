import type { Attachment } from '../lib/types';

interface Draft {
  text: string;
  files: Attachment[];
}

/** What was written and not sent, by chat; 0 is the chat that is not there yet. */
class Drafts {
  private list = new Map<number, Draft>();

  of(chat: number): Draft {
    let draft = this.list.get(chat);
    if (!draft) {
      const fresh = $state<Draft>({ text: '', files: [] });
      draft = fresh;
      this.list.set(chat, draft);
    }
    return draft;
  }

  clear(chat: number) {
    const draft = this.of(chat);
    draft.text = '';
    draft.files = [];
  }
}

export const drafts = new Drafts();
