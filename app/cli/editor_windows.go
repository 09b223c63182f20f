package cli

import "os"

// edit returns nil, because the Windows console has its own line editing.
func edit(_, _ *os.File) lines { return nil }
