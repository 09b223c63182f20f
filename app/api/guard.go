package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/app/api/wire"
)

// Limits of a request.
const (
	maxBody     = 16 << 20
	bodyTime    = 60 * time.Second // for a whole body
	bodyPause   = 10 * time.Second // without a byte of it
	headerTime  = 10 * time.Second
	maxHeader   = 64 << 10
	idleTime    = 2 * time.Minute
	maxInFlight = 256 // requests that hold a body
)

// Limits of the bodies that requests hold, in bytes. A body read into values
// takes some forty times its size: at worst 40 · (valueBytes + maxInFlight ·
// smallBody), 1.9 GiB, beside maxInFlight · largeBody + rawBytes, 0.4 GiB, for
// the bodies themselves.
const (
	smallBody  = 64 << 10  // up to it a body is always read into values
	valueBytes = 32 << 20  // limit on larger bodies held as values at the same time
	largeBody  = 1 << 20   // up to it a body is always taken from the network
	rawBytes   = 128 << 20 // limit on larger bodies held at the same time
)

// guard decides who may talk to the server.
type guard struct {
	hosts   []string // lower case, without ports
	origins []string
	keys    [][sha256.Size]byte
	remote  bool // listens beyond loopback

	total, pause time.Duration // for a body, and without a byte of it
	turn         time.Duration // until a body that is there is read into values
}

// newGuard reads the rules.
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

// loopback reports whether an address to listen on is reachable from this
// machine alone.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// hostOnly takes the port and the brackets off.
func hostOnly(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// check refuses requests that web pages or other machines may have caused,
// before any work.
func (g *guard) check(r *http.Request) error {
	if !g.hostAllowed(r) {
		return forbidden("host_not_allowed", "host %.128q is not allowed, only localhost, 127.0.0.1 and [::1]; --allowed-host adds names", r.Host)
	}
	origins := r.Header.Values("Origin")
	if len(origins) > 1 {
		return forbidden("origin_not_allowed", "more than one origin")
	}
	if len(origins) == 1 && !g.originAllowed(origins[0], r.Host) {
		return forbidden("origin_not_allowed", "origin %.128q is not allowed; --allowed-origin adds one", origins[0])
	}
	// Browsers say so even where they send no Origin, as for images and scripts.
	if site := r.Header.Get("Sec-Fetch-Site"); len(origins) == 0 && (site == "cross-site" || site == "same-site") {
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		if !read || r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			return forbidden("origin_not_allowed", "requests of other sites' pages are not allowed")
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
	host := strings.TrimSuffix(strings.ToLower(hostOnly(r.Host)), ".") // a name that ends in a dot is the same name
	if host == "" {
		return false
	}
	if slices.Contains(g.hosts, host) {
		return true
	}
	if !g.remote {
		return false
	}
	// A page cannot make a name resolve to us and then have a bare address as
	// its host, so the address that the request came in on is safe.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	ip, err2 := netip.ParseAddr(host)
	return err == nil && err2 == nil && at.Addr().Unmap() == ip.Unmap()
}

// originAllowed reports whether an origin is the server itself or listed.
func (g *guard) originAllowed(origin, host string) bool {
	origin = strings.ToLower(origin)
	if slices.Contains(g.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Scheme == "http" && u.Host != "" && u.Host == strings.ToLower(host)
}

// keyOf is the API key of a request; empty if it has none, or none is needed.
func (g *guard) keyOf(r *http.Request) string {
	if len(g.keys) == 0 {
		return ""
	}
	if scheme, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(key)
	}
	return r.Header.Get("X-Api-Key")
}

// authorise checks the key, where keys are set.
func (g *guard) authorise(r *http.Request) error {
	if len(g.keys) == 0 {
		return nil
	}
	sum := sha256.Sum256([]byte(g.keyOf(r)))
	match := 0
	for i := range g.keys { // all of them, whatever matches
		match |= subtle.ConstantTimeCompare(sum[:], g.keys[i][:])
	}
	if match == 1 {
		return nil
	}
	e := wire.Fault(http.StatusUnauthorized, wire.Unauthorized, "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY")
	e.Code = "invalid_api_key"
	return e
}

// cross answers what browsers ask before and after requests of allowed
// origins. It reports whether the request is answered.
func (g *guard) cross(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(g.origins, strings.ToLower(origin)) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", wire.IgnoredHeader+", "+wire.NoticeHeader)
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
			// Whatever it asks for: the libraries of OpenAI and Anthropic send a dozen
			// headers of their own, and a star does not stand for Authorization.
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

// checkType refuses bodies that a web page may have sent: browsers send them
// across sites without asking first where their Content-Type is not JSON's.
// Programs other than browsers may send any type, since curl says that what
// it sends is a form unless a header says otherwise.
func checkType(r *http.Request) error {
	if r.ContentLength == 0 && len(r.TransferEncoding) == 0 {
		return nil
	}
	given := r.Header.Get("Content-Type")
	name, params, err := mime.ParseMediaType(given)
	json := err == nil && (name == "application/json" || strings.HasPrefix(name, "application/") && strings.HasSuffix(name, "+json"))
	if by := browsing(r); by != "" && !json {
		return wire.Fault(http.StatusUnsupportedMediaType, wire.Invalid, "Content-Type is %.64q, want application/json (curl: -H 'Content-Type: application/json'); others are taken only from programs that send no %s", given, by)
	}
	if charset := strings.ToLower(params["charset"]); charset != "" && charset != "utf-8" && charset != "us-ascii" {
		return wire.Fault(http.StatusUnsupportedMediaType, wire.Invalid, "Content-Type is %.64q, want JSON in UTF-8", given)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return wire.Fault(http.StatusUnsupportedMediaType, wire.Invalid, "Content-Encoding %.64q is not supported", e)
	}
	return nil
}

// browsing names what in a request may come from a browser, empty if nothing
// does. Every browser of today sends Origin with a post, whatever the page asks
// for, and most send Sec-Fetch-Site; those from before send the others, none of
// which a page can take away but Referer and Cookie.
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
	// PowerShell gives itself out as a browser: Mozilla/5.0 (...) PowerShell/7.4.
	agent := r.UserAgent()
	if browser := strings.HasPrefix(agent, "Mozilla/") || strings.HasPrefix(agent, "Opera/"); browser && !strings.Contains(agent, "PowerShell/") {
		return "User-Agent of a browser"
	}
	return ""
}

// body reads the body of a request within its limits of size and time.
func (s *Server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := checkType(r); err != nil {
		return nil, err
	}
	tooLarge := wire.Fault(http.StatusRequestEntityTooLarge, wire.Invalid, "the body is larger than %d bytes", maxBody)
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	if p, ok := r.Body.(*paced); ok {
		p.end = time.Now().Add(s.guard.total)
	}
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	data, err := io.ReadAll(io.LimitReader(limited, largeBody))
	if err == nil && len(data) == largeBody {
		size := r.ContentLength
		if size < 0 {
			size = maxBody
		}
		if !s.raw.try(size) {
			_, _ = io.Copy(io.Discard, limited) // a connection that breaks while it sends tells a client no reason
			return nil, wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "the large bodies of other requests take the %d bytes that there are for them", rawBytes)
		}
		context.AfterFunc(r.Context(), func() { s.raw.give(size) })
		var rest []byte
		rest, err = io.ReadAll(limited)
		data = append(data, rest...)
	}
	var limit *http.MaxBytesError
	switch {
	case errors.As(err, &limit):
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		return nil, wire.Fault(http.StatusRequestTimeout, wire.Invalid, "the body came too slowly: %d bytes, then nothing", len(data))
	case err != nil:
		return nil, wire.Bad("", "the body broke off after %d bytes: %v", len(data), err)
	}
	if rec, ok := w.(*recorder); ok {
		if names := wire.Ignored(data, rec.request); names != "" {
			w.Header().Set(wire.IgnoredHeader, names)
		}
	}
	return data, s.admit(r, int64(len(data)))
}

// admit waits until a body can be read into values, for as long as a body may
// take to come. The request counts with its bytes until it ends. The body has
// been read to its end, so a client that hangs up is noticed.
func (s *Server) admit(r *http.Request, bytes int64) error {
	if bytes <= smallBody {
		return nil
	}
	ctx, cancel := s.context(r)
	defer cancel()
	full := wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "requests with %d bytes are being answered; this one has %d", valueBytes, bytes)
	ctx, stop := context.WithTimeoutCause(ctx, s.guard.turn, full)
	defer stop()
	if err := s.values.take(ctx, bytes); err != nil {
		return err
	}
	context.AfterFunc(r.Context(), func() { s.values.give(bytes) })
	return nil
}

// paced gives every read of a body a deadline, and what is left of it when its
// request has been answered.
type paced struct {
	io.ReadCloser
	control *http.ResponseController
	pause   time.Duration
	end     time.Time // deadline of the whole body; zero: none
	begun   time.Time // when its request was taken up
	readers *readers  // owner until the body ends; nil: none

	mu     sync.Mutex
	ousted bool // made room for another request
}

// oust ends the body.
func (p *paced) oust() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ousted = true
	_ = p.control.SetReadDeadline(time.Now()) // it was set before, so it can be set
}

// pace has the body of a request come at some speed, or end.
func (g *guard) pace(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	p := &paced{ReadCloser: r.Body, control: http.NewResponseController(w), pause: g.pause}
	if r.ContentLength > maxBody { // a file of the page: its disk may have to wake up
		p.pause = max(g.pause, g.total)
	}
	r.Body = p
	return p.wait()
}

func (p *paced) wait() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ousted {
		return os.ErrDeadlineExceeded
	}
	next := time.Now().Add(p.pause)
	if !p.end.IsZero() && next.After(p.end) {
		next = p.end
	}
	return p.control.SetReadDeadline(next)
}

func (p *paced) Read(b []byte) (int, error) {
	if err := p.wait(); err != nil {
		return 0, err
	}
	n, err := p.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) { // from here on the server watches whether the client goes
		if p.readers != nil {
			p.readers.drop(p)
		}
		if err := p.control.SetReadDeadline(time.Time{}); err != nil {
			return n, err
		}
	}
	return n, err
}
