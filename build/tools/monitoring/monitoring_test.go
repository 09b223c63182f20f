// Package monitoring checks the form of the files in build/monitoring. What they read
// is checked in app/api, against a running server.
package monitoring

import (
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestScrape parses the scrape configuration with the fields of Prometheus' format.
func TestScrape(t *testing.T) {
	f, err := os.Open(filepath.Join("..", "..", "monitoring", "prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var c struct {
		Jobs []struct {
			Name          string `yaml:"job_name"`
			Path          string `yaml:"metrics_path"`
			Interval      string `yaml:"scrape_interval"`
			Scheme        string `yaml:"scheme"`
			Authorization struct {
				Type string `yaml:"type"`
				File string `yaml:"credentials_file"`
			} `yaml:"authorization"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	d := yaml.NewDecoder(f)
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	if len(c.Jobs) != 1 {
		t.Fatalf("%d jobs", len(c.Jobs))
	}
	j := c.Jobs[0]
	if j.Name != "godwit" || j.Path != "/metrics" || j.Scheme != "http" || j.Authorization.Type != "Bearer" || j.Authorization.File == "" || len(j.Static) != 1 || len(j.Static[0].Targets) != 1 {
		t.Errorf("%+v", j)
	}
}
