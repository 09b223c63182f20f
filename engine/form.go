package engine

import (
	"errors"
	"fmt"

	"godwit/engine/chat"
	"godwit/engine/grammar"
	"godwit/engine/tokenizer"
)

// formRule is the name of the form's rule in the grammar of an answer.
const formRule = "form"

// constraint returns the grammar of a whole answer, or nil if nothing constrains it. form
// is the grammar of the text, or nil for free text. If one is true, at most one call
// is allowed.
//
// A required call is the whole answer. With a JSON form and tools, the model may call a
// tool instead. A GBNF grammar from the user applies literally. If the prompt opens the
// reasoning, the grammar starts after it.
func (c *Chat) constraint(p *chat.Prompt, t *tokenizer.Tokenizer, form *grammar.Grammar, one bool, v *verifier) (*grammar.Grammar, error) {
	forced := c.ToolChoice == "required" || c.named()
	o := chat.GrammarOptions{Parallel: !one}
	switch {
	case forced:
		if c.named() {
			o.Choice = c.ToolChoice
		}
	case form == nil:
		return nil, nil
	case form.IsJSON():
		o.Form, o.Silent = formRule, !p.HasTools()
		wanted := c.Thinking != nil && *c.Thinking
		if o.Silent && !p.Open && !wanted && p.Kind != chat.Harmony {
			return form, nil
		}
	case !p.Open:
		return form, nil
	default:
		o.Form, o.Silent = formRule, true
	}
	rules, err := p.Grammar(o)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return compose(rules, t, o.Form, form, v)
}

// compose builds the grammar of rules for a vocabulary. v checks the parts of the schemas
// that the grammar leaves out.
func compose(rules *chat.CallGrammar, t *tokenizer.Tokenizer, name string, form *grammar.Grammar, v *verifier) (*grammar.Grammar, error) {
	b := grammar.NewBuilder()
	err := b.AddGBNF(rules.GBNF)
	for _, s := range rules.Schemas {
		f := &rules.Functions[s.Function]
		left, wrong := addSchema(b, s, f.Strict)
		f.Left = append(f.Left, left...)
		err = errors.Join(err, wrong)
	}
	for i := range rules.Functions {
		f := &rules.Functions[i]
		if !f.Whole { // the rules cover single arguments only, so collect the schema's other keywords as not enforced
			left, wrong := addSchema(grammar.NewBuilder(), chat.RuleSchema{Rule: "whole", Schema: f.Params}, f.Strict)
			f.Left = append(f.Left, left...)
			err = errors.Join(err, wrong)
		}
		v.function(f)
	}
	for _, r := range rules.Tokens {
		if id, ok := t.Find(r.Text); ok && t.IsControl(id) {
			err = errors.Join(err, b.AddRule(r.Rule, fmt.Sprintf("<[%d]>", id)))
		} else {
			err = errors.Join(err, b.AddLiteral(r.Rule, r.Text))
		}
	}
	if name != "" {
		err = errors.Join(err, b.AddGrammar(name, form))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, &chat.InputError{Path: "tools", Msg: err.Error()})
	}
	return b.Grammar("root")
}

// addSchema adds a rule for a schema. If the schema is not strict, it returns the
// keywords that the rule does not enforce.
func addSchema(b *grammar.Builder, s chat.RuleSchema, strict bool) ([]string, error) {
	if strict {
		return nil, b.AddSchema(s.Rule, s.Schema, s.At...)
	}
	return b.AddLooseSchema(s.Rule, s.Schema, s.At...)
}

// spare limits the reasoning before an answer with a form to half of the tokens that are
// left. Otherwise endless reasoning would use up the limit and leave the answer empty.
func (r *Request) spare(room int) {
	if r.Budget != nil && r.Budget.Tokens >= 0 {
		return
	}
	if r.MaxTokens > 0 {
		room = min(room, r.MaxTokens)
	}
	b := Budget{Tokens: max(room/2, 0)}
	if r.Budget != nil {
		b.Message = r.Budget.Message
	}
	r.Budget = &b
}
