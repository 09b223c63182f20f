package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"godwit/app/store"
	"godwit/engine"
)

// Default and maximum number of messages in a page, and maximum bytes of an import.
const (
	someMessages = 60
	mostMessages = 300
	maxImport    = 256 << 20
)

func (p *Page) chatsChanged() { p.events.publish("chats", "chats", struct{}{}) }

// chatChanged notifies windows that a chat's messages have changed.
func (p *Page) chatChanged(chat, message int64) {
	p.events.publish("chat", keyOf("chat", chat), map[string]int64{"chat": chat, "message": message})
}

func (p *Page) listChats(_ http.ResponseWriter, r *http.Request) (any, error) {
	chats, err := p.everyChat(r.Context())
	if err != nil {
		return nil, err
	}
	folders, err := p.o.Store.Folders(r.Context())
	return map[string]any{"chats": chats, "folders": folders, "unseen": p.answers.fresh()}, err
}

// seenChat receives a window's report that it shows the newest answer of a chat.
func (p *Page) seenChat(_ http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err == nil && p.answers.seen(chat) {
		p.chatsChanged()
	}
	return nil, err
}

func (p *Page) createChat(w http.ResponseWriter, r *http.Request) (any, error) {
	var c store.Chat
	if err := read(w, r, textBody, &c); err != nil {
		return nil, err
	}
	if _, _, err := readSettings(c.Settings); err != nil {
		return nil, err
	}
	into := p.o.Store
	if c.Private {
		into = p.private.chats
		defer p.forgetLater()
	}
	made, err := into.CreateChat(r.Context(), store.Chat{Title: c.Title, Folder: c.Folder, Model: c.Model, System: c.System, Settings: c.Settings})
	if err != nil {
		return nil, err
	}
	p.chatsChanged()
	return made, nil
}

// opened is a chat with one page of its messages.
type opened struct {
	Chat     store.Chat      `json:"chat"`
	Messages []store.Message `json:"messages"`
	Total    int             `json:"total"`
}

func (p *Page) openChat(_ http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	o := opened{}
	if o.Chat, err = p.chats(chat).Chat(r.Context(), chat); err != nil {
		return nil, err
	}
	around, err := number(r, "around")
	if err != nil {
		return nil, err
	}
	part, err := p.part(r)
	if err != nil {
		return nil, err
	}
	if around > 0 {
		depth, err := p.depth(r, int64(around))
		if err != nil {
			return nil, err
		}
		part.Before = depth + part.Limit/2
	}
	o.Messages, o.Total, err = p.messages(r, chat, part)
	return o, err
}

// depth returns the number of messages above a message.
func (p *Page) depth(r *http.Request, message int64) (int, error) {
	m, err := p.chats(message).Message(r.Context(), message)
	if err != nil {
		return 0, err
	}
	path, _, err := p.chats(m.Chat).Path(r.Context(), m.Chat, store.Page{})
	if err != nil {
		return 0, err
	}
	for i := range path {
		if path[i].ID == message {
			return i, nil
		}
	}
	return len(path), nil
}

func (p *Page) part(r *http.Request) (store.Page, error) {
	before, err := number(r, "before")
	if err != nil {
		return store.Page{}, err
	}
	limit, err := number(r, "limit")
	if limit == 0 {
		limit = someMessages
	}
	return store.Page{Before: before, Limit: min(limit, mostMessages)}, err
}

// messages reads a page of a chat, including the current text of running answers.
func (p *Page) messages(r *http.Request, chat int64, part store.Page) ([]store.Message, int, error) {
	list, total, err := p.chats(chat).Path(r.Context(), chat, part)
	for i := range list {
		if a := p.answers.of(list[i].ID); a != nil {
			a.fill(&list[i])
		}
	}
	return list, total, err
}

func (p *Page) listMessages(_ http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	part, err := p.part(r)
	if err != nil {
		return nil, err
	}
	list, total, err := p.messages(r, chat, part)
	return map[string]any{"messages": list, "total": total}, err
}

func (p *Page) changeChat(w http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	var change store.ChatChange
	if err := read(w, r, textBody, &change); err != nil {
		return nil, err
	}
	if change.Settings != nil {
		if _, _, err := readSettings(*change.Settings); err != nil {
			return nil, err
		}
	}
	now, err := p.chats(chat).ChangeChat(r.Context(), chat, change)
	if err != nil {
		return nil, err
	}
	p.chatsChanged()
	return now, nil
}

func (p *Page) deleteChat(_ http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	return nil, p.dropChat(r.Context(), chat)
}

// dropChat stops the answers of a chat and deletes the chat.
func (p *Page) dropChat(ctx context.Context, chat int64) error {
	if err := p.answers.end(ctx, chat); err != nil {
		return err
	}
	defer p.answers.give(chat)
	p.answers.seen(chat)
	texts, err := p.chats(chat).Prefixes(ctx, chat)
	if err != nil {
		return err
	}
	if err := p.chats(chat).DeleteChat(ctx, chat); err != nil {
		return err
	}
	p.eraseTexts(texts)
	p.chatsChanged()
	return nil
}

// eraseTexts deletes texts from the caches. An invalid key is ignored.
func (p *Page) eraseTexts(texts [][]byte) {
	var keys []engine.PrefixKey
	for _, text := range texts {
		if len(text) == len(engine.PrefixKey{}) {
			keys = append(keys, engine.PrefixKey(text))
		}
	}
	p.spawn(func() {
		ctx, cancel := p.lasting()
		defer cancel()
		if err := p.models.EraseText(ctx, keys); err != nil {
			p.log.Warn("deleted chat not erased from the cache", "err", err)
		}
	})
}

func (p *Page) exportChat(w http.ResponseWriter, r *http.Request) (any, error) {
	chat, err := id(r)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	kind, err := p.export(r.Context(), &out, chat, r.URL.Query().Get("as"))
	if err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(out.Bytes()) // the page may have disconnected
	return sent{}, nil
}

// export writes a chat as json or markdown and returns the media type.
func (p *Page) export(ctx context.Context, w io.Writer, chat int64, as string) (kind string, err error) {
	switch as {
	case "json":
		return "application/json", p.chats(chat).ExportJSON(ctx, w, chat)
	case "markdown":
		return "text/markdown; charset=utf-8", p.chats(chat).ExportMarkdown(ctx, w, chat)
	}
	return "", bad(textExportForm, as)
}

func (p *Page) exportAll(w http.ResponseWriter, r *http.Request) (any, error) {
	chats, err := p.o.Store.Chats(r.Context(), store.List{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(chats) == 0 {
		return nil, bad(textNoChats)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := p.o.Store.ExportJSON(r.Context(), w); err != nil {
		p.log.Warn("export not finished", "err", err)
		panic(http.ErrAbortHandler) // an aborted response, so that the browser does not keep a partial file
	}
	return sent{}, nil
}

func (p *Page) importChats(w http.ResponseWriter, r *http.Request) (any, error) {
	ctx := context.WithoutCancel(r.Context()) // chats that were read are stored even if the window closes
	asked, wrong := 0, map[int]error{}        // number of chats read so far, and errors by index of the chat
	made, err := p.o.Store.Import(ctx, http.MaxBytesReader(w, r.Body, maxImport+1), func(settings json.RawMessage) error {
		_, _, err := readSettings(settings)
		if err != nil {
			wrong[asked] = err
		}
		asked++
		return err
	})
	if err != nil {
		return nil, err
	}
	p.chatsChanged()
	p.sayLeftOut(made, wrong)
	return map[string]any{"chats": made}, nil
}

// sayLeftOut shows one notice if invalid settings of imported chats were left
// out, even if there were several.
func (p *Page) sayLeftOut(chats []store.Chat, wrong map[int]error) {
	if len(wrong) == 0 {
		return
	}
	first := slices.Min(slices.Collect(maps.Keys(wrong)))
	said := fmt.Sprintf(noticeLeftOut, chats[first].Title, wrong[first])
	if more := len(wrong) - 1; more > 0 {
		said += fmt.Sprintf(noticeMoreLeftOut, more)
	}
	p.say("warning", said)
}

func (p *Page) search(_ http.ResponseWriter, r *http.Request) (any, error) {
	var all []store.Hit
	for _, s := range []*store.Store{p.private.chats, p.o.Store} {
		hits, err := s.Search(r.Context(), r.URL.Query().Get("q"), 50)
		if err != nil {
			return nil, err
		}
		all = append(all, hits...)
	}
	return all[:min(len(all), 50)], nil
}

func (p *Page) saveFolder(w http.ResponseWriter, r *http.Request) (any, error) {
	var f store.Folder
	if err := read(w, r, smallBody, &f); err != nil {
		return nil, err
	}
	f, err := p.o.Store.SaveFolder(r.Context(), f)
	if err != nil {
		return nil, err
	}
	p.chatsChanged()
	return f, nil
}

func (p *Page) deleteFolder(_ http.ResponseWriter, r *http.Request) (any, error) {
	folder, err := id(r)
	if err != nil {
		return nil, err
	}
	if err := p.o.Store.DeleteFolder(r.Context(), folder); err != nil {
		return nil, err
	}
	p.chatsChanged()
	return nil, nil
}

// choose shows the branch of a message.
func (p *Page) choose(_ http.ResponseWriter, r *http.Request) (any, error) {
	message, err := id(r)
	if err != nil {
		return nil, err
	}
	m, err := p.chats(message).Message(r.Context(), message)
	if err != nil {
		return nil, err
	}
	if err := p.chats(message).Choose(r.Context(), message); err != nil {
		return nil, err
	}
	p.chatChanged(m.Chat, message)
	return nil, nil
}

func (p *Page) deleteMessage(_ http.ResponseWriter, r *http.Request) (any, error) {
	message, err := id(r)
	if err != nil {
		return nil, err
	}
	m, err := p.chats(message).Message(r.Context(), message)
	if err != nil {
		return nil, err
	}
	if !p.answers.reserve(m.Chat) {
		return nil, errAnswering
	}
	defer p.answers.give(m.Chat)
	if err := p.chats(message).DeleteMessage(r.Context(), message); err != nil {
		return nil, err
	}
	p.chatChanged(m.Chat, message)
	return nil, nil
}
