package api

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"godwit/app/keys"
)

var (
	metricName  = regexp.MustCompile(`\b(?:godwit_|process_|go_|llamacpp:)[a-z0-9_]+`)
	metricLabel = regexp.MustCompile(`([a-z0-9_:]+)\{([^}]*)\}`)
	labelValue  = regexp.MustCompile(`([a-z]+)=~?"([^"]*)"`)
)

// board is the part of the Grafana dashboard that the test reads.
type board struct {
	Templating struct{ List []struct{ Query string } }
	Panels     []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
	}
}

// Every metric of the dashboard, with its labels and their values, is in /metrics of a
// server that has answered requests, and the scrape configuration reads that path with
// a key of the kind that it recommends.
func TestMonitoring(t *testing.T) {
	var log buffer
	v, s := startKeyed(t, &log, keys.Key{Name: "user"}, keys.Key{Name: "prometheus", Limits: keys.Limits{Models: []string{"none"}}})
	chat := object{"messages": user(question), "max_tokens": 4}
	for _, secret := range s {
		v.ask("POST", "/v1/chat/completions", chat, bearer(secret))
	}
	dir := filepath.Join("..", "..", "build", "monitoring")
	scrape, err := os.ReadFile(filepath.Join(dir, "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`metrics_path: (\S+)`).FindSubmatch(scrape)
	if path == nil || !strings.Contains(string(scrape), "key add prometheus --models none") {
		t.Fatalf("the scrape configuration is\n%s", scrape)
	}
	r := v.ask("GET", string(path[1]), nil, bearer(s[1]))
	if r.status != 200 || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s", r.status, r.header)
	}
	metrics := string(r.body)

	data, err := os.ReadFile(filepath.Join(dir, "grafana.json"))
	if err != nil {
		t.Fatal(err)
	}
	var b board
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	ids, expressions := map[int]bool{}, []string{}
	for _, p := range b.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, x := range p.Targets {
			expressions = append(expressions, x.Expr)
		}
	}
	for _, x := range b.Templating.List {
		expressions = append(expressions, x.Query)
	}
	found := 0
	for _, x := range expressions {
		for _, open := range []string{"()", "[]", "{}"} {
			if strings.Count(x, open[:1]) != strings.Count(x, open[1:]) {
				t.Errorf("unbalanced brackets in %s", x)
			}
		}
		for _, name := range metricName.FindAllString(x, -1) {
			found++
			if !regexp.MustCompile(`(?m)^` + name + `[ {]`).MatchString(metrics) {
				t.Errorf("/metrics has no %s, which is in %s", name, x)
			}
		}
		for _, m := range metricLabel.FindAllStringSubmatch(x, -1) {
			checkLabels(t, metrics, m[1], m[2])
		}
	}
	if found < 20 {
		t.Errorf("the dashboard has %d metrics", found)
	}
}

// checkLabels compares the labels in an expression with the metrics. Prometheus adds
// job and instance.
func checkLabels(t *testing.T, metrics, name, labels string) {
	t.Helper()
	for _, l := range labelValue.FindAllStringSubmatch(labels, -1) {
		if l[1] == "job" || l[1] == "instance" {
			continue
		}
		for value := range strings.SplitSeq(l[2], "|") {
			if !regexp.MustCompile(`(?m)^` + name + `\{[^}]*` + l[1] + `="` + value + `"`).MatchString(metrics) {
				t.Errorf("/metrics has no %s with %s=%q", name, l[1], value)
			}
		}
	}
}
