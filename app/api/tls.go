package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"godwit/app/config"
)

// certPause is how often the files of a certificate are checked for changes.
const certPause = time.Second

// certificate is a TLS certificate that is read again when its files change. If
// the new files are invalid, the old certificate stays in use.
type certificate struct {
	cert, key string // paths
	log       *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	files   [2]os.FileInfo // the files when they were last read
	checked time.Time
}

// newCertificate reads the certificate of the settings. It returns nil if the
// settings have none.
func newCertificate(set *config.Server, log *slog.Logger) (*certificate, error) {
	if set.TLSCert == "" && set.TLSKey == "" {
		return nil, nil
	}
	if set.TLSCert == "" || set.TLSKey == "" {
		return nil, errors.New("--tls-cert and --tls-key belong together, and one of them is missing")
	}
	c := &certificate{cert: set.TLSCert, key: set.TLSKey, log: log}
	return c, c.read()
}

// read reads both files.
func (c *certificate) read() error {
	files, err := c.stat()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.cert, c.key, err)
	}
	c.loaded, c.files = &pair, files
	return nil
}

func (c *certificate) stat() (files [2]os.FileInfo, err error) {
	for i, path := range []string{c.cert, c.key} {
		if files[i], err = os.Stat(path); err != nil {
			return files, fmt.Errorf("TLS certificate: %w", err)
		}
	}
	return files, nil
}

// config returns a TLS configuration that uses the certificate. HTTP/2 is off,
// because the limits on slow clients are those of a connection.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil },
	}
}

// current returns the certificate for a new connection.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.checked) < certPause {
		return c.loaded
	}
	c.checked = time.Now()
	files, err := c.stat()
	if err == nil && same(files[0], c.files[0]) && same(files[1], c.files[1]) {
		return c.loaded
	}
	if err == nil {
		c.files = files // damaged files are reported once, not for every connection
		err = c.read()
	}
	if err != nil {
		c.log.Warn("TLS certificate not reloaded, the old one stays in use", "err", err)
		return c.loaded
	}
	c.log.Info("TLS certificate reloaded")
	return c.loaded
}

// same reports whether two looks at a file found the same contents.
func same(a, b os.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
