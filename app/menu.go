//go:build desktop || bindings || dev

package app

import (
	_ "embed"
	"runtime"

	"github.com/wailsapp/wails/v2/pkg/menu"
)

//go:embed icon.png
var icon []byte

// menus returns the menus of macOS, because its keys for copy and paste do not
// work without them. On other systems, the page has everything.
func menus() *menu.Menu {
	if runtime.GOOS != "darwin" {
		return nil
	}
	m := menu.NewMenu()
	m.Append(menu.AppMenu())
	m.Append(menu.EditMenu())
	m.Append(menu.WindowMenu())
	return m
}
