package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// client sends requests to one hub. It checks every address when it connects. This
// catches a name that resolves to a local address, whether the name comes from the
// user, from a redirect, or from a resolver whose answer changes.
type client struct {
	base         *url.URL
	token        string
	allowHTTP    bool
	allowPrivate bool
	loopback     bool // whether the hub runs on this machine
	http         *http.Client
}

const maxRedirects = 5

func newClient(base *url.URL, o Options) (*client, error) {
	c := &client{base: base, token: o.Token, allowHTTP: o.AllowHTTP, allowPrivate: o.AllowPrivate, loopback: isLoopback(base.Hostname())}
	if err := c.checkURL(base); err != nil {
		return nil, err
	}
	guarded := &net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second, Control: c.checkAddress}
	plain := &net.Dialer{Timeout: 20 * time.Second, KeepAlive: 30 * time.Second}
	proxies := proxyAddresses()
	c.http = &http.Client{
		CheckRedirect: c.redirect,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if proxies[addr] { // the user chose the proxy, so any address is allowed
					return plain.DialContext(ctx, network, addr)
				}
				return guarded.DialContext(ctx, network, addr)
			},
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    20 * time.Second,
			ResponseHeaderTimeout:  60 * time.Second,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 1 << 20,
			DisableCompression:     true, // the length of a response must be the length of the file
		},
	}
	return c, nil
}

// proxyAddresses returns the proxies in the environment, as host:port.
func proxyAddresses() map[string]bool {
	list := map[string]bool{}
	for _, scheme := range []string{"http", "https"} {
		u, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: "example.com"}})
		if err != nil || u == nil {
			continue
		}
		port := u.Port()
		if port == "" {
			port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		}
		if port == "" {
			port = "80"
		}
		list[net.JoinHostPort(u.Hostname(), port)] = true
	}
	return list
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// checkURL checks scheme and host before a request is sent. Plain http is allowed
// only for hubs on this machine, or if AllowHTTP is set.
func (c *client) checkURL(u *url.URL) error {
	switch {
	case u.Scheme == "https":
	case u.Scheme == "http" && (c.allowHTTP || c.loopback && isLoopback(u.Hostname())):
	default:
		return fmt.Errorf("%w: %s://%s is not https", ErrBlocked, u.Scheme, u.Host)
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
		return c.checkIP(ip)
	}
	return nil
}

// checkAddress checks the resolved address before the connection is made.
func (c *client) checkAddress(_, address string, _ syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s", ErrBlocked, address)
	}
	return c.checkIP(addr.Addr())
}

func (c *client) checkIP(ip netip.Addr) error {
	if c.allowPrivate || public(ip) || c.loopback && ip.Unmap().IsLoopback() {
		return nil
	}
	return fmt.Errorf("%w: %s is not a public internet address", ErrBlocked, ip)
}

// Special-purpose blocks inside the public address space. Source: the IANA
// special-purpose address registries for IPv4 and IPv6.
var special = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // IPv4 addresses behind a NAT64 translator
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// public reports whether ip is an address of the public internet.
func public(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return false
	}
	for _, p := range special {
		if p.Contains(ip) {
			return false
		}
	}
	return ip.IsValid()
}

func (c *client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: more than %d redirects", ErrServer, maxRedirects)
	}
	if req.URL.Host != c.base.Host {
		req.Header.Del("Authorization")
	}
	req.Header.Del("Referer")
	return c.checkURL(req.URL)
}

// get sends a request for path, which is slash-separated, unescaped and relative to
// the hub's URL. The caller closes the body.
func (c *client) get(ctx context.Context, path string, query url.Values, header http.Header) (*http.Response, error) {
	u := c.base.JoinPath(path)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("User-Agent", "godwit")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err == nil {
		return resp, nil
	}
	// Only the cause is reported, because the address of a redirect may contain a
	// signature.
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, ErrBlocked), errors.Is(err, ErrServer):
		return nil, err
	}
	return nil, unreached(err)
}

// unreached is the error for a broken connection. Without a network, it leaves out
// the resolver's message, which few users understand.
func unreached(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return fmt.Errorf("%w: %s was not found; is this computer online?", ErrNetwork, dns.Name)
	}
	return fmt.Errorf("%w: %w", ErrNetwork, err)
}

// statusError converts an unsuccessful response to an error with advice for the
// user. what is the repository or file that was requested.
func statusError(resp *http.Response, what string, token bool) error {
	hint := "add an access token of an account that may read it (Settings, Library, or HF_TOKEN)"
	if token {
		hint = "check that the token is valid and that its account accepted the licence on the model's page"
	}
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized:
		return fmt.Errorf("%w to %s (401): check the name; if it is private or gated, %s", ErrAuth, what, hint)
	case code == http.StatusForbidden:
		return fmt.Errorf("%w to %s (403): accept its licence on the model's page and %s", ErrAuth, what, hint)
	case code == http.StatusNotFound || code == http.StatusGone:
		return fmt.Errorf("%w on the hub: %s (%d)", ErrNotFound, what, code)
	case code == http.StatusTooManyRequests:
		wait := "a few minutes"
		if d := retryAfter(resp, time.Now()); d > 0 {
			wait = d.String()
		}
		return fmt.Errorf("%w (429): try again in %s, or add an access token (Settings, Library, or HF_TOKEN)", ErrLimited, wait)
	case retriable(code):
		return fmt.Errorf("%w (%d): try again later", ErrServer, code)
	default:
		return fmt.Errorf("%w: status %d for %s; is --hub-url right?", ErrServer, code, what)
	}
}

// retriable reports whether another try may get a different status.
func retriable(code int) bool {
	return code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500
}

// retryAfter reads the Retry-After header, in seconds or as a date. It returns 0 if
// the header is missing.
func retryAfter(resp *http.Response, now time.Time) time.Duration {
	s := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil && at.After(now) {
		return at.Sub(now).Round(time.Second)
	}
	return 0
}
