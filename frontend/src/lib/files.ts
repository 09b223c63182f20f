import type { Attachment } from './types';
import * as msg from '../paraglide/messages.js';

/** Maximum size of an attached file in bytes. A larger one would not fit any context. */
const largest = 4 << 20;

/** Reads text files. Throws an error for a file that is not text or is too large. */
export async function readFiles(files: Iterable<File>): Promise<Attachment[]> {
  const list: Attachment[] = [];
  for (const file of files) {
    if (file.size > largest) throw new Error(msg.files_is_larger_than_4_mi_b({ file: file.name }));
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text: string;
    try {
      text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    } catch {
      throw new Error(msg.files_cant_be_attached_only_text_files({ file: file.name }));
    }
    if (text.includes('\0')) throw new Error(msg.files_cant_be_attached_only_text_files({ file: file.name }));
    list.push({ name: file.name, type: file.type || 'text/plain', text });
  }
  return list;
}

/** Offers a text to the user as a file download. */
export function saveFile(name: string, data: Blob) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(data);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Turns a title into a file name that is valid on every system. */
export function fileName(title: string): string {
  return title.replace(/[\s\\/:*?"<>|\p{Cc}]+/gu, ' ').trim().slice(0, 80).replace(/[. ]+$/, '') || 'chat';
}

/** Opens a file picker. */
export function chooseFiles(accept: string, multiple = true): Promise<File[]> {
  return new Promise((resolve) => {
    const input = document.createElement('input');
    input.type = 'file';
    input.accept = accept;
    input.multiple = multiple;
    input.onchange = () => resolve([...(input.files ?? [])]);
    input.oncancel = () => resolve([]);
    input.click();
  });
}
