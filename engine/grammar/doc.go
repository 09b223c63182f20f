// Package grammar keeps generated text inside a grammar.
//
// A [Grammar] comes from GBNF text ([ParseGBNF]), from a JSON schema
// ([FromSchema], [JSON]) or from both together ([Builder]). [Compile] joins it
// with the tokens of a vocabulary ([NewTokens], made once a model). A [State]
// belongs to one sequence: Mask tells which tokens may come next, Accept takes
// the one that was drawn, Done says whether the text may end.
//
//	toks, err := grammar.NewTokens(vocab)
//	g, err := grammar.FromSchema(schema)
//	c, err := grammar.Compile(g, toks)
//	st := c.Start()
//	for {
//		err := st.Mask(mask)        // before sampling
//		tok := sampler.Sample(logits, mask)
//		err = st.Accept(tok)        // never fails for a token of the mask
//	}
//
// The automaton works on bytes, so tokens that hold half a character, or
// several elements of the grammar, need no special care. From every state that
// it reaches the text can be completed: rules that never end are cut out when
// the grammar is compiled.
//
// # How masks are computed
//
// Rules are automata that call each other, so a state is a set of stacks. A
// stack is a chain of frames; a frame is the set of positions in rules that
// share what is below them. Whatever a token does inside the top frame, and in
// frames that it opens above, does not depend on the frames below: that part of
// a mask is computed once a frame by one walk over the trie of all tokens, and
// kept. The walk also lists the nodes of the trie where the top frame ends, and
// only what the trie has below those is walked for the stack at hand. Frames
// and stacks are interned, so equal states are one pointer, and their masks are
// kept too.
package grammar

import "errors"

var (
	// ErrSyntax is wrapped by errors about GBNF text.
	ErrSyntax = errors.New("invalid grammar")
	// ErrSchema is wrapped by errors about JSON schemas.
	ErrSchema = errors.New("invalid schema")
	// ErrInvalid is wrapped by errors about documents that break their schema.
	ErrInvalid = errors.New("the document is not valid")
	// ErrLimit is wrapped by errors about grammars that take too much work.
	ErrLimit = errors.New("grammar too complex")
	// ErrRejected is wrapped by Accept's error about a token outside the grammar.
	ErrRejected = errors.New("token outside the grammar")
	// ErrStuck is wrapped by Mask's error where no token of the vocabulary fits
	// and the text may not end.
	ErrStuck = errors.New("no token continues the grammar")
)
