const narrow = matchMedia('(max-width: 52rem)');

class Layout {
  narrow = $state(narrow.matches);
  sidebar = $state(!narrow.matches);
  /** The search over all chats is open. */
  searching = $state(false);
  /** The list of keyboard shortcuts is open. */
  keys = $state(false);

  constructor() {
    narrow.addEventListener('change', () => {
      this.narrow = narrow.matches;
      this.sidebar = !narrow.matches;
    });
  }
}

export const layout = new Layout();
