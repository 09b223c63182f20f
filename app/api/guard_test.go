package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// header sets pairs of names and values.
func header(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == "Host" {
				r.Host = pairs[i+1]
			} else {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
}

// guarded is a request with its expected status.
type guarded struct {
	what, method, path string
	body               any
	edit               func(*http.Request)
	status             int
	code               string
}

// guardCases returns requests to a server at an address.
func guardCases(url, port string) []guarded {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	return []guarded{
		{"plain", "GET", "/v1/models", nil, nil, 200, ""},
		{"localhost", "GET", "/v1/models", nil, header("Host", "localhost:"+port), 200, ""},
		{"capitals", "GET", "/v1/models", nil, header("Host", "LOCALHOST"), 200, ""},
		{"IPv6", "GET", "/v1/models", nil, header("Host", "[::1]:"+port), 200, ""},
		{"allowed host", "GET", "/v1/models", nil, header("Host", "box.local:1"), 200, ""},
		{"foreign host", "GET", "/v1/models", nil, header("Host", "evil.example"), 403, "host_not_allowed"},
		{"a host that ends like ours", "GET", "/v1/models", nil, header("Host", "localhost.evil.example"), 403, "host_not_allowed"},
		{"another loopback address", "GET", "/v1/models", nil, header("Host", "127.0.0.2"), 403, "host_not_allowed"},
		{"foreign host of health", "GET", "/health", nil, header("Host", "evil.example"), 403, ""},
		{"own origin", "GET", "/v1/models", nil, header("Origin", url), 200, ""},
		{"allowed origin", "GET", "/v1/models", nil, header("Origin", "http://app.example"), 200, ""},
		{"foreign origin", "GET", "/v1/models", nil, header("Origin", "http://evil.example"), 403, "origin_not_allowed"},
		{"same machine, other port", "GET", "/v1/models", nil, header("Origin", "http://127.0.0.1:1"), 403, "origin_not_allowed"},
		{"null origin", "GET", "/v1/models", nil, header("Origin", "null"), 403, "origin_not_allowed"},
		{"foreign origin before work", "POST", "/nowhere", "{", header("Origin", "http://evil.example"), 403, "origin_not_allowed"},
		{"picture of another site", "GET", "/v1/models", nil, header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"), 403, "origin_not_allowed"},
		{"link of another site", "GET", "/v1/models", nil, header("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"), 200, ""},
		{"other letters", "POST", "/v1/completions", `{"prompt":"a"}`, header("Content-Type", "application/json; charset=utf-16"), 415, ""},
		{"a form of other letters", "POST", "/v1/completions", `{"prompt":"a"}`, header("Content-Type", "text/plain; charset=utf-16"), 415, ""},
		{"packed", "POST", "/v1/completions", `{"prompt":"a"}`, header("Content-Encoding", "gzip"), 415, ""},
		{"not JSON", "POST", "/v1/completions", `{"prompt":`, nil, 400, ""},
		{"more than JSON", "POST", "/v1/completions", `{"prompt":"a"} {}`, nil, 400, ""},
		{"Latin-1", "POST", "/v1/completions", "{\"prompt\":\"caf\xe9\"}", nil, 400, ""},
		{"a list", "POST", "/v1/completions", `[]`, nil, 400, ""},
		{"nothing", "POST", "/v1/completions", nil, nil, 400, ""},
		{"deep", "POST", "/v1/completions", `{"prompt":` + deep + `}`, nil, 400, ""},
		{"large, announced", "POST", "/v1/completions", `{"prompt":"` + strings.Repeat("a", maxBody) + `"}`, header("Expect", "100-continue"), 413, ""},
		{"large, in pieces", "POST", "/v1/completions", `{"prompt":"` + strings.Repeat("a", maxBody) + `"}`, func(r *http.Request) { r.ContentLength = -1 }, 413, ""},
		{"unknown", "GET", "/v1/nothing", nil, nil, 404, "not_found"},
		{"unknown POST", "POST", "/v2/chat", "{}", nil, 404, "not_found"},
		{"root", "GET", "/", nil, nil, 200, ""},
		{"wrong method", "GET", "/v1/chat/completions", nil, nil, 405, "method_not_allowed"},
		{"wrong method", "PUT", "/v1/models", "{}", nil, 405, "method_not_allowed"},
		{"head", "HEAD", "/v1/models", nil, nil, 200, ""},
		{"unneeded key", "GET", "/v1/models", nil, header("Authorization", "Bearer anything", "X-Api-Key", "x"), 200, ""},
	}
}

// A body with a type other than JSON is accepted from programs and rejected from
// possible browsers. A JSON body is accepted from both.
func TestTypes(t *testing.T) {
	v := start(t, nil)
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0"
	const powershell = "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.1"
	// The test's own client sends no headers other than these.
	for _, c := range []struct {
		what    string
		headers []string
		status  int // status for types other than JSON
	}{
		{"Go", nil, 400},
		{"curl", []string{"User-Agent", "curl/8.5.0", "Accept", "*/*"}, 400},
		{"curl with a key", []string{"User-Agent", "curl/8.5.0", "Authorization", "Bearer x"}, 400},
		{"PowerShell", []string{"User-Agent", powershell}, 400},
		{"no-cors fetch, sendBeacon", []string{"Origin", "http://evil.example"}, 403},
		{"the same, as a file or without a referrer", []string{"Origin", "null"}, 403},
		{"an empty origin", []string{"Origin", ""}, 403},
		{"a page of the server", []string{"Origin", v.url}, 415},
		{"a browser that says where a request comes from", []string{"Sec-Fetch-Site", "same-origin"}, 415},
		{"typed in", []string{"Sec-Fetch-Site", "none"}, 415},
		{"its other words", []string{"Sec-Ch-Ua", "x"}, 415},
		{"a form of old", []string{"Referer", "http://evil.example/"}, 415},
		{"cookies of another port", []string{"Cookie", "a=b"}, 415},
		{"a form of old without a referrer", []string{"User-Agent", firefox}, 415},
		{"the same in disguise", []string{"User-Agent", "curl/8.5.0", "Accept-Language", "en"}, 415},
		{"a page in disguise of PowerShell", []string{"User-Agent", powershell, "Origin", "http://evil.example"}, 403},
		{"the oldest", []string{"User-Agent", "Opera/9.80 (X11; Linux i686) Presto/2.12.388 Version/12.16"}, 415},
	} {
		for _, kind := range []string{
			"application/json", "application/json; charset=UTF-8", "application/problem+json",
			"application/x-www-form-urlencoded", "text/plain", "text/plain;charset=UTF-8", "multipart/form-data", "application/csp-report", "a/b; c", "",
		} {
			edit := header(append([]string{"Content-Type", kind}, c.headers...)...)
			// A number is not a prompt. The request is rejected, but only after it
			// was read.
			r := v.ask("POST", "/v1/completions", `{"prompt":5}`, edit)
			want := c.status
			if want == 415 && strings.HasPrefix(kind, "application/") && strings.Contains(kind, "json") {
				want = 400
			}
			if r.status != want {
				t.Errorf("%s, %q: %d %s, want %d", c.what, kind, r.status, r.body, want)
			}
		}
	}
}

// Checks which requests are allowed. Each row is a request with its status.
func TestGuard(t *testing.T) {
	v := start(t, func(o *setup) {
		o.Settings.Server.AllowedHost = []string{"box.local"}
		o.Settings.Server.AllowedOrigin = []string{"http://app.example"}
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(v.url, "http://"))
	for _, c := range guardCases(v.url, port) {
		var edits []func(*http.Request)
		if c.edit != nil {
			edits = append(edits, c.edit)
		}
		r, err := v.try(t.Context(), c.method, c.path, c.body, edits...)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if r.status != c.status {
			t.Errorf("%s: %s %s is %d, want %d: %.200s", c.what, c.method, c.path, r.status, c.status, r.body)
			continue
		}
		if c.status == 200 {
			continue
		}
		e := at(r.json(t), "error")
		if at(e, "message") == "" || at(e, "type") == nil {
			t.Errorf("%s: no error object: %s", c.what, r.body)
		}
		if c.code != "" && at(e, "code") != c.code {
			t.Errorf("%s: code %v, want %s", c.what, at(e, "code"), c.code)
		}
		if got := r.header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: a refused origin gets %q", c.what, got)
		}
		if c.status == 405 && r.header.Get("Allow") == "" {
			t.Errorf("%s: no Allow header", c.what)
		}
	}
	asked := "authorization,content-type,x-stainless-lang,x-stainless-retry-count,anthropic-dangerous-direct-browser-access"
	r := v.ask("OPTIONS", "/v1/models", nil, header("Origin", "http://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", asked))
	if r.status != 204 || r.header.Get("Access-Control-Allow-Headers") != asked || r.header.Get("Access-Control-Allow-Origin") != "http://app.example" {
		t.Errorf("preflight of an allowed origin: %d %v", r.status, r.header)
	}
	if r := v.ask("OPTIONS", "/v1/models", nil, header("Origin", "http://evil.example", "Access-Control-Request-Headers", asked)); r.status != 403 || r.header.Get("Access-Control-Allow-Headers") != "" {
		t.Errorf("preflight of a foreign origin: %d %v", r.status, r.header)
	}
}

// Any of several keys is accepted, in either header. /health needs no key.
func TestKeys(t *testing.T) {
	v := start(t, func(o *setup) { o.Settings.Server.APIKey = []string{"first-key", "second-key"} })
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	for _, c := range []struct {
		path   string
		edit   func(*http.Request)
		status int
	}{
		{"/v1/models", set("X-None", ""), 401},
		{"/v1/models", set("Authorization", "Bearer first-key"), 200},
		{"/v1/models", set("Authorization", "bearer second-key"), 200},
		{"/v1/models", set("X-Api-Key", "second-key"), 200},
		{"/v1/models", set("Authorization", "Bearer first-ke"), 401},
		{"/v1/models", set("Authorization", "Bearer first-key2"), 401},
		{"/v1/models", set("Authorization", "Basic first-key"), 401},
		{"/v1/models", set("Authorization", "Bearer "), 401},
		{"/nowhere", set("X-None", ""), 401},
		{"/health", set("X-None", ""), 200},
	} {
		if r := v.ask("GET", c.path, nil, c.edit); r.status != c.status {
			t.Errorf("%s: %d, want %d", c.path, r.status, c.status)
		}
	}
	if kind := at(v.ask("POST", "/v1/messages", "{}").json(t), "error", "type"); kind != "authentication_error" {
		t.Errorf("Anthropic's error is %v", kind)
	}
}

// Listening beyond this machine requires a key.
func TestExposed(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "192.0.2.1", "::", "example.com"} {
		o := Options{}
		o.Settings.Server.Host = host
		if _, err := New(nil, o); !errors.Is(err, ErrExposed) {
			t.Errorf("--host %s without a key: %v", host, err)
		}
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::1", "[::1]", "127.9.9.9"} {
		if !loopback(host) {
			t.Errorf("%s counts as another machine's", host)
		}
	}
}

// Bodies wait in order for memory to be parsed. Small ones pass, and cancelled ones
// leave the queue.
func TestBodiesInTurn(t *testing.T) {
	v := start(t, nil)
	pad := func(bytes int) string { return `{"prompt":5,"pad":"` + strings.Repeat("a", bytes) + `"}` }
	if !v.values.try(valueBytes) {
		t.Fatal("not idle")
	}
	for _, size := range []int{smallBody, largeBody - 100, 2 * largeBody} {
		answered := make(chan reply, 1)
		go func() {
			r, err := v.try(t.Context(), "POST", "/v1/completions", pad(size))
			if err != nil {
				t.Error(err)
			}
			answered <- r
		}()
		wait(t, "the large one", func() bool { _, n := v.values.state(); return n == 1 })
		if r := v.ask("POST", "/v1/completions", `{"prompt":5}`); r.status != 400 {
			t.Errorf("a small one beside %d bytes: %d %s", size, r.status, r.body)
		}
		v.values.give(valueBytes)
		if r := <-answered; r.status != 400 || at(r.json(t), "error", "param") != "prompt" {
			t.Errorf("%d bytes: %d %s", size, r.status, r.body)
		}
		wait(t, "its bytes", func() bool { return v.values.try(valueBytes) })

		ctx, hangUp := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := v.try(ctx, "POST", "/v1/completions", pad(size))
			left <- err
		}()
		wait(t, "one that will hang up", func() bool { _, n := v.values.state(); return n == 1 })
		hangUp()
		<-left
		wait(t, "the queue without it", func() bool { _, n := v.values.state(); return n == 0 && len(v.flight) == 0 })
	}
	v.guard.turn = 50 * time.Millisecond
	if r := v.ask("POST", "/v1/completions", pad(smallBody)); r.status != 503 || r.header.Get("Retry-After") == "" {
		t.Errorf("one that waited too long: %d %s", r.status, r.body)
	}
	wait(t, "the end of all", func() bool { used, _ := v.raw.state(); return used == 0 && len(v.flight) == 0 })
}

// The memory of large bodies that are not parsed yet is limited too.
func TestLargeBodies(t *testing.T) {
	v := start(t, nil)
	if !v.raw.try(rawBytes - 3*largeBody) {
		t.Fatal("not idle")
	}
	chunked := func(r *http.Request) { r.ContentLength = -1 }
	for _, c := range []struct {
		size, status int
		edit         func(*http.Request)
	}{
		{2 * largeBody, 400, func(*http.Request) {}},
		{4 * largeBody, 503, func(*http.Request) {}},
		{2 * largeBody, 503, chunked}, // may have any size
		{largeBody / 2, 400, chunked},
	} {
		r := v.ask("POST", "/v1/completions", strings.Repeat(" ", c.size), c.edit)
		if r.status != c.status || (r.header.Get("Retry-After") != "") != (c.status == 503) {
			t.Errorf("%d bytes: %d %s, want %d", c.size, r.status, r.body, c.status)
		}
		wait(t, "its bytes", func() bool { used, _ := v.raw.state(); return used == rawBytes-3*largeBody })
	}
}

// A body that stalls is cut off, and so is one that arrives too slowly. A body that
// is not needed does not keep its connection open.
func TestSlowBody(t *testing.T) {
	for _, c := range []struct {
		what         string
		total, pause time.Duration
		every        time.Duration
		header       string
		status       int
	}{
		{"stops", time.Hour, 100 * time.Millisecond, time.Hour, "Accept: */*", 408},
		{"trickles", 300 * time.Millisecond, time.Hour, 20 * time.Millisecond, "Accept: */*", 408},
		{"is of a stranger", time.Hour, 100 * time.Millisecond, time.Hour, "Origin: http://evil.example", 403},
	} {
		v := start(t, nil)
		v.guard.total, v.guard.pause = c.total, c.pause
		conn, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", c.header)
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(c.every):
					fmt.Fprint(conn, " ")
				}
			}
		}()
		_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
		answer, err := io.ReadAll(conn)
		close(stop)
		conn.Close()
		if c.what == "trickles" { // bytes that still arrive may reset the connection after the answer
			err = nil
		}
		if err != nil || !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", c.status)) {
			t.Errorf("%s: %v, %.100q", c.what, err, answer)
		}
	}
}

// Three hundred clients that send half a body and then wait do not block other
// requests, with and without keys.
func TestHalfSentBodies(t *testing.T) {
	for _, keys := range [][]string{nil, {"secret"}} {
		v := startModel(t, func(o *setup) { o.Settings.Server.APIKey = keys })
		for i := range 300 {
			conn, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{%d", i)
		}
		if keys == nil {
			wait(t, "the bodies", func() bool { return len(v.flight) == cap(v.flight) })
		}
		for range 8 {
			begun := time.Now()
			r := v.ask("POST", "/v1/completions", object{"prompt": "a", "max_tokens": 1}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret") })
			if took := time.Since(begun); r.status != 200 || took > flightWait {
				t.Errorf("beside 300 half-sent bodies, keys %v: %d %s after %v", keys, r.status, r.body, took)
			}
		}
	}
}

// A client that closes its sending side gets no answer, like one that disconnected,
// but receives the reason. The counters count both separately from failures.
func TestHalfClosed(t *testing.T) {
	v := shared(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"prompt":"a","max_tokens":800,"logit_bias":{"0":-100,"2":-100}}`
	fmt.Fprintf(conn, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 499 ") || !strings.Contains(string(answer), "the connection was closed") {
		t.Errorf("%v, %.300q", err, answer)
	}
}
