// Package prefix stores what models have read, so that no text is read twice. A
// text is a chain of pages of 64 tokens. The key of a page is a keyed hash of the previous
// key and the page's tokens; the first key covers everything that decides what the bytes
// mean. Texts with a common beginning share their first pages.
//
//	s := prefix.Open(prefix.Options{Dir: folder, Disk: 8 << 30, Memory: 1 << 30})
//	root := s.Root(model, layout, salt)
//	m := s.Match(root, tokens)         // the longest chain that is there
//	data, _, err := m.Read(page, part) // from memory or from disk
//	s.Put(record)                      // into memory now, to disk soon
//
// The store does not interpret the bytes. A page has up to [MaxParts] parts. A point holds
// what a text needs, besides whole pages, to be continued at one position; its parent is
// the page before it.
//
// The salt of a text names its owner, who can have limits of its own in both tiers.
//
// Records stay in memory as long as they fit, and are written to append-only files in the
// background. Both tiers drop the least valuable record without children: one that is
// cheap to compute again for its size and was not used for a long time.
//
// On disk every record has a checksum of its header and a keyed checksum of all its bytes.
// A list of the files is written last and renamed into place. Damaged, truncated,
// exchanged or unknown data counts as missing. Names and keys depend on a secret of the
// folder, so that they reveal no text. One process writes a folder at a time.
package prefix
