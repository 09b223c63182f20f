package prefix

import (
	"testing"
)

// bytesOf returns the bytes of an owner's records, with their overhead, in each tier.
func bytesOf(s *Store, name string) (bytes [2]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := s.tag(name)
	for _, n := range s.nodes {
		root := n
		for p := s.nodes[root.parent]; p != nil; p = s.nodes[root.parent] {
			root = p
		}
		if tag(root.key[len(root.key)-len(want):]) != want {
			continue
		}
		for _, b := range n.parts {
			if b != nil && b.in {
				bytes[memory] += int64(b.size) + overhead
			}
			if b != nil && b.chunk != nil {
				bytes[onDisk] += int64(b.size) + overhead
			}
		}
	}
	return bytes
}

// An owner never has more bytes than the limit, in memory and on disk, and loses the
// records that were not used for the longest time. Records of others stay, though they
// are older. After a restart the limit applies to what the folder has.
func TestOwners(t *testing.T) {
	const size, limit = 1000, 50_000 // a text of three pages and a point takes 10.6 kB
	for _, onDisks := range []bool{false, true} {
		dir, disk := "", int64(0)
		if onDisks {
			dir, disk = t.TempDir(), 64<<20
		}
		s, _ := open(t, dir, disk, 64<<20)
		s.SetLimits(map[string]int64{"a": limit})
		of := func(s *Store, salt string) Key { return s.RootOf(Origin{ID: "model"}, salt) }
		other := of(s, "b/")
		for i := range 8 {
			keep(s, other, text(uint64(100+i), 200), size)
		}
		salts := []string{"a/", "a/own salt"}
		used := text(1, 200)
		keep(s, of(s, "a/"), used, size)
		for i := range 40 {
			s.Match(of(s, "a/"), used).Use(200)
			keep(s, of(s, salts[i%2]), text(uint64(2+i), 200), size)
			s.Sync()
			if n := bytesOf(s, "a"); n[memory] > limit || n[onDisk] > limit {
				t.Fatalf("after %d texts the owner has %d bytes, the limit is %d", i+2, n, limit)
			}
			if err := tree(s); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytesOf(s, "a"); n[memory] < limit/2 || onDisks && n[onDisk] < limit/2 {
			t.Errorf("the owner has only %d bytes of %d", n, limit)
		}
		want(t, s, of(s, "a/"), used, size, 3, 1)
		want(t, s, of(s, salts[1]), text(41, 200), size, 3, 1)
		if p, _ := check(t, s, of(s, "a/"), text(2, 200), size); p == 3 {
			t.Error("the oldest text of the owner is still there")
		}
		for i := range 8 {
			want(t, s, other, text(uint64(100+i), 200), size, 3, 1)
		}
		if !onDisks {
			continue
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s, _ = open(t, dir, disk, 64<<20)
		s.SetLimits(map[string]int64{"a": limit / 4, "c": 1})
		if n := bytesOf(s, "a"); n[onDisk] > limit/4 || n[onDisk] == 0 {
			t.Errorf("after a restart the owner has %d bytes on disk, the limit is %d", n[onDisk], limit/4)
		}
		if err := tree(s); err != nil {
			t.Fatal(err)
		}
		want(t, s, of(s, "b/"), text(100, 200), size, 3, 1)
	}
}

// The end of a text that is longer than the limit is not stored, and what is stored
// stays.
func TestOwnerOfLongText(t *testing.T) {
	s, _ := open(t, "", 0, 64<<20)
	s.SetLimits(map[string]int64{"a": 30_000})
	root := s.RootOf(Origin{ID: "model"}, "a/")
	long := text(1, 64*40)
	for range 3 {
		keep(s, root, long, 1000)
		if pages, _ := check(t, s, root, long, 1000); pages != 9 {
			t.Fatalf("%d pages are stored", pages)
		}
	}
}
