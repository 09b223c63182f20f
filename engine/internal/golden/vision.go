package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"godwit/engine/llm"
)

// Tower is a model of golden/vision: a projector, a text model, and a
// reference's results for pictures.
type Tower struct {
	Name, Family string
	MMProj, Text string // file names
	Arch         string `json:"text_arch"`
	Vocab        int    `json:"n_vocab"`
	Width        int    `json:"embd_width"`
	MRope        bool
	Images       []struct{ File string }
	Pixels       string  `json:"pixels_file"`
	Embds        string  `json:"embd_ideal_file"`
	Logits       string  `json:"logits_ideal_file"`
	PixelBound   float64 `json:"tolerance_pixels"`
	EmbdBound    float64 `json:"tolerance_embd"`
	LogitBound   float64 `json:"tolerance_logits"`
	Stages       []Stage
	StagesFile   string `json:"stages_file"`
	Runs         []TowerRun
}

// Stage is an intermediate state of a tower.
type Stage struct {
	Name   string
	Shape  [2]int
	Offset int
}

// TowerRun is one prompt with its pictures.
type TowerRun struct {
	Prompt        string
	Images        []int
	Min           int `json:"image_min_tokens"`
	Max           int `json:"image_max_tokens"`
	Chunks        []Chunk
	Tokens        int         `json:"n_tokens"`
	Past          int         `json:"n_past"`
	Positions     []int       `json:"logit_index"`
	Offset        int         `json:"logits_offset"`
	Greedy        []llm.Token // tokens after the prompt
	GreedyMargins []float64   `json:"greedy_margins"`
}

// Chunk is a piece of text or a tile of a picture.
type Chunk struct {
	Type         string
	Pos          int
	Tokens       []llm.Token
	Count        int    `json:"n_tokens"`
	Positions    int    `json:"n_pos"`
	NonCausal    bool   `json:"non_causal"`
	Shape        [3]int `json:"pixels_shape"`
	PixelsOffset int    `json:"pixels_offset"`
	EmbdOffset   int    `json:"embd_offset"`
	Image        int
	Tile         json.RawMessage
	Coords       [][3]int `json:"positions"`
}

// Towers returns the models of golden/vision.
func Towers(t testing.TB) []Tower {
	t.Helper()
	var list struct{ Models []Tower }
	if err := json.Unmarshal(Read(t, "vision", "manifest.json"), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Models) == 0 {
		t.Fatal("golden/vision lists no model")
	}
	return list.Models
}

// Path returns the path of one of the model's files.
func (m *Tower) Path(t testing.TB, name string) string {
	t.Helper()
	return Path(t, "vision", name)
}

// Floats reads a file of the model.
func (m *Tower) Floats(t testing.TB, name string) []float32 {
	t.Helper()
	return floats(Read(t, "vision", name))
}

// Picture reads picture i.
func (m *Tower) Picture(t testing.TB, i int) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Clean(m.Path(t, m.Images[i].File)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
