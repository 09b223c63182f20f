// Package prefix keeps what models have read, so that no text is read twice. A
// text is a chain of pages of 64 tokens; the key of a page is a keyed hash of the
// key before it and of its tokens, and the first key stands for all that decides
// what the bytes mean. Texts that begin alike share their first pages, whoever
// sent them.
//
//	s := prefix.Open(prefix.Options{Dir: folder, Disk: 8 << 30, Memory: 1 << 30})
//	root := s.Root(model, layout, salt)
//	m := s.Match(root, tokens)         // the longest chain that is there
//	data, _, err := m.Read(page, part) // from memory or from disk
//	s.Put(record)                      // into memory now, to disk soon
//
// The store knows nothing of what the bytes mean. A page has up to [MaxParts]
// parts. A point is what a text needs beyond whole pages to be continued at one
// position; it hangs on the page before it.
//
// Records stay in memory as long as they fit there, and are written behind to
// files that only grow. Both tiers give up the least valuable record that nothing
// else hangs on: the one that is cheap to compute again for its size and was not
// used for the longest time.
//
// On disk every record has a checksum of its header and a keyed one of all its
// bytes. A list of the files is written last and renamed into place. Whatever is
// damaged, truncated, exchanged or unknown is as if it were not there. Names and
// keys are made with a secret of the folder, so that they reveal no text to those
// who see only them. One process writes a folder at a time.
package prefix
