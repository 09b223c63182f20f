//go:build !(desktop || bindings || dev)

package app

import (
	"io/fs"

	"godwit/app/cli"
)

// Main runs a command line and returns the exit code. This build has no window.
// Without a command, it prints help.
func Main(page fs.FS, args []string) int { return cli.Main(page, args) }
