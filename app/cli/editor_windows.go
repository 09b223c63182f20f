package cli

import "os"

// edit returns nil: the console of Windows edits lines itself.
func edit(_, _ *os.File) lines { return nil }
