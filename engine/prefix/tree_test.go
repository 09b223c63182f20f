package prefix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/llm"
)

// tree compares a store's counts with its contents.
func tree(s *Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kids, in := map[Key]int{}, map[Key][2]int{}
	var bytes [2]int64
	for key, n := range s.nodes {
		var held [2]int64
		for _, b := range n.parts {
			if b != nil && b.in {
				held[memory] += int64(b.size) + overhead
			}
			if b != nil && b.chunk != nil {
				held[onDisk] += int64(b.size) + overhead
			}
		}
		if n.key != key || n.in[memory].bytes != held[memory] || n.in[onDisk].bytes != held[onDisk] {
			return fmt.Errorf("node %x holds %d bytes and counts %d and %d", key[:4], held, n.in[memory].bytes, n.in[onDisk].bytes)
		}
		kids[n.parent]++
		of := in[n.parent]
		for t := range of {
			bytes[t] += held[t]
			if held[t] > 0 {
				of[t]++
			}
		}
		in[n.parent] = of
	}
	for key, n := range s.nodes {
		if of := in[key]; n.kids != kids[key] || n.in[memory].kids != of[memory] || n.in[onDisk].kids != of[onDisk] {
			return fmt.Errorf("%d, %d and %d nodes hang on node %x, which counts %d, %d and %d",
				kids[key], of[memory], of[onDisk], key[:4], n.kids, n.in[memory].kids, n.in[onDisk].kids)
		}
		if n.kids == 0 && !slices.ContainsFunc(n.parts, func(b *blob) bool { return b != nil }) {
			return fmt.Errorf("node %x is empty and nothing hangs on it", key[:4])
		}
		if n.before > 0 && s.nodes[n.parent] == nil {
			return fmt.Errorf("node %x hangs on nothing", key[:4])
		}
	}
	if bytes != [2]int64{s.mem.bytes, s.held.bytes} {
		return fmt.Errorf("%d bytes are there, %d and %d are counted", bytes, s.mem.bytes, s.held.bytes)
	}
	return owners(s)
}

// owners compares the counts of the owners with the contents, and with their limits.
func owners(s *Store) error {
	var bytes, nodes [2]map[*owner]int64
	for t := range bytes {
		bytes[t], nodes[t] = map[*owner]int64{}, map[*owner]int64{}
		for key, n := range s.nodes {
			if p := s.nodes[n.parent]; p != nil && p.owner != n.owner {
				return fmt.Errorf("node %x has another owner than its parent", key[:4])
			}
			if n.in[t].bytes > 0 {
				bytes[t][n.owner] += n.in[t].bytes
				nodes[t][n.owner]++
			}
			if there := n.in[t].mine != nil; there != (n.owner != nil && n.in[t].bytes > 0) {
				return fmt.Errorf("node %x is listed for its owner: %v", key[:4], there)
			}
		}
		for _, o := range s.owners {
			if x := &o.tiers[t]; x.bytes != bytes[t][o] || x.order.Len() != int(nodes[t][o]) || x.bytes > x.most {
				return fmt.Errorf("an owner has %d bytes of %d in %d nodes, and counts %d in %d", bytes[t][o], x.most, nodes[t][o], x.bytes, x.order.Len())
			}
		}
	}
	return nil
}

// A store's counts of children and bytes stay right while records are added,
// thinned, removed and dropped.
func TestTree(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 3))
		dir, disk := "", int64(0)
		if seed%2 > 0 {
			dir, disk = t.TempDir(), 2<<20
		}
		s, _ := open(t, dir, disk, []int64{60_000, 400_000, 8 << 20}[rng.IntN(3)])
		root := s.RootOf(Origin{ID: "model"}, "a/salt")
		if seed >= 4 {
			s.SetLimits(map[string]int64{"a": []int64{50_000, 300_000}[rng.IntN(2)], "b": 1000})
		}
		texts := [][]llm.Token{text(seed, 40*PageTokens)}
		for i := range 150 {
			base := texts[rng.IntN(len(texts))]
			tokens := append(slices.Clone(base[:rng.IntN(len(base)+1)]), text(seed<<20|uint64(i), rng.IntN(6*PageTokens))...)
			texts = append(texts, tokens)
			keep(s, root, tokens, 300)
			switch rng.IntN(8) {
			case 0:
				var keys []Key
				for at := root; len(keys) < len(tokens)/PageTokens; at = keys[len(keys)-1] {
					keys = append(keys, s.Next(at, tokens[len(keys)*PageTokens:(len(keys)+1)*PageTokens]))
				}
				s.Forget(keys)
			case 1:
				m := s.Match(root, tokens)
				m.Use(rng.IntN(len(tokens) + 1))
			case 2:
				s.Sync()
			case 3:
				s.Erase(endOf(s, root, tokens))
				if got, _ := check(t, s, root, tokens, 300); len(tokens) > len(base) && got > len(base)/PageTokens+1 {
					t.Fatalf("seed %d: %d pages of an erased text are left", seed, got)
				}
			}
			if err := tree(s); err != nil {
				t.Fatalf("seed %d, after %d texts: %v", seed, i+1, err)
			}
		}
		if err := s.Clear(); err != nil {
			t.Fatal(err)
		}
		if err := tree(s); err != nil || len(s.nodes) > 0 {
			t.Fatalf("seed %d, cleared: %d nodes, %v", seed, len(s.nodes), err)
		}
	}
}
