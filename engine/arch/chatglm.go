package arch

import "godwit/engine/model"

func init() { model.Register("chatglm", model.Arch{Chat: "GLM 4", Open: openChatGLM}) }

// openChatGLM opens ChatGLM 3 and GLM-4-9B: GLM-4-0414 without the norms after the
// halves of a block. Source: arXiv 2406.12793.
func openChatGLM(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindGLM(f, func(int, *block) {})
	return m, nil
}
