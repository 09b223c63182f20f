package cpu

import (
	"context"
	"sync/atomic"
	"testing"
)

// Every task of every stage runs exactly once. It runs after all tasks of the
// previous stage.
func TestPool(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		p := newPool(workers)
		const stages, tasks = 20, 17
		var seen [stages][tasks]atomic.Int32
		var finished [stages]atomic.Int32
		var list []stage
		for s := range stages {
			list = append(list, newStage(func() int { return tasks - s%3 }, func(_, task int) {
				if s > 0 && finished[s-1].Load()%int32(tasks-(s-1)%3) != 0 {
					t.Errorf("stage %d began before the end of stage %d", s, s-1)
				}
				seen[s][task].Add(1)
				finished[s].Add(1)
			}))
		}
		p.ready(list)
		const runs = 200
		for i := range runs {
			if err := p.run(context.Background(), &list, i%2 == 0); err != nil {
				t.Fatal(err)
			}
		}
		p.close()
		for s := range stages {
			for task := range tasks {
				want := int32(runs)
				if task >= tasks-s%3 {
					want = 0
				}
				if got := seen[s][task].Load(); got != want {
					t.Errorf("%d workers: task %d of stage %d ran %d times, want %d", workers, task, s, got, want)
				}
			}
		}
	}
}
