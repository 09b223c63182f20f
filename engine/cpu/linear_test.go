package cpu

import (
	"testing"

	"godwit/engine/cpu/kernel"
)

// The tasks cover all panels of all matrices in order, and their sizes differ
// by at most one panel.
func TestPanelRuns(t *testing.T) {
	for _, panels := range [][]int{{1}, {36}, {36, 12, 12}, {96, 96}, {3072}, {1, 1, 1}, {7, 300, 1}} {
		var list []linear
		total := 0
		for _, n := range panels {
			list = append(list, linear{m: &mat{w: floatWeight("w", make([]float32, n*kernel.PanelRows), 1, n*kernel.PanelRows)}})
			total += n
		}
		for _, n := range []int{1, 4, 8, 12, 64} {
			tasks := panelRuns(list, n)
			if len(tasks) != min(n, total) {
				t.Fatalf("%v in %d: %d tasks", panels, n, len(tasks))
			}
			matrix, panel := 0, 0
			for i, runs := range tasks {
				size := 0
				for _, r := range runs {
					if panel == panels[matrix] {
						matrix, panel = matrix+1, 0
					}
					if r.l != &list[matrix] || r.from != panel || r.to <= r.from || r.to > panels[matrix] {
						t.Fatalf("%v in %d: task %d takes %d to %d, not from %d of matrix %d on", panels, n, i, r.from, r.to, panel, matrix)
					}
					panel, size = r.to, size+r.to-r.from
				}
				if least := total / len(tasks); size != least && size != least+1 {
					t.Errorf("%v in %d: task %d has %d panels", panels, n, i, size)
				}
			}
			if matrix != len(panels)-1 || panel != panels[matrix] {
				t.Errorf("%v in %d: tasks end at panel %d of matrix %d", panels, n, panel, matrix)
			}
		}
	}
}
