//go:build desktop || bindings || dev

package app

import (
	_ "embed"
	"runtime"

	"github.com/wailsapp/wails/v2/pkg/menu"
)

//go:embed icon.png
var icon []byte

// menus are those of macOS, without which its keys for copy and paste do nothing;
// elsewhere the page has all there is.
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
