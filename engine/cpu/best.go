package cpu

// best moves the n positions with the largest scores to the front of list, in no particular order.
// It keeps the best positions so far in a heap with the worst of them at the top. A position
// replaces the top only if its score is larger. Scores are sums of ReLUs and therefore often equal.
// Which of the equal ones stay depends on how the heap moves its elements. This heap moves them
// like the one in C++'s standard library, so the choice is the same as llama.cpp's.
func best(list []int32, scores []float32, n int) {
	if n >= len(list) {
		return
	}
	heap := list[:n]
	better := func(a, b int32) bool { return scores[a] > scores[b] }
	for i := n/2 - 1; i >= 0; i-- {
		sink(heap, i, heap[i], better)
	}
	for i := n; i < len(list); i++ {
		if better(list[i], heap[0]) {
			at := list[i]
			list[i] = heap[0]
			sink(heap, 0, at, better)
		}
	}
}

// sink puts at into the heap below the hole i. The hole first moves down to the end, always to the
// worse child. It then moves up to the right place for at.
func sink(heap []int32, i int, at int32, better func(a, b int32) bool) {
	top, n := i, len(heap)
	for 2*i+2 < n {
		child := 2*i + 2
		if better(heap[child], heap[child-1]) {
			child--
		}
		heap[i] = heap[child]
		i = child
	}
	if 2*i+2 == n {
		heap[i] = heap[2*i+1]
		i = 2*i + 1
	}
	for i > top && better(heap[(i-1)/2], at) {
		heap[i] = heap[(i-1)/2]
		i = (i - 1) / 2
	}
	heap[i] = at
}
