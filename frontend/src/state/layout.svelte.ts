const narrow = matchMedia('(max-width: 52rem)');
const dark = matchMedia('(prefers-color-scheme: dark)');

class Layout {
  narrow = $state(narrow.matches);
  sidebar = $state(!narrow.matches);
  /** The system prefers dark colours. */
  dark = $state(dark.matches);
  /** The search over all chats is open. */
  searching = $state(false);
  /** The list of keyboard shortcuts is open. */
  keys = $state(false);

  constructor() {
    dark.addEventListener('change', () => (this.dark = dark.matches));
    narrow.addEventListener('change', () => {
      this.narrow = narrow.matches;
      this.sidebar = !narrow.matches;
    });
  }
}

export const layout = new Layout();
