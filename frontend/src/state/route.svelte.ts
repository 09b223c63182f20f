// The page's location, stored after the # of its address so that it survives a
// reload.

export type Route =
  | { view: 'chat'; chat: number; message?: number }
  | { view: 'models'; tab: 'library' | 'hub' }
  | { view: 'settings'; section: string };

export function parse(hash: string): Route {
  const [view = '', first = '', second = ''] = hash.replace(/^#\/?/, '').split('/');
  switch (view) {
    case 'models':
      return { view: 'models', tab: first === 'hub' ? 'hub' : 'library' };
    case 'settings':
      return { view: 'settings', section: first || 'general' };
    default: {
      const chat = Number.parseInt(first, 10);
      const message = Number.parseInt(second, 10);
      return { view: 'chat', chat: chat > 0 ? chat : 0, message: message > 0 ? message : undefined };
    }
  }
}

export function address(to: Route): string {
  switch (to.view) {
    case 'models':
      return to.tab === 'hub' ? '#/models/hub' : '#/models';
    case 'settings':
      return `#/settings/${to.section}`;
    case 'chat':
      return to.chat ? `#/chat/${to.chat}${to.message ? `/${to.message}` : ''}` : '#/chat';
  }
}

/** The page's location. again counts calls of go with the current location. */
export const route = $state<{ now: Route; again: number }>({ now: parse(location.hash), again: 0 });

addEventListener('hashchange', () => {
  route.now = parse(location.hash);
});

export function go(to: Route, replace = false) {
  const hash = address(to);
  if (replace) {
    history.replaceState(null, '', hash);
    route.now = parse(hash);
  } else {
    if (hash === location.hash) route.again++;
    location.hash = hash;
  }
}
