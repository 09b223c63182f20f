package arch

import "godwit/engine/model"

func init() { model.Register("mistral4", model.Arch{Open: openMistral4}) }

// openMistral4 opens Mistral 4: DeepSeek V2's latent attention and experts, with
// queries that are scaled up with their position.
func openMistral4(f *model.File) (model.Model, error) { return openDeepSeek2(f) }
