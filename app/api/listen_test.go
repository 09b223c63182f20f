package api

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// writeCertificate writes a self-signed certificate for 127.0.0.1 and its key.
func writeCertificate(t *testing.T, dir string, serial int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	signed, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// A certificate that changes while 16 clients are served drops no request, and
// new connections get the new one. A damaged one leaves the old one in use.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	v := start(t, func(o *setup) { o.Settings.Server.TLSCert, o.Settings.Server.TLSKey = cert, key })
	if !strings.HasPrefix(v.url, "https://127.0.0.1:") {
		t.Fatalf("the URL is %s", v.url)
	}
	var served, serial atomic.Int64
	end := make(chan struct{})
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the test compares serial numbers
				a, err := c.Get(v.url + "/health")
				if err != nil {
					t.Error(err)
					return
				}
				if err := a.Body.Close(); err != nil || a.StatusCode != http.StatusOK || a.ProtoMajor != 1 {
					t.Errorf("%s %s, %v", a.Proto, a.Status, err)
				}
				serial.Store(a.TLS.PeerCertificates[0].SerialNumber.Int64())
				served.Add(1)
			}
		})
	}
	until := func(want int64) {
		t.Helper()
		for limit := time.Now().Add(time.Minute); serial.Load() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("clients see certificate %d, want %d", serial.Load(), want)
			}
		}
	}
	until(1)
	if err := os.WriteFile(cert, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := served.Load()
	time.Sleep(2 * certPause)
	if serial.Load() != 1 || served.Load() == before {
		t.Errorf("with damaged files clients see certificate %d after %d requests", serial.Load(), served.Load()-before)
	}
	writeCertificate(t, dir, 2)
	until(2)
	close(end)
	clients.Wait()

	plain, err := http.Get("http" + strings.TrimPrefix(v.url, "https") + "/health")
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Body.Close(); err != nil || plain.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %s, %v", plain.Status, err)
	}
}

// The origin of a page that the server itself serves has the server's scheme.
func TestOwnOrigin(t *testing.T) {
	g := newGuard("127.0.0.1", nil, nil, nil)
	for _, c := range []struct {
		origin string
		secure bool
		ok     bool
	}{
		{"http://localhost:1", false, true},
		{"https://localhost:1", false, false},
		{"https://localhost:1", true, true},
		{"http://localhost:1", true, false},
	} {
		r := &http.Request{Method: http.MethodPost, Host: "localhost:1", Header: http.Header{"Origin": {c.origin}}}
		if c.secure {
			r.TLS = &tls.ConnectionState{}
		}
		if err := g.check(r); (err == nil) != c.ok {
			t.Errorf("origin %s, TLS %v: %v", c.origin, c.secure, err)
		}
	}
}

// A certificate without its key, or with another key, is an error that names the
// flags.
func TestTLSRefused(t *testing.T) {
	cert, key := writeCertificate(t, t.TempDir(), 1)
	_, other := writeCertificate(t, t.TempDir(), 1)
	for _, c := range []struct{ cert, key, want string }{
		{cert, "", "--tls-key"},
		{"", key, "--tls-cert"},
		{cert, other, "--tls-key"},
		{cert, key + ".missing", "key.pem.missing"},
	} {
		o := newSetup()
		o.States = t.TempDir()
		o.Settings.Server.TLSCert, o.Settings.Server.TLSKey = c.cert, c.key
		if _, err := newCertificate(&o.Settings.Server, o.Log); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: %v, want an error with %q", c.cert, c.key, err, c.want)
		}
	}
}

// A socket has mode 0600, needs no key, is refused while in use, replaces one that
// a dead process left, and disappears at the end.
func TestUnixSocket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	dir, err := os.MkdirTemp("", "gw") // the path of a test's own folder can be too long
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "api")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	o := newSetup()
	o.States = t.TempDir()
	o.Settings.Server.UnixSocket, o.Settings.Server.Host = path, "0.0.0.0"
	v := o.run(t)
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if v.url != "unix:"+path {
		t.Errorf("the URL is %s", v.url)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	a, err := c.Get("http://localhost/health")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Body.Close(); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("%s, %v", a.Status, err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another program listens") {
		t.Errorf("a socket in use: %v", err)
	}
	v.end()
	if err := <-v.done; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left after the end: %v, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := listenUnix(filepath.Join(dir, strings.Repeat("x", maxSocket))); err == nil || !strings.Contains(err.Error(), fmt.Sprint(maxSocket)) {
		t.Errorf("a long path: %v", err)
	}
}
