// Questions to a person that the whole page waits for.

export interface Question {
  title: string;
  text: string;
  confirm: string;
  danger?: boolean;
  /** Asks for a text, which starts as this. */
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

/** Asks for a name; undefined when the person thinks better of it. */
export function named(title: string, input: string, confirm = 'Save', placeholder = ''): Promise<string | undefined> {
  return ask({ title, text: '', confirm, input, placeholder });
}
