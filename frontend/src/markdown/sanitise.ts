import DOMPurify from 'dompurify';

const allowed = {
  ALLOWED_TAGS: [
    'a', 'p', 'br', 'hr', 'em', 'strong', 'del', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'div', 'span', 'button',
    'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'figure', 'figcaption',
  ],
  ALLOWED_ATTR: ['href', 'title', 'target', 'rel', 'class', 'start', 'align', 'role', 'tabindex', 'type', 'aria-label', 'data-copy', 'data-display'],
  // These attributes contain no addresses, so ALLOWED_URI_REGEXP does not apply to
  // them.
  ADD_URI_SAFE_ATTR: ['target', 'rel', 'start', 'align', 'tabindex', 'type', 'aria-label', 'data-copy', 'data-display'],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

/**
 * Reduces HTML to elements that run nothing, load nothing and style nothing. This is a
 * second safeguard after the renderer.
 */
export function clean(html: string): string {
  return DOMPurify.sanitize(html, allowed);
}
