package api

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"godwit/app/api/wire"
)

// streamTo requests a long stream over a separate connection with a small receive
// buffer.
func (v *live) streamTo(path string, body object) net.Conn {
	v.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(v.url, "http://"))
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { c.Close() })
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		v.t.Fatal(err)
	}
	text := wire.JSON(body)
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(text), text); err != nil {
		v.t.Fatal(err)
	}
	return c
}

// A client that does not read loses its slot once a limited amount of text waits
// for it. It can still read that text, followed by an error.
func TestStalledClient(t *testing.T) {
	v := startModel(t, func(o *setup) { o.Engine.Parallel = 1 })
	v.patience = wire.Patience{Bytes: 32 << 10, Stall: 100 * time.Millisecond}
	for path, body := range map[string]object{
		"/v1/chat/completions": {"messages": user("a"), "logprobs": true, "top_logprobs": 20},
		"/completion":          {"prompt": "a", "n_probs": 20},
	} {
		body["stream"], body["ignore_eos"], body["logit_bias"] = true, true, []any{[]any{2, false}}
		c := v.streamTo(path, body)
		busy := func() bool { return bytes.Contains(v.ask("GET", "/slots", nil).body, []byte(`"is_processing":true`)) }
		wait(t, "the answer", busy)
		wait(t, "a free slot", func() bool { return !busy() })
		all, err := io.ReadAll(c)
		if err != nil || !bytes.Contains(all, []byte("the answer ended because the client read nothing for 100ms")) || !bytes.HasSuffix(all, []byte("0\r\n\r\n")) {
			t.Errorf("%s: %v, %d bytes, the last ones %q", path, err, len(all), all[max(0, len(all)-300):])
		}
		if len(all) < 32<<10 || len(all) > 4<<20 {
			t.Errorf("%s: %d bytes were kept for the client", path, len(all))
		}
	}
}

// A slow client receives everything, even if more text waits than the outbox holds.
func TestSlowClient(t *testing.T) {
	v := startModel(t, nil)
	v.patience = wire.Patience{Bytes: 16 << 10, Stall: 10 * time.Second}
	body := object{"messages": user("a"), "logprobs": true, "top_logprobs": 20, "stream": true, "max_tokens": 300, "logit_bias": []any{[]any{2, false}}}
	c := v.streamTo("/v1/chat/completions", body)
	var all bytes.Buffer
	for {
		_, err := io.CopyN(&all, c, 16<<10)
		if err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if all.Len() < 256<<10 || !strings.HasSuffix(all.String(), "data: [DONE]\n\n\r\n0\r\n\r\n") {
		t.Errorf("%d bytes, the last ones %q", all.Len(), all.Bytes()[max(0, all.Len()-300):])
	}
}

// taker is a client that reads only when it is allowed to.
type taker struct {
	http.ResponseWriter
	began, allow chan struct{}
	once         sync.Once
	got          bytes.Buffer
}

func (k *taker) Write(b []byte) (int, error) {
	k.once.Do(func() { close(k.began) })
	<-k.allow
	return k.got.Write(b)
}

// The text that waits for a client is limited, in order and complete.
func TestOutbox(t *testing.T) {
	k := &taker{began: make(chan struct{}), allow: make(chan struct{})}
	var why error
	o := wire.NewOutbox(k, wire.Patience{Bytes: 40, Stall: 20 * time.Millisecond}, func(err error) { why = err })
	var want strings.Builder
	for i := range 8 { // 24 bytes each: the sender holds the first one, and the second waits
		text := strings.Repeat(string(rune('a'+i)), 24)
		want.WriteString(text)
		if _, err := o.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		<-k.began
		if (why != nil) != (i >= 2) {
			t.Fatalf("after %d writes: %v", i+1, why)
		}
	}
	close(k.allow)
	o.Close()
	if k.got.String() != want.String() {
		t.Errorf("got %q", k.got.String())
	}
}
