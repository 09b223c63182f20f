package hub

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestPublic(t *testing.T) {
	for _, c := range []struct {
		ip   string
		want bool
	}{
		{"8.8.8.8", true},
		{"172.15.255.255", true},
		{"172.32.0.0", true},
		{"2600:1f18::1", true},
		{"64:ff9b::808:808", true},
		{"::ffff:8.8.8.8", true},
		{"0.0.0.0", false},
		{"10.0.0.1", false},
		{"100.64.0.1", false},
		{"127.0.0.1", false},
		{"127.255.255.254", false},
		{"169.254.169.254", false},
		{"172.16.0.1", false},
		{"172.31.255.255", false},
		{"192.0.0.8", false},
		{"192.168.1.1", false},
		{"198.18.0.1", false},
		{"224.0.0.1", false},
		{"255.255.255.255", false},
		{"::", false},
		{"::1", false},
		{"::ffff:127.0.0.1", false},
		{"::ffff:10.0.0.1", false},
		{"::127.0.0.1", false},
		{"64:ff9b::7f00:1", false},
		{"64:ff9b::a00:1", false},
		{"64:ff9b:1::1", false},
		{"100::1", false},
		{"2001:0:1::1", false},
		{"2001:db8::1", false},
		{"2002:7f00:1::", false},
		{"fc00::1", false},
		{"fd12::1", false},
		{"fe80::1%eth0", false},
		{"ff02::1", false},
	} {
		if got := public(netip.MustParseAddr(c.ip)); got != c.want {
			t.Errorf("public(%s) is %v", c.ip, got)
		}
	}
}

func TestHubAddress(t *testing.T) {
	for _, c := range []struct {
		url  string
		o    Options
		want error
	}{
		{"https://huggingface.co", Options{}, nil},
		{"https://mirror.example/hf/", Options{}, nil},
		{"http://mirror.example", Options{}, ErrBlocked},
		{"http://mirror.example", Options{AllowHTTP: true}, nil},
		{"http://127.0.0.1:8080", Options{}, nil},
		{"http://localhost:8080", Options{}, nil},
		{"http://[::1]:8080", Options{}, nil},
		{"https://192.168.1.5", Options{}, ErrBlocked},
		{"https://192.168.1.5", Options{AllowPrivate: true}, nil},
		{"http://192.168.1.5", Options{AllowPrivate: true}, ErrBlocked},
		{"ftp://mirror.example", Options{}, ErrBlocked},
		{"huggingface.co", Options{}, ErrName},
		{"https://user:pass@mirror.example", Options{}, ErrName},
		{"https://mirror.example?x=1", Options{}, ErrName},
		{"https://", Options{}, ErrName},
		{"http://[::1", Options{}, ErrName},
	} {
		c.o.URL, c.o.Dir = c.url, t.TempDir()
		if _, err := Open(c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: error is %v, want %v", c.url, err, c.want)
		}
	}
}

// Names of a remote hub must not lead to this machine. The address is checked when
// the connection is made.
func TestDialCheck(t *testing.T) {
	hit := false
	inner := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hit = true }))
	defer inner.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(inner.URL, "https://"), ":")
	l, err := Open(Options{URL: "https://hub.example", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.hub().base.Host = "localhost:" + port // as if the name resolved to this machine
	_, err = l.Repo(t.Context(), "own/repo")
	if !errors.Is(err, ErrBlocked) || hit {
		t.Errorf("error is %v, the server was reached: %v", err, hit)
	}
}

func TestNoHub(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	l, err := Open(Options{URL: gone.URL, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Pull(t.Context(), "own/repo", nil); !errors.Is(err, ErrNetwork) {
		t.Errorf("error is %v", err)
	}
	err = unreached(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "hub.example", Server: "192.0.2.1:53"}})
	if !errors.Is(err, ErrNetwork) || !strings.Contains(err.Error(), "hub.example was not found; is this computer online?") || strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("a name without an address: %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "x": 0, "99999999999999999999": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		resp := &http.Response{Header: http.Header{"Retry-After": {in}}}
		if got := retryAfter(resp, now); got != want {
			t.Errorf("%q: %v, want %v", in, got, want)
		}
	}
}
