package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"godwit/app/api/wire"
	"godwit/app/keys"
)

// Limits of a request.
const (
	maxBody     = 16 << 20
	bodyTime    = 60 * time.Second // time for a whole body
	bodyPause   = 10 * time.Second // longest pause within a body
	headerTime  = 10 * time.Second
	maxHeader   = 64 << 10
	idleTime    = 2 * time.Minute
	maxInFlight = 256 // maximum number of requests that hold a body
)

// Limits of the request bodies in memory, in bytes. A parsed body takes about
// forty times its size. In the worst case, parsed bodies take 40 · (valueBytes
// + maxInFlight · smallBody) = 1.9 GiB, and the bodies themselves take
// maxInFlight · largeBody + rawBytes = 0.4 GiB.
const (
	smallBody  = 64 << 10  // bodies up to this size are always parsed at once
	valueBytes = 32 << 20  // total size of larger bodies that are parsed at the same time
	largeBody  = 1 << 20   // bodies up to this size are always received at once
	rawBytes   = 128 << 20 // total size of larger bodies in memory at the same time
)

// guard decides which clients may use the server.
type guard struct {
	hosts   []string // in lower case, without ports
	origins []string
	keys    [][sha256.Size]byte
	named   *keys.Book // named keys; may be nil
	remote  bool       // whether the server listens beyond loopback

	total, pause time.Duration // maximum time for a body, and maximum pause within a body
	turn         time.Duration // maximum time that a complete body waits until it is parsed
}

// newGuard returns a guard for the settings.
func newGuard(host string, hosts, origins, keys []string) *guard {
	g := &guard{hosts: []string{"localhost", "127.0.0.1", "::1"}, remote: !loopback(host), total: bodyTime, pause: bodyPause, turn: bodyTime}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(hostOnly(h)))
	}
	for _, o := range origins {
		g.origins = append(g.origins, strings.ToLower(strings.TrimSuffix(o, "/")))
	}
	for _, k := range keys {
		if k != "" {
			g.keys = append(g.keys, sha256.Sum256([]byte(k)))
		}
	}
	return g
}

// loopback reports whether a listening address is reachable only from this machine.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// hostOnly removes the port and brackets.
func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// check rejects requests that web pages or other machines may have caused, before any work
// is done.
func (g *guard) check(r *http.Request) error {
	if !g.hostAllowed(r) {
		return forbidden("host_not_allowed", "host %.128q is not allowed; use localhost, 127.0.0.1 or [::1], or add the name with --allowed-host", r.Host)
	}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 {
		return forbidden("origin_not_allowed", "the request has more than one Origin header")
	}
	if len(origins) == 1 && !g.originAllowed(origins[0], r) {
		return forbidden("origin_not_allowed", "origin %.128q is not allowed; add it with --allowed-origin", origins[0])
	}
	// Browsers send this even without an Origin, as for images and scripts.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && (site == "cross-site" || site == "same-site") {
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !read || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return forbidden("origin_not_allowed", "requests from other sites' pages are not allowed")
		}
	}
	return nil
}

func forbidden(code, format string, args ...any) error {
	e := wire.Fault(http.StatusForbidden, wire.Forbidden, format, args...)
	e.Code = code
	return e
}

func (g *guard) hostAllowed(r *http.Request) bool {
	host := strings.TrimSuffix(strings.ToLower(hostOnly(r.Host)), ".") // a trailing dot does not change the name
	if host == "" {
		return false
	}
	if slices.Contains(g.hosts, host) {
		return true
	}
	if !g.remote {
		return false
	}
	// A page can make its own name resolve to this machine, but it cannot have a
	// bare address as its host. The address at which the request arrived is
	// therefore safe.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	ip, err2 := netip.ParseAddr(host)
	return err == nil && err2 == nil && at.Addr().Unmap() == ip.Unmap()
}

// originAllowed reports whether an origin is the server itself or is listed.
func (g *guard) originAllowed(origin string, r *http.Request) bool {
	origin = strings.ToLower(origin)
	if slices.Contains(g.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return err == nil && u.Scheme == scheme && u.Host != "" && u.Host == strings.ToLower(r.Host)
}

// keyOf returns the API key of a request. It returns "" if the request has none, or
// if the server needs none.
func (g *guard) keyOf(r *http.Request) string {
	if !g.keyed() {
		return ""
	}
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return r.Header.Get("X-Api-Key")
}

// keyed reports whether requests need a key.
func (g *guard) keyed() bool { return len(g.keys) > 0 || g.named.Required() }

// several reports whether clients have different API keys, named or not.
func (g *guard) several() bool { return len(g.keys) > 1 || g.named.Required() }

// authorise checks the API key if the server has keys. It returns what a named key
// grants, and nil for other keys.
func (g *guard) authorise(r *http.Request) (*keys.Grant, error) {
	if !g.keyed() {
		return nil, nil
	}
	key := g.keyOf(r)
	if grant := g.named.Find(key); grant != nil {
		return grant, nil
	}
	sum := sha256.Sum256([]byte(key))
	match := 0
	for i := range g.keys { // compares all keys, so that the time does not depend on the match
		match |= subtle.ConstantTimeCompare(sum[:], g.keys[i][:])
	}
	if match == 1 {
		return nil, nil
	}
	e := wire.Fault(http.StatusUnauthorized, wire.Unauthorized, "a valid API key is required in the header Authorization: Bearer KEY or x-api-key: KEY")
	e.Code = "invalid_api_key"
	return nil, e
}

// cross handles CORS. It answers preflight requests and adds the headers for
// allowed origins. It reports whether it has answered the request.
func (g *guard) cross(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(g.origins, strings.ToLower(origin)) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", wire.IgnoredHeader+", "+wire.NoticeHeader)
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			// Allow all requested headers. OpenAI's and Anthropic's libraries send a dozen
			// custom ones, and "*" does not include Authorization.
			if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
				h.Set("Access-Control-Allow-Headers", asked)
			}
			if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
				h.Set("Access-Control-Allow-Private-Network", "true")
			}
			h.Add("Vary", "Access-Control-Request-Headers")
			h.Set("Access-Control-Max-Age", "600")
		}
	}
	if r.Method != http.MethodOptions {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// checkType rejects bodies that a web page may have sent. If the Content-Type
// is not JSON, browsers send a body to another site without a preflight
// request. Other programs may send any type, because curl declares a form by
// default.
func checkType(r *http.Request) error {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	given := r.Header.Get("Content-Type")
	name, params, err := mime.ParseMediaType(given)
	json := err == nil && (name == "application/json" || strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json"))
	if by := browsing(r); by != "" && !json {
		return wire.Fault(http.StatusUnsupportedMediaType, wire.Invalid, "Content-Type is %.64q, want application/json (curl: -H 'Content-Type: application/json'); other types are accepted only without the header %s", given, by)
	}
	if charset := strings.ToLower(params["charset"]); charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return wire.Fault(http.StatusUnsupportedMediaType, wire.Invalid, "Content-Type is %.64q, want JSON in UTF-8", given)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return wire.Fault(http.StatusUnsupportedMediaType, wire.Invalid, "Content-Encoding %.64q is not supported", e)
	}
	return nil
}

// browsing returns the name of a header that suggests a browser, or "". Every
// current browser sends Origin with a POST, and most send Sec-Fetch-Site. Older
// browsers send the other headers, of which a page can suppress only Referer and
// Cookie.
func browsing(r *http.Request) string {
	for _, name := range []string{"Origin", "Referer", "Cookie", "Accept-Language"} {
		if _, there := r.Header[name]; there {
			return name
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Sec-") {
			return name
		}
	}
	// PowerShell identifies as a browser: Mozilla/5.0 (...) PowerShell/7.4.
	agent := r.UserAgent()
	if browser := strings.HasPrefix(agent, "Mozilla/") || strings.HasPrefix(agent, "Opera/"); browser && !strings.Contains(agent, "PowerShell/") {
		return "User-Agent of a browser"
	}
	return ""
}

// pace enforces a minimum speed on the body of a request.
func (g *guard) pace(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	p := &paced{ReadCloser: r.Body, control: http.NewResponseController(w), pause: g.pause}
	if r.ContentLength > maxBody { // an uploaded file, whose target may be a disk that has to spin up
		p.pause = max(g.pause, g.total)
	}
	r.Body = p
	return p.wait()
}
