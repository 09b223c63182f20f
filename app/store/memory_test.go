package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// TestMemory uses a store in memory from many goroutines and cancels some of the calls.
// Another store in memory does not see its chats.
func TestMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	s, other := must[*Store](t)(OpenMemory(Options{})), must[*Store](t)(OpenMemory(Options{}))
	ctx := context.Background()
	first := must[Chat](t)(s.CreateChat(ctx, Chat{System: "Be brief."}))
	if !first.Private || !Private(first.ID) || Private(firstPrivate) || Private(1) {
		t.Fatalf("the first private chat is %+v", first)
	}
	var work sync.WaitGroup
	for i := range 8 {
		work.Go(func() {
			for j := range 20 {
				short, stop := context.WithTimeout(ctx, time.Duration(j)*50*time.Microsecond)
				_, _, _ = s.Path(short, first.ID, Page{})
				_, _ = s.Append(short, Message{Chat: first.ID, Role: User, Content: "given up"})
				stop()
				m, err := s.Append(ctx, Message{Chat: first.ID, Role: User, Content: fmt.Sprintf("word%d of %d", j, i)})
				if err != nil || !Private(m.ID) {
					t.Errorf("message %+v, %v", m, err)
				}
			}
		})
	}
	work.Wait()
	hits := must[[]Hit](t)(s.Search(ctx, "word19", 0))
	if len(hits) != 8 || hits[0].Chat != first.ID {
		t.Errorf("%d of 8 messages are found", len(hits))
	}
	if list := must[[]Chat](t)(other.Chats(ctx, List{})); len(list) > 0 {
		t.Errorf("another store in memory has %v", list)
	}
	if _, err := s.ChangeChat(ctx, first.ID, ChatChange{Folder: new(int64(1))}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a private chat in a folder: %v", err)
	}
	if err := s.DeleteChat(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	if hits := must[[]Hit](t)(s.Search(ctx, "word", 0)); len(hits) > 0 {
		t.Errorf("a deleted chat is found: %v", hits)
	}
	for _, s := range []*Store{s, other} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("files %v, %v", files, err)
	}
}
