//go:build desktop || bindings || dev

package app

import (
	"os/exec"
	"path/filepath"
	"runtime"
)

// reveal is the command that shows a file in the file manager.
func reveal(path string) *exec.Cmd {
	switch runtime.GOOS {
	case "windows":
		return exec.Command("explorer", "/select,"+path)
	case "darwin":
		return exec.Command("open", "-R", path)
	}
	return exec.Command("xdg-open", filepath.Dir(path))
}
