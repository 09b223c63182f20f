package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/app/config"
	"godwit/app/device"
	"godwit/engine"
	"godwit/engine/llm"
)

type benchServeCmd struct {
	modelArg
	config.Engine
	Clients  int  `default:"8" placeholder:"N" help:"Number of concurrent clients."`
	Requests int  `default:"4" placeholder:"N" help:"Requests of each client; every fourth has a long prompt."`
	Gen      int  `name:"n-gen" default:"64" placeholder:"N" help:"Tokens of each answer."`
	Short    int  `name:"short-prompt" default:"32" placeholder:"N" help:"Tokens of a short prompt."`
	Long     int  `name:"long-prompt" default:"512" placeholder:"N" help:"Tokens of a long prompt."`
	Beside   int  `name:"beside" default:"4000" placeholder:"N" help:"Tokens of the prompt that is processed while an answer runs. 0 skips this test."`
	JSON     bool `name:"json" default:"true" negatable:"" help:"No effect; the output is always JSON."`
}

// loadFigures holds the results of bench-serve. Times are in milliseconds.
type loadFigures struct {
	Model    string      `json:"model"`
	Threads  int         `json:"n_threads"`
	Clients  int         `json:"clients"`
	Requests int         `json:"requests"`
	UBatch   int         `json:"n_ubatch"`
	Load     loadPhase   `json:"load"`
	Single   loadPhase   `json:"single"`
	Speedup  float64     `json:"speedup"`  // throughput of all clients relative to one client, with short prompts
	Overhead float64     `json:"overhead"` // share of one client's time outside the device
	Many     loadPhase   `json:"many"`     // results of all clients with short prompts
	Beside   *besideLoad `json:"beside_prefill,omitempty"`
}

// loadPhase holds the results of some requests.
type loadPhase struct {
	Seconds    float64     `json:"seconds"`
	Prompt     int         `json:"prompt_tokens"`
	Generated  int         `json:"generated_tokens"`
	Throughput float64     `json:"tok_s"` // generated
	First      percentiles `json:"ttft_ms"`
	Between    percentiles `json:"itl_ms"`
	device     float64     // seconds on the device
}

// besideLoad holds the results of one answer while a long prompt is read. A
// step reads a chunk of the prompt and generates a token of the answer. Later
// chunks take longer, because they attend to more tokens.
type besideLoad struct {
	Prompt  int         `json:"prompt_tokens"`
	Between percentiles `json:"itl_ms"`
	Chunks  int         `json:"chunks"`    // steps that read a part of the prompt
	Alone   int         `json:"alone"`     // steps that did not generate a token of the answer
	Chunk   float64     `json:"chunk_ms"`  // duration of the longest step that reads a part of the prompt
	Device  float64     `json:"device_ms"` // total duration of the steps that read a part of the prompt

	Gap99   float64 `json:"itl_p99_ms"`
	Gap     float64 `json:"itl_longest_ms"`
	Speed   float64 `json:"prompt_tok_s"`       // speed of reading the prompt, up to the first token of its answer
	Without float64 `json:"prompt_alone_tok_s"` // speed without the other answer
	Share   float64 `json:"prompt_share"`       // Speed relative to Without
}

type percentiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

func newPercentiles(list []time.Duration) percentiles {
	if len(list) == 0 {
		return percentiles{}
	}
	slices.Sort(list)
	return percentiles{quantile(list, 0.50), quantile(list, 0.95)}
}

// quantile returns the time in milliseconds that a share of a sorted list does not exceed.
func quantile(list []time.Duration, share float64) float64 {
	return float64(list[int(share*float64(len(list)-1)+0.5)].Microseconds()) / 1000
}

// Run loads the model behind a real server and drives it over HTTP.
func (c *benchServeCmd) Run(r *run) (err error) {
	if c.Clients < 1 || c.Requests < 1 || c.Gen < 2 || c.Short < 1 || c.Long < 1 || c.Beside < 0 {
		return usage{errors.New("the numbers of clients, requests and prompt tokens must be positive, and an answer must have at least two tokens")}
	}
	longest := max(c.Short, c.Long, c.Beside) + c.Gen + 1
	if c.CtxSize == 0 {
		c.CtxSize = longest
	}
	if c.CtxSize < longest {
		return usage{fmt.Errorf("-c %d is too small; the prompts and answers need %d tokens", c.CtxSize, longest)}
	}
	if c.KVCells == 0 {
		c.KVCells = c.CtxSize + max(c.Clients*(max(c.Short, c.Long)+c.Gen+64), c.Beside/2+64)
	}
	c.Parallel = max(c.Parallel, c.Clients)
	d, stop, err := c.serve(r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if c.Threads == 0 {
		cpu, err := device.CPU()
		if err != nil {
			return err
		}
		c.Threads = cpu.Threads
	}
	out := loadFigures{Model: d.model, Threads: c.Threads, Clients: c.Clients, Requests: c.Requests, UBatch: c.UBatch}
	short := func(int) int { return c.Short }
	if _, err := d.phase(1, 1, c.Gen, short); err != nil { // warm-up
		return err
	}
	if out.Single, err = d.phase(1, c.Requests, c.Gen, short); err != nil {
		return err
	}
	out.Overhead = max(0, 1-out.Single.device/out.Single.Seconds)
	if out.Many, err = d.phase(c.Clients, c.Requests, c.Gen, short); err != nil {
		return err
	}
	out.Speedup = out.Many.Throughput / out.Single.Throughput
	if out.Load, err = d.phase(c.Clients, c.Requests, c.Gen, func(i int) int {
		if i%4 == 3 {
			return c.Long
		}
		return c.Short
	}); err != nil {
		return err
	}
	if c.Beside > 0 {
		if out.Beside, err = d.beside(c.Beside); err != nil {
			return err
		}
	}
	return r.json(out)
}

// serve starts the server on a free port and waits for its model.
func (c *benchServeCmd) serve(r *run) (*driver, func() error, error) {
	set := config.Default()
	set.Engine, set.Server.Port, set.Server.KeepAlive = c.Engine, 0, config.Forever
	e, err := r.options(&c.Engine, wait)
	if err != nil {
		return nil, nil, err
	}
	lib, err := r.library(set.Library)
	if err != nil {
		return nil, nil, err
	}
	m, err := r.model(lib, c.Model)
	if err != nil {
		return nil, nil, errors.Join(err, lib.Close())
	}
	d := &driver{ctx: r.ctx, model: m.Name, vocab: m.Vocab}
	e.Observe = d.observe
	h, err := r.host(hosting{settings: set, engine: e, model: &m, library: lib})
	if err != nil {
		return nil, nil, err
	}
	l, err := h.api.Listen()
	if err != nil {
		return nil, nil, errors.Join(err, h.Close())
	}
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.serve(ctx, l) }()
	stop := func() error {
		cancel()
		return <-ended
	}
	if err := h.models.Ready(r.ctx); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	d.url = h.api.URL(l)
	return d, stop, nil
}

// driver sends requests to a server and times the responses.
type driver struct {
	ctx   context.Context
	url   string
	model string
	vocab int
	mu    sync.Mutex
	seed  int
	steps []engine.Step // recorded steps of the device
}

// observe records a step. It runs on the device's goroutine.
func (d *driver) observe(st engine.Step) {
	d.mu.Lock()
	d.steps = append(d.steps, st)
	d.mu.Unlock()
}

// taken returns the steps since the last call.
func (d *driver) taken() []engine.Step {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.steps
	d.steps = nil
	return list
}

// prompt returns n tokens whose beginning is unique.
func (d *driver) prompt(n int) []llm.Token {
	d.mu.Lock()
	d.seed++
	state := uint32(d.seed) * 2654435761
	d.mu.Unlock()
	out := make([]llm.Token, n)
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = llm.Token(int(state>>8) % d.vocab)
	}
	return out
}

// timed holds the arrival times of an answer's pieces, counted from the request.
type timed struct {
	pieces    []time.Duration
	generated int
}

// send posts a request and times its stream. piece, if set, is called for each
// piece. The prompt is always computed, even if an earlier run left it on disk.
func (d *driver) send(prompt []llm.Token, gen int, piece func(n int)) (timed, error) {
	var t timed
	body, err := json.Marshal(map[string]any{
		"prompt": prompt, "max_tokens": gen, "temperature": 0, "ignore_eos": true, "stream": true,
		"stream_options": map[string]bool{"include_usage": true}, "cache_prompt": false, "cache_store": false,
	})
	if err != nil {
		return t, err
	}
	req, err := http.NewRequestWithContext(d.ctx, http.MethodPost, d.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return t, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return t, err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
		return t, fmt.Errorf("%s: %s", resp.Status, text)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		now := time.Since(start)
		var chunk struct {
			Choices []struct{ Text string }
			Usage   *struct {
				Completion int `json:"completion_tokens"`
				Prompt     struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
			Error *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return t, err
		}
		switch {
		case chunk.Error != nil:
			return t, errors.New(chunk.Error.Message)
		case chunk.Usage != nil && chunk.Usage.Prompt.Cached > 0:
			return t, fmt.Errorf("nothing was measured, because %d prompt tokens were reused instead of computed", chunk.Usage.Prompt.Cached)
		case chunk.Usage != nil:
			t.generated = chunk.Usage.Completion
		case len(chunk.Choices) > 0 && chunk.Choices[0].Text != "":
			t.pieces = append(t.pieces, now)
			if piece != nil {
				piece(len(t.pieces))
			}
		}
	}
	return t, lines.Err()
}

// phase runs clients at the same time and sums up their results.
func (d *driver) phase(clients, requests, gen int, length func(i int) int) (loadPhase, error) {
	d.taken()
	var p loadPhase
	var mu sync.Mutex
	var first, between []time.Duration
	var errs []error
	var work sync.WaitGroup
	start := time.Now()
	for client := range clients {
		work.Go(func() {
			for i := range requests {
				n := length(client + i)
				t, err := d.send(d.prompt(n), gen, nil)
				mu.Lock()
				errs = append(errs, err)
				p.Prompt += n
				p.Generated += t.generated
				for k, at := range t.pieces {
					if k == 0 {
						first = append(first, at)
					} else {
						between = append(between, at-t.pieces[k-1])
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	work.Wait()
	p.Seconds = time.Since(start).Seconds()
	for _, st := range d.taken() {
		p.device += st.Took.Seconds()
	}
	p.Throughput = float64(p.Generated) / p.Seconds
	p.First, p.Between = newPercentiles(first), newPercentiles(between)
	return p, errors.Join(errs...)
}

// beside times an answer while a long prompt is read.
func (d *driver) beside(prompt int) (*besideLoad, error) {
	alone, err := d.send(d.prompt(prompt), 2, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(d.ctx)
	defer cancel()
	running := &driver{ctx: ctx, url: d.url, vocab: d.vocab, seed: 1 << 20}
	var mu sync.Mutex
	var at []time.Time
	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		_, err := running.send(running.prompt(8), prompt/2, func(n int) {
			mu.Lock()
			at = append(at, time.Now())
			mu.Unlock()
			if n == 4 {
				close(started)
			}
		})
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		select {
		case <-started: // with a small model, the prompt may be read before the loop starts
			ended <- err
		default:
			return nil, errors.Join(errors.New("the answer that runs alongside the prompt ended early"), err)
		}
	}
	d.taken()
	from := time.Now()
	read, err := d.send(d.prompt(prompt), 2, nil)
	if err != nil {
		return nil, err
	}
	to := time.Now()
	out := &besideLoad{Prompt: prompt}
	if len(read.pieces) > 0 && len(alone.pieces) > 0 {
		out.Speed, out.Without = float64(prompt)/read.pieces[0].Seconds(), float64(prompt)/alone.pieces[0].Seconds()
		out.Share = out.Speed / out.Without
	}
	for _, st := range d.taken() {
		if st.Prefill == 0 {
			continue
		}
		ms := float64(st.Took.Microseconds()) / 1000
		out.Chunks++
		out.Chunk, out.Device = max(out.Chunk, ms), out.Device+ms
		if st.Decode == 0 {
			out.Alone++
		}
	}
	cancel()
	<-ended // always an error, because the answer was cancelled
	var between []time.Duration
	mu.Lock()
	defer mu.Unlock()
	for i := 1; i < len(at); i++ {
		if at[i].After(from) && at[i].Before(to) {
			between = append(between, at[i].Sub(at[i-1]))
		}
	}
	if out.Between = newPercentiles(between); len(between) > 0 {
		out.Gap99, out.Gap = quantile(between, 0.99), quantile(between, 1)
	}
	return out, nil
}
