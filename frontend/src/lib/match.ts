/** Reports whether a text contains every word of a search, in any order. */
export function matches(query: string, text: string): boolean {
  const within = text.toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => within.includes(word));
}
