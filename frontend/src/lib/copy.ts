import * as msg from '../paraglide/messages.js';

/** Copies text to the clipboard and confirms it on the button that was clicked. */
export async function copyText(text: string, button?: Element): Promise<boolean> {
  const done = (await viaClipboard(text)) || viaSelection(text);
  const before = button?.textContent;
  if (button && done && before !== msg.copied()) {
    button.textContent = msg.copied();
    setTimeout(() => (button.textContent = before ?? ''), 1500);
  }
  return done;
}

async function viaClipboard(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not allowed or not available here
  }
}

// Some web views support only execCommand.
function viaSelection(text: string): boolean {
  const area = document.createElement('textarea');
  area.value = text;
  area.style.position = 'fixed';
  area.style.opacity = '0';
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}
