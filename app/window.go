//go:build desktop || bindings || dev

package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/wailsapp/wails/v2"
	"github.com/wailsapp/wails/v2/pkg/logger"
	"github.com/wailsapp/wails/v2/pkg/options"
	"github.com/wailsapp/wails/v2/pkg/options/assetserver"
	"github.com/wailsapp/wails/v2/pkg/options/linux"
	"github.com/wailsapp/wails/v2/pkg/options/mac"
	"github.com/wailsapp/wails/v2/pkg/options/windows"
	desk "github.com/wailsapp/wails/v2/pkg/runtime"

	"godwit/app/cli"
)

// Main runs a command line and returns the exit code. Without a command it opens
// the window.
func Main(page fs.FS, args []string) int { return cli.WithWindow(page, args, open) }

// open opens the window, or brings one that is open to the front.
func open(ctx context.Context, d *cli.Desk) error {
	one := &only{lock: d.LockFile(), where: d.FocusFile()}
	first, err := one.acquire()
	if err != nil {
		return err
	}
	if !first {
		return one.focus(ctx)
	}
	for name, value := range cli.Language(os.LookupEnv) {
		if err := os.Setenv(name, value); err != nil {
			return errors.Join(err, one.release())
		}
	}
	w := &native{ready: make(chan struct{})}
	s, err := d.Serve(ctx, w)
	if err != nil {
		return errors.Join(err, one.release())
	}
	if err = one.tell(s.Config); err == nil {
		err = w.run(ctx, d, s)
	}
	return errors.Join(err, s.Close(), one.release())
}

// run shows the window until it is closed or ctx ends.
func (w *native) run(ctx context.Context, d *cli.Desk, s *cli.Served) error {
	if _, err := fs.Stat(d.Page, "index.html"); err != nil {
		return errors.New("this build does not contain the page; run: make build")
	}
	stop := context.AfterFunc(ctx, func() {
		<-w.ready
		desk.Quit(w.ctx)
	})
	defer stop()
	background := options.NewRGB(0xfa, 0xf8, 0xf5)
	if d.Theme == "dark" {
		background = options.NewRGB(0x17, 0x15, 0x13)
	}
	return wails.Run(&options.App{
		Title: "Godwit", Width: 1180, Height: 800, MinWidth: 420, MinHeight: 480,
		BackgroundColour:         background,
		AssetServer:              &assetserver.Options{Assets: d.Page, Middleware: configFile(s)},
		Menu:                     menus(),
		LogLevelProduction:       logger.ERROR,
		EnableDefaultContextMenu: true,
		DragAndDrop:              &options.DragAndDrop{EnableFileDrop: true},
		OnStartup: func(ctx context.Context) {
			w.ctx = ctx
			close(w.ready)
			desk.OnFileDrop(ctx, func(_, _ int, paths []string) { s.Import(models(paths)) })
		},
		OnDomReady: func(context.Context) { d.Log("window open", "url", s.Config.Base) },
		Windows:    &windows.Options{Theme: windows.SystemDefault, WebviewUserDataPath: filepath.Join(d.Folders.Cache, "webview")},
		Mac:        &mac.Options{TitleBar: mac.TitleBarDefault(), About: &mac.AboutInfo{Title: "Godwit", Message: "Language models on this machine."}},
		Linux:      &linux.Options{ProgramName: "godwit", Icon: icon, WebviewGpuPolicy: linux.WebviewGpuPolicyOnDemand},
	})
}

// configFile answers for the one file that is not part of the page: where the
// server is and what token it wants.
func configFile(s *cli.Served) assetserver.Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/app/config.json" {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			if err := json.NewEncoder(w).Encode(s.Config); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
}

// models are the paths that may be model files or folders of them; other files
// are for the message box.
func models(paths []string) []string {
	var list []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err == nil && (info.IsDir() || filepath.Ext(p) == ".gguf") {
			list = append(list, p)
		}
	}
	return list
}

// native does what only a window can.
type native struct {
	ctx   context.Context // Wails' context, set when ready is closed
	ready chan struct{}
}

// wait waits for the window.
func (w *native) wait(ctx context.Context) error {
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// PickFiles asks for model files.
func (w *native) PickFiles(ctx context.Context) ([]string, error) {
	if err := w.wait(ctx); err != nil {
		return nil, err
	}
	return desk.OpenMultipleFilesDialog(w.ctx, desk.OpenDialogOptions{
		Title: "Add models", Filters: []desk.FileFilter{{DisplayName: "Models (*.gguf)", Pattern: "*.gguf"}},
	})
}

// PickFolder asks for a folder.
func (w *native) PickFolder(ctx context.Context) (string, error) {
	if err := w.wait(ctx); err != nil {
		return "", err
	}
	return desk.OpenDirectoryDialog(w.ctx, desk.OpenDialogOptions{Title: "Folder with models"})
}

// SaveFile asks where to save a file.
func (w *native) SaveFile(ctx context.Context, name string) (string, error) {
	if err := w.wait(ctx); err != nil {
		return "", err
	}
	return desk.SaveFileDialog(w.ctx, desk.SaveDialogOptions{Title: "Save", DefaultFilename: filepath.Base(name)})
}

// Open opens an address in the browser.
func (w *native) Open(url string) error {
	<-w.ready
	desk.BrowserOpenURL(w.ctx, url)
	return nil
}

// Focus brings the window to the front.
func (w *native) Focus() {
	<-w.ready
	desk.WindowUnminimise(w.ctx)
	desk.Show(w.ctx)
	desk.WindowShow(w.ctx)
}

// Reveal shows a file in the file manager of the system.
func (w *native) Reveal(path string) error {
	if err := reveal(path).Start(); err != nil {
		return fmt.Errorf("the file manager of %s does not start: %w", runtime.GOOS, err)
	}
	return nil
}
