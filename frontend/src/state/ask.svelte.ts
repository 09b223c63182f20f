// Dialogs that block the page until the user answers.

import * as msg from '../paraglide/messages.js';

export interface Question {
  title: string;
  text: string;
  confirm: string;
  danger?: boolean;
  /** Initial value of a text field. If undefined, the dialog has no field. */
  input?: string;
  placeholder?: string;
  answer: (value: string | undefined) => void;
}

export const asked = $state<{ now?: Question }>({});

function ask(question: Omit<Question, 'answer'>): Promise<string | undefined> {
  return new Promise((resolve) => {
    asked.now = {
      ...question,
      answer: (value) => {
        asked.now = undefined;
        resolve(value);
      },
    };
  });
}

export async function confirmed(title: string, text: string, confirm: string): Promise<boolean> {
  return (await ask({ title, text, confirm, danger: true })) !== undefined;
}

/** Asks for a name. Returns undefined if the user cancels. */
export function named(title: string, input: string, confirm = msg.save(), placeholder = ''): Promise<string | undefined> {
  return ask({ title, text: '', confirm, input, placeholder });
}
