package api

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"godwit/app/config"
)

// Listen opens the configured port, or the socket of --unix-socket.
func (s *Server) Listen() (net.Listener, error) { return Listen(&s.o.Settings.Server) }

// Listen opens the port of the settings, or the socket of --unix-socket.
func Listen(set *config.Server) (net.Listener, error) {
	if set.UnixSocket != "" {
		return listenUnix(set.UnixSocket)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(hostOnly(set.Host), strconv.Itoa(set.Port)))
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("--host %s: this machine does not have that address: %w", set.Host, err)
	case PortForbidden(err):
		return nil, fmt.Errorf("port %d of %s needs administrator rights; use a port from 1024 up, or --port 0 for any free port: %w", set.Port, set.Host, err)
	case PortTaken(err):
		return nil, fmt.Errorf("port %d of %s is not free; use --port 0 for any free port: %w", set.Port, set.Host, err)
	}
	return nil, fmt.Errorf("port %d of %s cannot be opened; use --port 0 for any free port: %w", set.Port, set.Host, err)
}

// URL returns the URL of a listener for clients: unix:PATH for a socket.
func (s *Server) URL(l net.Listener) string {
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	host, port, err := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// maxSocket is the longest path of a socket that all systems accept, in bytes.
const maxSocket = 100

// socket is a listener on a file that only this user can connect to. Closing it
// removes the file.
type socket struct {
	*net.UnixListener
	path string
	made os.FileInfo
}

// listenUnix opens a socket with mode 0600. The socket never exists with other
// rights at its path, because it is made in a folder of its own and then moved.
// A socket that a dead process has left is replaced.
func listenUnix(path string) (_ net.Listener, err error) {
	fault := func(err error) error { return fmt.Errorf("--unix-socket %s: %w", path, err) }
	if path, err = filepath.Abs(path); err != nil {
		return nil, fault(err)
	}
	if len(path) > maxSocket {
		return nil, fault(fmt.Errorf("the path has %d bytes, at most %d are possible", len(path), maxSocket))
	}
	if err := unused(path); err != nil {
		return nil, fault(err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s") // mode 0700
	if err != nil {
		return nil, fault(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, fault(err)
	}
	l.SetUnlinkOnClose(false)
	made, err := place(at, path)
	if err != nil {
		return nil, fault(errors.Join(err, l.Close()))
	}
	return &socket{l, path, made}, nil
}

// place gives a socket its rights and moves it to its path.
func place(at, path string) (os.FileInfo, error) {
	if err := os.Chmod(at, 0o600); err != nil {
		return nil, err
	}
	if err := os.Rename(at, path); err != nil {
		return nil, err
	}
	return os.Lstat(path)
}

// unused returns an error if a path is taken by another file or by a socket that
// accepts connections.
func unused(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("a file with this name exists and is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another program listens on it"), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return nil
}

// Addr returns the path at which clients find the socket.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Close closes the socket and removes its file, unless another process has
// replaced it.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if now, e := os.Lstat(s.path); e == nil && os.SameFile(now, s.made) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}
